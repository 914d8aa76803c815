/** What the middleware of all frameworks has in common. */
import type { Decision } from "./answer.js";
import { checkName, checkOptions, type Attributes } from "./arguments.js";
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
      return { ip: checkedAddress(address, "the client's address, as the server gives it,") };
    }
    const key = await by(request);
    if (key === "") throw new TypeError("`by` returned an empty key");
    if (typeof key === "string") return { key: await keyText(key) };
    if (key === undefined || key === null) throw new TypeError("`by` returned nothing, so nobody can be counted");
    if (typeof key !== "object" || Array.isArray(key)) throw new TypeError("`by` must return a string or attributes");
    const entries = Object.entries(key);
    if (entries.length === 0) throw new TypeError("`by` returned no attribute, so nobody can be counted");
    const fitting = await Promise.all(entries.map(async ([name, value]) => [name, await fittingValue(name, value)] as const));
    return Object.fromEntries(fitting);
  }
}

/** Returns a value of `by` that the service takes: what it refuses, a client that is open admits without counting. */
async function fittingValue(name: string, value: string | boolean | readonly string[]): Promise<string | boolean | string[]> {
  if (value === "" || (Array.isArray(value) && (value.length === 0 || value.includes("")))) {
    throw new TypeError(`\`by\` returned an empty text as the attribute ${name}, so nobody can be counted`);
  }
  if (name === "ip") return checkedAddress(value, "the attribute ip of `by`");
  const fitting = (text: string) => (typeof text === "string" ? keyText(text) : text);
  return Array.isArray(value) ? Promise.all((value as readonly string[]).map(fitting)) : fitting(value as string);
}

const octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
const ipv4 = new RegExp(`^${octet}(?:\\.${octet}){3}$`);

/** Returns an address without its zone, which names an interface of this host. */
function checkedAddress(value: unknown, what: string): string {
  const address = typeof value === "string" ? value.replace(/^([^%]*:[^%]*)%.+$/, "$1") : "";
  // Keys appear in no log line, so the message does not repeat it.
  if (!ipv4.test(address) && !isIpv6(address)) throw new TypeError(`${what} is no IP address`);
  return address;
}

function isIpv6(text: string): boolean {
  if (!/^[0-9a-f:.]*:[0-9a-f:.]*$/i.test(text)) return false;
  try {
    new URL(`http://[${text}]`);
    return true;
  } catch {
    return false;
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
          detail: retryAfterMs === undefined ? "waiting does not help" : `retry in ${Math.ceil(retryAfterMs / 1000)} s`,
          "violated-policies": decision.policy === undefined ? undefined : [decision.policy],
        }
      : { title: "Rate limiter unavailable", status };
  return { headers, denial: { status, type: problemType, body: JSON.stringify(problem) } };
}
