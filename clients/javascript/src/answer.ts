/** Answers of the service, and what stands in for them. */
import { Failure, type FailureKind, type OnFailure } from "./failure.js";
import type { Reply } from "./transport.js";

/** Where an answer came from: `client` is this package, because the service gave none. */
export type Source = "store" | "local" | "fallback" | "client";

/** The answer to a check. What it does not say is `undefined`. */
export interface Decision {
  /** Whether the request is admitted. */
  readonly allowed: boolean;
  /** The status of the service's answer: 200 if admitted, else mostly 429. Absent if the service gave none. */
  readonly status?: number;
  /** The limit of the quota that decided. */
  readonly limit?: number;
  /** Units used, this request's included if it was admitted. */
  readonly used?: number;
  /** Units left. */
  readonly remaining?: number;
  /** Milliseconds until nothing is used any more. */
  readonly resetAfterMs?: number;
  /** The exact time to wait after a denial. If a denial has none, waiting does not help. */
  readonly retryAfterMs?: number;
  /** Why the request is denied, such as `quota_exceeded`. */
  readonly reason?: string;
  /** The policy that decided. */
  readonly policy?: string;
  /** The quota that decided, such as `5/1m`. */
  readonly quota?: string;
  /** Where the answer came from. */
  readonly source?: Source;
  /** Why the service gave no answer; only with the source `client`. */
  readonly failure?: FailureKind;
  /** The limit headers that the service sent, under lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
}

/** The answer to a count. What it does not say is `undefined`. */
export interface Count {
  /** Whether the count is within the limits; absent without limits, and for operations that ask nothing. */
  readonly allowed?: boolean;
  /** The policy of the counter, `NAME:caller`. */
  readonly policy?: string;
  /** The quota that decided, if the call named quotas. */
  readonly quota?: string;
  /** The window, if the call named one without a limit. */
  readonly series?: string;
  /** The limit of that quota. */
  readonly limit?: number;
  /** Units used, also past the limit. */
  readonly used?: number;
  /** Units left. */
  readonly remaining?: number;
  /** Milliseconds until nothing is used any more. */
  readonly resetAfterMs?: number;
  /** The exact time to wait, if the count is above a limit. */
  readonly retryAfterMs?: number;
  /** Whether the key is blocked, if the call named a block. */
  readonly blocked?: boolean;
  /** Milliseconds until the block ends. */
  readonly blockAfterMs?: number;
  /** The window that was counted, in Unix milliseconds: its first, and the first after it. */
  readonly window?: { readonly start: number; readonly end: number };
  /** Where the answer came from. */
  readonly source?: Source;
  /** Why the service gave no answer; only with the source `client`. */
  readonly failure?: FailureKind;
  /** The state of each quota, as the service wrote it, if there are several. */
  readonly quotas?: readonly Readonly<Record<string, unknown>>[];
}

/** The fields of a JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

const passedHeader = /^(?:x-)?ratelimit-|^ratelimit$|^retry-after$/;

/** Reasons of problems with status 503 that are verdicts. */
const verdicts: readonly string[] = ["store_unavailable", "outcome_unknown", "store_full"];

/** Returns the decision in a reply, or throws the failure that the reply is. */
export function decisionIn(reply: Reply): [Decision, Fields] {
  const fields = fieldsIn(reply);
  if (typeof fields?.["allowed"] !== "boolean") throw failureOf(reply, fields);
  return [
    defined<Decision>({
      allowed: fields["allowed"],
      status: reply.status,
      ...figuresIn(fields),
      reason: text(fields["reason"]),
      policy: text(fields["policy"]),
      quota: text(fields["quota"]),
      source: text(fields["source"]) as Source,
      headers: headersIn(reply),
    }),
    fields,
  ];
}

/** Returns the count in a reply, or throws the failure that the reply is. */
export function countIn(reply: Reply): Count {
  const fields = fieldsIn(reply);
  if (reply.status !== 200 || typeof fields?.["source"] !== "string") throw failureOf(reply, fields);
  const window = object(fields["window"]);
  const start = number(window?.["start"]);
  const end = number(window?.["end"]);
  return defined<Count>({
    allowed: typeof fields["allowed"] === "boolean" ? fields["allowed"] : undefined,
    policy: text(fields["policy"]),
    quota: text(fields["quota"]),
    series: text(fields["series"]),
    ...figuresIn(fields),
    blocked: typeof fields["blocked"] === "boolean" ? fields["blocked"] : undefined,
    blockAfterMs: number(fields["block_after_ms"]),
    window: start === undefined || end === undefined ? undefined : { start, end },
    source: text(fields["source"]) as Source,
    quotas: Array.isArray(fields["quotas"]) ? fields["quotas"].filter((quota) => object(quota) !== undefined) : undefined,
  });
}

/** Returns the fields of an answer that has a `status`, or throws the failure that the reply is. */
export function statusIn(reply: Reply): Fields & { readonly status: string } {
  const fields = fieldsIn(reply);
  if (reply.status !== 200 || typeof fields?.["status"] !== "string") throw failureOf(reply, fields);
  return fields as Fields & { status: string };
}

/** Returns the decision that stands in for one of the service. */
export function ownDecision(failure: Failure, onFailure: OnFailure): Decision {
  return { allowed: onFailure === "open" && !failure.denies, source: "client", failure: failure.kind, headers: {} };
}

/** Returns the number of milliseconds, if this is one. */
export function number(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

/** Returns the text, if this is one. */
export function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function figuresIn(fields: Fields) {
  return {
    limit: number(fields["limit"]),
    used: number(fields["used"]),
    remaining: number(fields["remaining"]),
    resetAfterMs: number(fields["reset_after_ms"]),
    retryAfterMs: number(fields["retry_after_ms"]),
  };
}

function fieldsIn(reply: Reply): Fields | undefined {
  try {
    return object(JSON.parse(reply.body));
  } catch {
    return undefined;
  }
}

function object(value: unknown): Fields | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}

function failureOf(reply: Reply, fields: Fields | undefined): Failure {
  const { status } = reply;
  const detail = text(fields?.["detail"]);
  if (status === 503) return new Failure("unavailable", detail ?? "status 503", verdicts.includes(text(fields?.["reason"]) ?? ""));
  if (status >= 500) return new Failure("unavailable", detail ?? `status ${status}`);
  if (status >= 300) return new Failure("refused", detail ?? `status ${status}`);
  return new Failure("invalid", `status ${status}, and no answer of the service`);
}

function headersIn(reply: Reply): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const [name, value] of reply.headers) {
    const lower = name.toLowerCase();
    if (!passedHeader.test(lower)) continue;
    const before = passed[lower];
    passed[lower] = before === undefined ? value : `${before}, ${value}`;
  }
  return passed;
}

/** Leaves out what is undefined, so that answers print well and compare. */
function defined<Answer>(fields: { [Name in keyof Answer]: Answer[Name] | undefined }): Answer {
  const kept: Partial<Answer> = {};
  for (const name in fields) if (fields[name] !== undefined) kept[name] = fields[name];
  return kept as Answer;
}
