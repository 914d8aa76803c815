/**
 * Requests over `fetch`, for workers and browsers, and for a `fetch` that the caller gives.
 *
 * Node and Deno use `transport-node.ts` instead: the `fetch` of both repeats a POST on a new connection if a kept
 * one breaks after the request was sent, so a check would be counted twice.
 */
import { Failure } from "./failure.js";
import { longestBody, type Reply, type Transport, type TransportSettings } from "./transport.js";

type Fetch = typeof fetch;

/** Returns 128 random bits in hexadecimal. */
export function randomId(): string {
  return hexadecimal(crypto.getRandomValues(new Uint8Array(16)));
}

/** Returns the SHA-256 of a text in hexadecimal. */
export async function digest(text: string): Promise<string> {
  return hexadecimal(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));
}

/** Returns a transport over the runtime's `fetch`. */
export function openTransport(settings: TransportSettings): Transport {
  // Looked up at each call, so that a test can replace it; workers need it called on the global object.
  return new FetchTransport(settings, (input, init) => fetch(input, init));
}

/** A transport over a `fetch`. */
export class FetchTransport implements Transport {
  readonly #fetch: Fetch;
  readonly #origin: string;

  constructor({ address }: TransportSettings, fetch: Fetch) {
    if (address.kind === "unix") throw new TypeError("url is a unix socket, which fetch does not reach; import from tollgate-client/node");
    this.#fetch = fetch;
    this.#origin = address.url.origin;
  }

  async send(path: string, headers: Record<string, string>, body: string, ms: number): Promise<Reply> {
    const abort = new AbortController();
    // A fetch that ignores its signal must not hang the call.
    let late!: (failure: Failure) => void;
    const timeout = new Promise<never>((_, reject) => (late = reject));
    const timer = setTimeout(() => {
      late(new Failure("timeout", "no whole answer within the timeout"));
      abort.abort();
    }, ms);
    try {
      return await Promise.race([this.#exchange(path, headers, body, abort), timeout]);
    } catch (error) {
      if (error instanceof Failure) throw error;
      throw new Failure("connection", error instanceof Error ? error.message : "fetch failed");
    } finally {
      clearTimeout(timer);
    }
  }

  close(): void {
    // The runtime owns the connections.
  }

  async #exchange(path: string, headers: Record<string, string>, body: string, abort: AbortController): Promise<Reply> {
    const { signal } = abort;
    const response = await this.#fetch(this.#origin + path, { method: "POST", headers, body, redirect: "manual", signal });
    if (response.status > 0 && response.status < 200) {
      abort.abort();
      throw new Failure("invalid", `status ${response.status}, and no answer of the service`);
    }
    const chunks: Uint8Array[] = [];
    let length = 0;
    const reader = response.body?.getReader();
    for (let read = await reader?.read(); read !== undefined && !read.done; read = await reader?.read()) {
      length += read.value.length;
      if (length > longestBody) {
        abort.abort();
        throw new Failure("invalid", "the answer has more than 1 MiB");
      }
      chunks.push(read.value);
    }
    return { status: response.status, headers: response.headers, body: decode(chunks, length) };
  }
}

function hexadecimal(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function decode(chunks: readonly Uint8Array[], length: number): string {
  const bytes = new Uint8Array(length);
  let end = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, end);
    end += chunk.length;
  }
  return new TextDecoder().decode(bytes);
}
