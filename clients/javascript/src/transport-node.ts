/**
 * Requests over `node:http`, for Node, Deno and Bun, with TLS and unix sockets.
 *
 * The `fetch` of Node does not fit: it sends a POST again if a kept connection breaks after the request was sent, and
 * after status 421; it opens any number of connections; and it closes idle ones after 4 s. `node:http` sends a request
 * once.
 */
import { createHash, randomBytes } from "node:crypto";
import * as http from "node:http";
import * as https from "node:https";

import { Failure, type FailureKind } from "./failure.js";
import { longestBody, longestIdle, type Reply, type Transport, type TransportSettings } from "./transport.js";

/** Returns 128 random bits in hexadecimal. */
export function randomId(): string {
  return randomBytes(16).toString("hex");
}

/** Returns the SHA-256 of a text in hexadecimal. */
export async function digest(text: string): Promise<string> {
  return createHash("sha256").update(text).digest("hex");
}

/** Returns a transport over `node:http` or `node:https`. */
export function openTransport(settings: TransportSettings): Transport {
  return new NodeTransport(settings);
}

/** After this time, the event loop may not know yet that the service has closed an idle connection, in milliseconds. */
const turnEvery = 1;

class NodeTransport implements Transport {
  readonly #agent: http.Agent;
  readonly #request: typeof http.request;
  readonly #target: http.RequestOptions;
  #turnedAt = -Infinity;

  constructor({ address, maxConnections }: TransportSettings) {
    const secure = address.kind === "web" && address.url.protocol === "https:";
    const options = { keepAlive: true, maxSockets: maxConnections, maxFreeSockets: maxConnections, timeout: longestIdle };
    this.#agent = secure ? new https.Agent(options) : new http.Agent(options);
    this.#request = secure ? https.request : http.request;
    if (address.kind === "unix") {
      this.#target = { socketPath: address.path, host: "localhost" };
    } else {
      const { hostname, port } = address.url;
      // In a URL, an IPv6 address is in brackets; a socket takes it without.
      this.#target = { host: hostname.replace(/^\[|\]$/g, ""), port: port === "" ? (secure ? 443 : 80) : Number(port) };
    }
  }

  async send(path: string, headers: Record<string, string>, body: string, ms: number): Promise<Reply> {
    const started = performance.now();
    if (started - this.#turnedAt > turnEvery && this.#idleSockets().length > 0) {
      await turn();
      this.#turnedAt = performance.now();
      for (const socket of this.#idleSockets()) if (socket.readableEnded || !socket.writable) socket.destroy();
    }
    return this.#exchange(path, headers, body, ms - (performance.now() - started));
  }

  close(): void {
    this.#agent.destroy();
  }

  #idleSockets() {
    return Object.values(this.#agent.freeSockets).flatMap((sockets) => sockets ?? []);
  }

  #exchange(path: string, headers: Record<string, string>, body: string, ms: number): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const request = this.#request({
        ...this.#target,
        agent: this.#agent,
        method: "POST",
        path,
        headers: { ...headers, "Content-Length": Buffer.byteLength(body) },
      });
      let done = false;
      const fail = (kind: FailureKind, detail: string) => {
        // A request closes after its answer too; its connection is kept.
        if (done) return;
        done = true;
        clearTimeout(timer);
        reject(new Failure(kind, detail));
        request.destroy();
      };
      const timer = setTimeout(() => fail("timeout", "no whole answer within the timeout"), Math.ceil(ms));
      // Deno sends a request again if it believes that its connection was kept, also after `destroy`
      // (denoland/deno#36786); Node ignores the flag.
      request.on("socket", () => (request.reusedSocket = false));
      request.on("error", (error: NodeJS.ErrnoException) => {
        // What llhttp cannot parse is no HTTP.
        fail(error.code?.startsWith("HPE_") ? "invalid" : "connection", causeOf(error));
      });
      // Also after an answer that ends in the middle.
      request.on("close", () => fail("connection", "the connection closed before the answer was whole"));
      // The service sends no interim answer. What follows a switch of protocols would never end.
      const early = ({ statusCode }: { statusCode?: number | undefined }) => fail("invalid", `status ${statusCode}, and no answer of the service`);
      request.on("information", early);
      request.on("upgrade", (response, socket) => {
        early(response);
        socket.destroy();
      });
      request.on("response", (response) => {
        if ((response.statusCode ?? 0) < 200) return early(response);
        const chunks: Buffer[] = [];
        let length = 0;
        response.on("data", (chunk: Buffer) => {
          length += chunk.length;
          if (length > longestBody) fail("invalid", "the answer has more than 1 MiB");
          else chunks.push(chunk);
        });
        response.on("error", (error) => fail("connection", causeOf(error)));
        response.on("end", () => {
          if (done) return;
          done = true;
          clearTimeout(timer);
          resolve({ status: response.statusCode ?? 0, headers: pairs(response.rawHeaders), body: Buffer.concat(chunks).toString() });
        });
      });
      request.end(body);
    });
  }
}

/**
 * Waits until the event loop has looked at its sockets once.
 *
 * The first callback may still run before it looks; the second runs after it.
 */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
}

function* pairs(raw: readonly string[]): Iterable<readonly [string, string]> {
  for (let at = 0; at + 1 < raw.length; at += 2) yield [raw[at]!, raw[at + 1]!];
}

/** Returns the error's text; an error about several addresses has its text in its parts. */
function causeOf(error: Error): string {
  const parts = error instanceof AggregateError ? error.errors : [];
  return error.message || parts.map((part) => (part as Error).message).join(", ") || error.name;
}
