/** Calls that got no answer: their kinds, their counts, and the line that the log gets once a minute. */

/**
 * Why a call got no answer:
 *
 * - `timeout`: no whole answer within the timeout.
 * - `connection`: no connection, or it broke before the answer was whole.
 * - `unavailable`: status 500 or above, without a decision.
 * - `refused`: another status without a decision. The request or the configuration is wrong.
 * - `invalid`: bytes that are no answer of the service, or more than 1 MiB of them.
 */
export type FailureKind = "timeout" | "connection" | "unavailable" | "refused" | "invalid";

/** What a call does without an answer: `open` admits, `closed` denies. */
export type OnFailure = "open" | "closed";

/** Where the line of failures goes. `console`, and the loggers of pino, winston and Nest, fit. */
export interface Logger {
  warn(message: string): void;
  /** For a line about what is refused, which never heals by itself. Default: `warn`. */
  error?(message: string): void;
}

/** A failure on its way to the caller's answer. It never reaches the caller as an exception. */
export class Failure extends Error {
  override readonly name = "Failure";

  constructor(
    readonly kind: FailureKind,
    detail: string,
    /** Whether it is a verdict: the policy refuses during an outage, or the memory of the service is full. */
    readonly denies = false,
  ) {
    super(detail);
  }
}

/** Between two lines of the log. */
const lineEvery = 60_000;

/** The longest detail in a line: a service that is none may send anything. */
const longestDetail = 300;

/** Counts failures by kind, and logs them. */
export class FailureLog {
  readonly #logger: Logger;
  readonly #counts = new Map<FailureKind, number>();
  readonly #sinceLine = new Map<FailureKind, number>();
  #last: { readonly failure: Failure; readonly secrets: readonly string[] } | undefined;
  #lineAt = -Infinity;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Counts a failure. The first is logged at once; later ones in one line a minute, without the secrets. */
  add(failure: Failure, secrets: readonly string[] = []): void {
    const { kind } = failure;
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + 1);
    this.#sinceLine.set(kind, (this.#sinceLine.get(kind) ?? 0) + 1);
    this.#last = { failure, secrets };
    const wait = this.#lineAt + lineEvery - performance.now();
    // In workers, a timer ends with the request that set it, so a later failure looks at the time as well.
    if (wait <= 0) this.flush();
    else this.#timer ??= inBackground(() => this.flush(), wait);
  }

  /** Returns the counts by kind. Kinds that did not occur are absent. */
  counts(): Partial<Record<FailureKind, number>> {
    return Object.fromEntries(this.#counts);
  }

  /** Logs what has not been logged yet. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#sinceLine.size === 0 || this.#last === undefined) return;
    const kinds = [...this.#sinceLine].map(([kind, count]) => `${count} ${kind}`).join(", ");
    const calls = [...this.#sinceLine.values()].reduce((sum, count) => sum + count, 0);
    const { failure, secrets } = this.#last;
    const last = `${failure.kind}: ${printable(masked(failure.message, secrets))}`;
    const refused = this.#sinceLine.has("refused");
    this.#sinceLine.clear();
    this.#last = undefined;
    this.#lineAt = performance.now();
    const line = `tollgate: ${calls} ${calls === 1 ? "call" : "calls"} had no decision of the service (${kinds}); the last one: ${last}`;
    try {
      if (refused && typeof this.#logger.error === "function") this.#logger.error(line);
      else this.#logger.warn(line);
    } catch {
      // A logger that fails must not take the decision down with it.
    }
  }
}

/** Runs a function later, without keeping the process alive for it. */
export function inBackground(run: () => void, ms: number): ReturnType<typeof setTimeout> {
  const timer = setTimeout(run, ms);
  // Browsers and workers return a number.
  if (typeof timer === "object") (timer as { unref?(): void }).unref?.();
  return timer;
}

/** A shorter value is only masked where it stands alone: inside of a word, it is a part of the text. In bytes. */
const shortestPart = 4;

/** Replaces values in a detail: it may come from something between, which repeats its request. */
function masked(detail: string, secrets: readonly string[]): string {
  // What repeats a body has the values as JSON writes them.
  const forms = secrets.flatMap((value) => [value, JSON.stringify(value).slice(1, -1)]);
  const values = forms.filter((value) => value !== "" && detail.includes(value));
  if (values.length === 0) return detail;
  // A value may be a part of another one.
  values.sort((a, b) => b.length - a.length);
  const patterns = values.map((value) => {
    const literal = value.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
    const short = new TextEncoder().encode(value).length < shortestPart;
    return short ? `(?<![\\p{L}\\p{N}])${literal}(?![\\p{L}\\p{N}])` : literal;
  });
  return detail.replace(new RegExp(patterns.join("|"), "gu"), "***");
}

function printable(detail: string): string {
  return detail.replace(/[^\x20-\x7e\u00a0-\uffff]/g, " ").slice(0, longestDetail);
}
