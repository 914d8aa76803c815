/**
 * The same client, always over `node:http`.
 *
 * Node, Deno and Bun get it from `tollgate-client` as well. Import it from here if a bundler would choose `fetch`.
 */
import { Tollgate as PlainTollgate, type TollgateOptions } from "./tollgate.js";
import { openTransport } from "./transport-node.js";

export * from "./index.js";

/** A client over `node:http`, which also reaches unix sockets. */
export class Tollgate extends PlainTollgate {
  /** Throws a TypeError if an option is wrong. */
  constructor(options: TollgateOptions = {}) {
    super(options, openTransport);
  }
}
