/**
 * A store for express-rate-limit 7 and 8: all processes of an app then share exact counters.
 *
 * The service needs `--caller-quotas` and, with tokens, the scope `count`.
 */
import type { ClientRateLimitInfo, Options, Store } from "express-rate-limit";

import { checkName, checkOptions, checkWord } from "./arguments.js";
import { keyText } from "./key.js";
import type { CountOptions, Tollgate } from "./tollgate.js";
import type { Count } from "./answer.js";
import type { OnFailure } from "./failure.js";

/** Options of the store. */
export interface TollgateStoreOptions {
  /** The name of the counters. Limiters with the same name and window count together. */
  name: string;
  /** What a request is without an answer: its client's first hit (`open`), or an error (`closed`). Default: as the client. */
  onFailure?: OnFailure | undefined;
}

/** Counts hits in the service, in windows that begin with a key's first hit. */
export class TollgateStore implements Store {
  /** Other processes count the same keys. */
  readonly localKeys = false;
  /** Tells limiters of several names apart when express-rate-limit looks for keys that are counted twice. */
  readonly prefix: string;
  readonly #tollgate: Tollgate;
  readonly #name: string;
  readonly #onFailure: OnFailure;
  #windowMs: number | undefined;

  /** Throws a TypeError if an option is wrong. */
  constructor(tollgate: Tollgate, options: TollgateStoreOptions) {
    if (typeof (tollgate as Tollgate | undefined)?.count !== "function") throw new TypeError("the first argument must be a Tollgate");
    checkOptions(options, ["name", "onFailure"]);
    this.#tollgate = tollgate;
    this.#name = checkName(options.name, "name");
    this.#onFailure = checkWord(options.onFailure ?? tollgate.onFailureOf(this.#name), "onFailure", ["open", "closed"]);
    this.prefix = `${this.#name}:`;
  }

  /** Takes the window from the limiter. A store serves one limiter, or several with the same window. */
  init({ windowMs }: Pick<Options, "windowMs">): void {
    if (!Number.isSafeInteger(windowMs) || windowMs < 1) throw new TypeError("windowMs must be a whole number of milliseconds");
    if (this.#windowMs !== undefined && this.#windowMs !== windowMs) {
      throw new TypeError("this store serves a limiter with another windowMs: make a store for each");
    }
    this.#windowMs = windowMs;
  }

  /** Counts a hit. Without an answer, it is the client's first, or an error with the status 503. */
  async increment(key: string): Promise<ClientRateLimitInfo> {
    const count = await this.#count(key, { operation: "add", onStoreFailure: this.#onFailure });
    if (count.used !== undefined) return this.#info(count.used, count);
    if (this.#onFailure === "closed") {
      throw Object.assign(new Error(`the limiter ${this.#name} has no answer: ${count.failure ?? "its store failed"}`), { status: 503 });
    }
    return this.#info(1, count);
  }

  /** Gives a hit back. */
  async decrement(key: string): Promise<void> {
    await this.#count(key, { operation: "subtract" });
  }

  /** Returns a client's hits, or nothing if there are none or if there is no answer. */
  async get(key: string): Promise<ClientRateLimitInfo | undefined> {
    const count = await this.#count(key, { operation: "get" });
    return count.used === undefined || count.used === 0 ? undefined : this.#info(count.used, count);
  }

  /** Forgets a client's hits. */
  async resetKey(key: string): Promise<void> {
    await this.#count(key, { operation: "reset" });
  }

  async #count(key: string, options: CountOptions): Promise<Count> {
    if (key === "") throw new TypeError("the key is empty: the service refuses it, so nobody would be counted");
    return this.#tollgate.count(this.#name, { key: await keyText(key) }, { ...options, window: `${this.#window}ms@first_hit` });
  }

  get #window(): number {
    if (this.#windowMs === undefined) throw new TypeError("the store has no window yet: pass it to rateLimit, which calls init");
    return this.#windowMs;
  }

  #info(totalHits: number, { resetAfterMs }: Count): ClientRateLimitInfo {
    // After the clock of this host, which express-rate-limit compares it with.
    return { totalHits, resetTime: new Date(Date.now() + (resetAfterMs ?? this.#window)) };
  }
}
