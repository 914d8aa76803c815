/** What the middleware of all frameworks has in common. */
import type { Decision } from "./answer.js";
import { attributesOf, checkName, checkOptions, type Attributes } from "./arguments.js";
import { keyText } from "./key.js";
import type { Tollgate } from "./tollgate.js";

/** Options of a middleware. */
export interface LimitOptions<Request> {
  /** The name of the check. Default: the template of the route, such as `/users/:id`. It is never a raw path. */
  name?: string | undefined;
  /**
   * Returns who is counted: attributes, or a string, which is sent as the attribute `key`.
   *
   * If it throws or returns nothing, that is an error of the app, and the request is not admitted.
   */
  by?: ((request: Request) => string | Attributes | Promise<string | Attributes>) | undefined;
  /** The cost of a request, or a function that returns it. Default: 1. */
  cost?: number | ((request: Request) => number | Promise<number>) | undefined;
  /** Whether to pass on the limit headers of the service, on admitted responses too. Default: false. */
  headers?: boolean | undefined;
}

/** What a middleware knows of a request. */
export interface RequestFacts {
  /** The template of the route, if the framework knows one. */
  readonly template: string | undefined;
  /** The client's address, as the framework gives it. */
  readonly address: string | undefined;
  /** Returns a header of the request. */
  header(name: string): string | undefined;
}

/** What a middleware does with a request. */
export interface Verdict {
  /** Headers to set. */
  readonly headers: Readonly<Record<string, string>>;
  /** The response in place of the app's, if the request is denied. */
  readonly denial?: { readonly status: number; readonly type: string; readonly body: string };
}

const problemType = "application/problem+json";

/** Decides about requests of a framework. */
export class Limit<Request> {
  readonly #tollgate: Tollgate;
  readonly #options: LimitOptions<Request>;

  /** Throws a TypeError if an option is wrong. */
  constructor(tollgate: Tollgate, options: LimitOptions<Request>, more: readonly string[] = []) {
    if (typeof (tollgate as Tollgate | undefined)?.check !== "function") throw new TypeError("the first argument must be a Tollgate");
    checkOptions(options, ["name", "by", "cost", "headers", ...more]);
    if (options.name !== undefined) checkName(options.name, "name");
    if (options.by !== undefined && typeof options.by !== "function") throw new TypeError("by must be a function of the request");
    this.#tollgate = tollgate;
    this.#options = options;
  }

  /** Checks a request. Rejects if the app says nothing about it that can be counted. */
  async decide(request: Request, facts: RequestFacts): Promise<Verdict> {
    const { cost, headers = false } = this.#options;
    const name = this.#options.name ?? facts.template;
    if (name === undefined) throw new TypeError("the route has no template that could name its limit: give the middleware a name");
    const decision = await this.#tollgate.check(name, await this.#attributes(request, facts), {
      cost: typeof cost === "function" ? await cost(request) : cost,
      traceparent: facts.header("traceparent"),
      tracestate: facts.header("tracestate"),
    });
    const passed = headers ? decision.headers : {};
    return decision.allowed ? { headers: passed } : denied(decision, passed);
  }

  async #attributes(request: Request, { address }: RequestFacts): Promise<Attributes> {
    const { by } = this.#options;
    if (by === undefined) {
      if (address === undefined || address === "") throw new TypeError("the client has no address: give the middleware a function `by`");
      // A zone names an interface of this host, and is no part of the client's address.
      return { ip: address.replace(/%.*$/, "") };
    }
    const key = await by(request);
    if (key === "") throw new TypeError("`by` returned an empty key");
    if (typeof key === "string") return { key: await keyText(key) };
    if (key === undefined || key === null) throw new TypeError("`by` returned nothing, so nobody can be counted");
    if (Object.keys(attributesOf(key)).length === 0) throw new TypeError("`by` returned no attribute, so nobody can be counted");
    return key;
  }
}

function denied(decision: Decision, passed: Readonly<Record<string, string>>): Verdict {
  const { status: answered = 503, retryAfterMs } = decision;
  const status = decision.failure === undefined && (answered < 400 || answered > 599) ? 429 : answered;
  const headers: Record<string, string> = { ...passed, "cache-control": "no-store" };
  if (retryAfterMs !== undefined) headers["retry-after"] = String(Math.ceil(retryAfterMs / 1000));
  const problem =
    decision.failure === undefined
      ? {
          type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
          title: "Quota exceeded",
          status,
          reason: decision.reason,
          limit: decision.limit,
          remaining: decision.remaining,
          reset_after_ms: decision.resetAfterMs,
          retry_after_ms: retryAfterMs,
        }
      : { type: "about:blank", title: "Service Unavailable", status, detail: "limits cannot be checked now" };
  return { headers, denial: { status, type: problemType, body: JSON.stringify(problem) } };
}
