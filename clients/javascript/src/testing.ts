/** A client without a service, for unit tests of an app. */
import type { Fields } from "./answer.js";
import { checkOptions, checkUnits, type Attributes } from "./arguments.js";
import { Failure, type FailureKind } from "./failure.js";
import { Tollgate, type TollgateOptions } from "./tollgate.js";
import type { Reply, Transport } from "./transport.js";

/** A call that a fake got. */
export interface Call {
  readonly operation: "check" | "peek" | "reserve" | "renew" | "settle" | "count";
  /** The name of the check or the policy of the count; absent for a renewal or a settlement. */
  readonly name?: string;
  /** The attributes without the name. */
  readonly attributes?: Attributes;
  /** The cost; absent for a renewal. */
  readonly cost?: number;
}

/** What a denial of a fake says. */
export interface Denial {
  /** How many calls to deny. Default: all. */
  times?: number | undefined;
  /** Default: `quota_exceeded`. */
  reason?: string | undefined;
  /** Default: 429. */
  status?: number | undefined;
  /** The time to wait. Default: none, so waiting does not help. */
  retryAfterMs?: number | undefined;
  limit?: number | undefined;
  /** Units used. Default: none for a check, and for a count the largest figure of the service. */
  used?: number | undefined;
}

/** No limit is above it. */
const mostUsed = 2 ** 40 - 1;

interface Rule {
  left: number;
  readonly answer: (request: Fields) => Reply;
  readonly isFor: (request: Fields) => boolean;
}

/**
 * A `Tollgate` without a service. It admits everything until a test says otherwise, and counts nothing.
 *
 * Everything else is the real client: it checks arguments, and decides by `onFailure` after a failure. To test limits
 * themselves, start the service with `--test-clock`.
 */
export class FakeTollgate extends Tollgate {
  readonly #script: Script;
  #skippedMs = 0;

  /** Takes `onFailure` and `names` of the real client. */
  constructor(options: Pick<TollgateOptions, "onFailure" | "names"> = {}) {
    checkOptions(options, ["onFailure", "names"]);
    const script = new Script();
    super({ ...options, url: "http://127.0.0.1:1", logger: { warn() {} } }, () => script);
    this.#script = script;
  }

  /** All calls so far, in their order. */
  get calls(): readonly Call[] {
    return this.#script.calls;
  }

  /** The milliseconds that `wait` would have slept. */
  get skippedMs(): number {
    return this.#skippedMs;
  }

  /**
   * Denies calls under a name: the next `times`, or all. Counts of other operations than `add` and `get` are not denied.
   *
   * A count with a window has no limit in the call: its caller decides by `used`, by default the largest of the service.
   */
  deny(name: string, denial: Denial = {}): void {
    checkOptions(denial, ["times", "reason", "status", "retryAfterMs", "limit", "used"]);
    const { times, reason = "quota_exceeded", status = 429, retryAfterMs, limit, used } = denial;
    const figures = { source: "store", retry_after_ms: retryAfterMs, limit, used };
    this.#script.add(name, times, (request) => {
      if (request["policy"] === undefined) return reply({ allowed: false, reason, ...figures }, status);
      return reply(countFields(request, { ...figures, used: used ?? mostUsed }));
    }, isDeniable);
  }

  /** Leaves calls under a name without an answer: the next `times`, or all. The client then answers by itself. */
  fail(name: string, kind: FailureKind, { times }: { times?: number | undefined } = {}): void {
    this.#script.add(name, times, () => {
      throw new Failure(kind, "as the test has said");
    });
  }

  /** Forgets what `deny` and `fail` have said about a name. */
  admit(name: string): void {
    this.#script.forget(name);
  }

  protected override now(): number {
    return super.now() + this.#skippedMs;
  }

  protected override async sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    this.#skippedMs += ms;
  }
}

/** What a fake answers, and what it was asked. */
class Script implements Transport {
  readonly calls: Call[] = [];
  readonly #rules = new Map<string, Rule[]>();

  add(name: string, times: number | undefined, answer: Rule["answer"], isFor: Rule["isFor"] = () => true): void {
    const left = times === undefined ? Infinity : checkUnits(times, "times", 1);
    this.#rules.set(name, [...(this.#rules.get(name) ?? []), { left, answer, isFor }]);
  }

  forget(name: string): void {
    this.#rules.delete(name);
  }

  async send(path: string, _headers: Record<string, string>, text: string): Promise<Reply> {
    const request = JSON.parse(text);
    const { attributes, policy, cost = 1 } = request;
    const operation = path.slice("/v1/".length) as Call["operation"];
    if (operation === "renew" || operation === "settle") {
      this.calls.push(operation === "settle" ? { operation, cost } : { operation });
      return reply({ status: operation === "settle" ? "settled" : "renewed", expires_after_ms: 60_000 });
    }
    const { action, ...rest } = attributes;
    const name: string = operation === "count" ? policy : action;
    this.calls.push({ operation, name, attributes: operation === "count" ? attributes : rest, cost });
    const rule = this.#rules.get(name)?.find(({ left, isFor }) => left > 0 && isFor(request));
    if (rule !== undefined) {
      rule.left -= 1;
      return rule.answer(request);
    }
    if (operation === "count") return reply(countFields(request));
    const hold = operation === "reserve" ? { hold: `hold-${this.calls.length}`, expires_after_ms: 60_000 } : {};
    return reply({ allowed: true, source: "store", ...hold });
  }

  close(): void {
    // There is nothing to close.
  }
}

/** Whether the service could deny this: a check, a reservation, or a count that asks whether there is room. */
function isDeniable({ operation = "add" }: Fields): boolean {
  return operation === "add" || operation === "get";
}

/** Returns the fields of an answer to a count, which is denied if there are figures. */
function countFields(request: Fields, figures?: Fields): Fields {
  const { window, block, operation = "add", cost = 1, used = 0 } = request;
  const denied = figures !== undefined;
  return {
    ...(window === undefined && isDeniable(request) ? { allowed: !denied } : {}),
    ...(block === undefined ? {} : { blocked: denied, block_after_ms: figures?.["retry_after_ms"] }),
    ...(figures ?? { source: "store", used: operation === "add" ? cost : used }),
  };
}

function reply(body: object, status = 200): Reply {
  return { status, headers: [], body: JSON.stringify(body) };
}
