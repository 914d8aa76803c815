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
 * The hit that exceeds the limit starts a block of `blockDuration`, which is `ttl` unless the throttler says otherwise.
 * Hits of a key that is blocked are not counted, and the first hit after the block opens a new window. With a
 * `blockDuration` of 0, a key is blocked until its window ends.
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
    checkUnits(ttl, `ttl of the throttler ${throttler}`, 1, longestWindow);
    // Below 0, the storage in memory blocks for no time of its own either.
    const block = checkUnits(Math.max(0, blockDuration), `blockDuration of the throttler ${throttler}`, 0, longestWindow);
    if (key === "") throw new TypeError("the key is empty: the service refuses it, so nobody would be counted");
    const attributes = { key: await keyText(key), throttler: await keyText(throttler) };
    const window = `${ttl}ms@first_hit`;
    const counter = block === 0 ? { window } : { quotas: [`${quotaLimit(limit)}/${window}`], block: `${block}ms` };
    const count = await this.#tollgate.count(this.#name, attributes, { ...counter, onStoreFailure: this.#onFailure });
    const { blocked: isBlocked = false, blockAfterMs = 0 } = count;
    if (count.used === undefined && !isBlocked && this.#onFailure === "closed") throw await unavailable();
    const totalHits = count.used ?? 1;
    const timeToExpire = seconds(count.resetAfterMs ?? ttl);
    if (block === 0) {
      const isAbove = count.used !== undefined && totalHits > limit;
      return { totalHits, timeToExpire, isBlocked: isAbove, timeToBlockExpire: isAbove ? timeToExpire : 0 };
    }
    return { totalHits, timeToExpire, isBlocked, timeToBlockExpire: isBlocked ? seconds(blockAfterMs) : 0 };
  }
}

/** Returns the error of a closed storage. Nest logs each error that is not its own, with a stack. */
async function unavailable(): Promise<Error> {
  const message = "limits cannot be checked now";
  try {
    const { HttpException } = await import("@nestjs/common");
    return new HttpException({ statusCode: 503, message }, 503);
  } catch {
    // Where Nest cannot be loaded from here, its answer is the same: this is the signature of http-errors.
    return Object.assign(new Error(message), { status: 503, statusCode: 503, expose: true });
  }
}

/** The longest window and the longest block that the service has, in milliseconds: ten years. */
const longestWindow = 3_653 * 86_400_000;

/** The largest limit that the service has. No count exceeds it. */
const largestLimit = 2 ** 40 - 1;

/** Returns the limit as the service takes it: the same whole counts are above it. */
function quotaLimit(limit: number): number {
  return Math.min(Math.max(0, Math.floor(limit)), largestLimit);
}

function seconds(ms: number): number {
  return Math.ceil(ms / 1000);
}
