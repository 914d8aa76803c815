/**
 * The same client, always over `node:http`.
 *
 * Node, Deno and Bun get it from `tollgate-client` as well. Import it from here if a bundler would choose `fetch`.
 */
import type { Transport, TransportSettings } from "./transport.js";
import { Tollgate as PlainTollgate } from "./tollgate.js";
import { openTransport } from "./transport-node.js";

export * from "./index.js";

/** A client over `node:http`, which also reaches unix sockets. */
export class Tollgate extends PlainTollgate {
  protected override openTransport(settings: TransportSettings, ownFetch?: typeof fetch): Transport {
    return ownFetch === undefined ? openTransport(settings) : super.openTransport(settings, ownFetch);
  }
}
