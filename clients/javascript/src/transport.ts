/** What a runtime provides: requests over its own HTTP, and random bytes. */
import type { Address } from "./address.js";

/** An answer as it came, whole. */
export interface Reply {
  readonly status: number;
  readonly headers: Iterable<readonly [name: string, value: string]>;
  readonly body: string;
}

/** Sends requests to one service. */
export interface Transport {
  /**
   * Sends a POST once, and returns its whole answer.
   *
   * Rejects with a `Failure` of the kind `timeout`, `connection` or `invalid`. It never sends the request again after
   * a byte of it may have been sent, and follows no redirect.
   */
  send(path: string, headers: Record<string, string>, body: string, ms: number): Promise<Reply>;
  /** Closes all connections. */
  close(): void;
}

/** What a transport is made from. */
export interface TransportSettings {
  readonly address: Address;
  readonly maxConnections: number;
}

/** No answer of the service is longer. */
export const longestBody = 1 << 20;

/** A connection that was idle for so long is closed, before the service closes it after 120 s. */
export const longestIdle = 60_000;
