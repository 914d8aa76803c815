/**
 * A storage for @nestjs/throttler 6: all processes of an app then share exact counters.
 *
 * The service needs `--caller-quotas` and, with tokens, the scope `count`.
 */
import type { ThrottlerStorage } from "@nestjs/throttler";

import { checkName, checkOptions, checkUnits, checkWord } from "./arguments.js";
import type { OnFailure } from "./failure.js";
import { keyText } from "./key.js";
import type { Tollgate } from "./tollgate.js";

/** Options of the storage. */
export interface TollgateThrottlerStorageOptions {
  /** The name of the counters. Apps with the same name count together. */
  name: string;
  /** What a request is without an answer: its client's first hit (`open`), or an error with the status 503 (`closed`). Default: as the client. */
  onFailure?: OnFailure | undefined;
}

/** What the guard of @nestjs/throttler gets. Times are in seconds. */
type StorageRecord = Awaited<ReturnType<ThrottlerStorage["increment"]>>;

/**
 * Counts hits in the service, in windows that begin with a key's first hit.
 *
 * A key above its limit is blocked until its window ends. Throttlers must say so, with `blockDuration: 0`: their default
 * is a block for another `ttl`, which this storage refuses.
 */
export class TollgateThrottlerStorage implements ThrottlerStorage {
  readonly #tollgate: Tollgate;
  readonly #name: string;
  readonly #onFailure: OnFailure;

  /** Throws a TypeError if an option is wrong. */
  constructor(tollgate: Tollgate, options: TollgateThrottlerStorageOptions) {
    if (typeof (tollgate as Tollgate | undefined)?.count !== "function") throw new TypeError("the first argument must be a Tollgate");
    checkOptions(options, ["name", "onFailure"]);
    this.#tollgate = tollgate;
    this.#name = checkName(options.name, "name");
    this.#onFailure = checkWord(options.onFailure ?? tollgate.onFailureOf(this.#name), "onFailure", ["open", "closed"]);
  }

  /** Counts a hit of a throttler. Times are in milliseconds. */
  async increment(key: string, ttl: number, limit: number, blockDuration: number, throttler: string): Promise<StorageRecord> {
    checkUnits(ttl, `ttl of the throttler ${throttler}`, 1);
    if (blockDuration !== 0) {
      throw new TypeError(`the throttler ${throttler} blocks for ${blockDuration} ms; this storage blocks until the window ends: set blockDuration: 0`);
    }
    if (key === "") throw new TypeError("the key is empty: the service refuses it, so nobody would be counted");
    const attributes = { key: await keyText(key), throttler: await keyText(throttler) };
    const count = await this.#tollgate.count(this.#name, attributes, { window: `${ttl}ms@first_hit`, onStoreFailure: this.#onFailure });
    if (count.used === undefined && this.#onFailure === "closed") {
      // The signature of http-errors, which Nest answers with its status.
      throw Object.assign(new Error("limits cannot be checked now"), { status: 503, statusCode: 503, expose: true });
    }
    const totalHits = count.used ?? 1;
    const timeToExpire = Math.ceil((count.resetAfterMs ?? ttl) / 1000);
    const isBlocked = count.used !== undefined && totalHits > limit;
    return { totalHits, timeToExpire, isBlocked, timeToBlockExpire: isBlocked ? timeToExpire : 0 };
  }
}
