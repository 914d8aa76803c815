/// <reference lib="esnext.disposable" preserve="true" />
/** Units that are held while work goes on. */
import { number, text, type Decision, type Fields } from "./answer.js";
import { checkUnits } from "./arguments.js";
import { inBackground, type FailureKind } from "./failure.js";

/** What has become of a hold. `failure` says why the service did not answer; there is no `status` then. */
export interface HoldAnswer<Status extends string> {
  readonly status?: Status;
  readonly failure?: FailureKind;
}

/** The answer to a renewal. */
export interface Renewal extends HoldAnswer<"renewed" | "lost" | "expired" | "ended" | "gone"> {
  /** Milliseconds until the hold ends, unless it is renewed again. */
  readonly expiresAfterMs?: number;
}

/** The answer to a settlement. */
export type Settlement = HoldAnswer<"settled" | "expired" | "gone">;

/** Sends a renewal or a settlement, and repeats it as the contract of clients says. */
export type HoldCall = (path: "/v1/renew" | "/v1/settle", fields: Fields) => Promise<HoldAnswer<string> & { fields?: Fields }>;

/**
 * A reservation: the decision, and the units that it holds if it is admitted.
 *
 * Settle it at the actual cost, or release it. A hold of `Tollgate.hold` is also renewed, and ends with its scope.
 */
export class Hold {
  /** The answer to the reservation. */
  readonly decision: Decision;
  readonly #call: HoldCall;
  readonly #hold: string | undefined;
  readonly #lifeMs: number | undefined;
  readonly #estimate: number;
  readonly #lostSignal = new AbortController();
  #renewals: ReturnType<typeof setTimeout> | undefined;
  #cost: number | undefined;
  #settlement: Promise<Settlement> | undefined;

  /** Made by `Tollgate.reserve` and `Tollgate.hold`. */
  constructor(call: HoldCall, decision: Decision, fields: Fields, estimate: number) {
    this.decision = decision;
    this.#call = call;
    this.#hold = decision.allowed ? text(fields["hold"]) : undefined;
    this.#lifeMs = number(fields["expires_after_ms"]);
    this.#estimate = estimate;
  }

  /** Whether the reservation is admitted. */
  get allowed(): boolean {
    return this.decision.allowed;
  }

  /** Whether others may have the units by now. Its work should stop. */
  get lost(): boolean {
    return this.#lostSignal.signal.aborted;
  }

  /** Whether the work has settled or released the hold, with or without an answer. */
  get settled(): boolean {
    return this.#settlement !== undefined;
  }

  /** Aborts when the hold is lost: `fetch(url, { signal: hold.signal })`. */
  get signal(): AbortSignal {
    return this.#lostSignal.signal;
  }

  /** Renews the hold for its length from now. */
  async renew(): Promise<Renewal> {
    if (this.#hold === undefined) return { status: "gone" };
    const { status, failure, fields } = await this.#call("/v1/renew", { hold: this.#hold });
    // A settlement that overtook the renewal has ended the hold, and nothing is lost.
    const over = status === "lost" || status === "expired" || status === "ended";
    if (over && this.#settlement === undefined) this.#lostSignal.abort(new Error(`the hold is ${status}`));
    if (status !== "renewed") return answer(status, failure);
    const lifeMs = number(fields?.["expires_after_ms"]) ?? this.#lifeMs;
    return { status, ...(lifeMs === undefined ? {} : { expiresAfterMs: lifeMs }) };
  }

  /** Ends the hold at the cost that its work turned out to have. */
  settle(cost: number): Promise<Settlement> {
    return this.#settle(checkUnits(cost, "the cost"));
  }

  /** Ends the hold and gives everything back. */
  release(): Promise<Settlement> {
    return this.#settle(0);
  }

  /**
   * Ends the hold: what was not settled is settled at its estimate, because what is unknown stays charged.
   *
   * A settlement that got no answer is sent once more.
   */
  async close(): Promise<void> {
    const before = await this.#settlement;
    if (before?.status === undefined) await this.#settle(this.#cost ?? this.#estimate);
  }

  /** Closes the hold at the end of `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Called by `Tollgate.hold`: renews the hold until it ends, whenever a third of its life has passed. */
  keepAlive(): void {
    if (this.#hold !== undefined && this.#lifeMs !== undefined) this.#renewIn(this.#lifeMs / 3, this.#lifeMs);
  }

  #renewIn(ms: number, lifeMs: number): void {
    this.#renewals = inBackground(async () => {
      const renewal = await this.renew();
      if (this.#settlement !== undefined) return;
      if (renewal.status === "renewed") this.#renewIn(lifeMs / 3, lifeMs);
      // Without an answer, there is still time for further attempts.
      else if (renewal.failure !== undefined) this.#renewIn(lifeMs / 10, lifeMs);
    }, ms);
  }

  #settle(cost: number): Promise<Settlement> {
    clearTimeout(this.#renewals);
    this.#cost = cost;
    const settlement =
      this.#hold === undefined
        ? Promise.resolve<Settlement>({ status: "gone" })
        : this.#call("/v1/settle", { hold: this.#hold, cost }).then(({ status, failure }) => answer(status, failure) as Settlement);
    return (this.#settlement = settlement);
  }
}

function answer(status: string | undefined, failure: FailureKind | undefined): Renewal {
  return status === undefined ? { failure: failure ?? "invalid" } : { status: status as NonNullable<Renewal["status"]> };
}
