/// <reference lib="esnext.disposable" preserve="true" />
/** The client. */
import { randomId, openTransport } from "#transport";
import { parseAddress } from "./address.js";
import { countIn, decisionIn, ownDecision, statusIn, type Count, type Decision, type Fields } from "./answer.js";
import {
  attributesOf, checkBody, checkName, checkOptions, checkTime, checkUnits, checkWord, longestWait, namedAttributes, type Attributes,
} from "./arguments.js";
import { Failure, FailureLog, type FailureKind, type Logger, type OnFailure } from "./failure.js";
import { Hold, type HoldCall } from "./hold.js";
import { Slots } from "./slots.js";
import { FetchTransport } from "./transport-fetch.js";
import type { Reply, Transport, TransportSettings } from "./transport.js";
import { version } from "./version.js";

/** Settings of a client. */
export interface TollgateOptions {
  /** `http://HOST:PORT`, `https://HOST:PORT` or `unix:/path`. Default: `TOLLGATE_URL`, then `http://127.0.0.1:8080`. */
  url?: string | undefined;
  /** The token of the caller. Default: `TOLLGATE_TOKEN`. */
  token?: string | undefined;
  /** How long a call may take, in milliseconds, from 1 to 60,000. Default: 250. */
  timeout?: number | undefined;
  /** What to do without an answer: admit (`open`, the default) or deny (`closed`). */
  onFailure?: OnFailure | undefined;
  /** The same for single names, such as `{ login: "closed" }`. */
  names?: Readonly<Record<string, OnFailure>> | undefined;
  /** How many calls may be on their way at once. Further ones wait within their timeout. Default: 64. */
  maxConnections?: number | undefined;
  /** Gets a line a minute about calls without an answer. Default: `console`. */
  logger?: Logger | undefined;
  /** A `fetch` to use in place of the runtime's own HTTP, such as that of a service binding. */
  fetch?: typeof fetch | undefined;
}

/** The trace that a call belongs to; it is passed on. */
export interface TraceContext {
  traceparent?: string | undefined;
  tracestate?: string | undefined;
}

/** Options of a check. */
export interface CheckOptions extends TraceContext {
  /** Units to charge; 0 only looks. Default: 1. */
  cost?: number | undefined;
}

/** Options of a wait. */
export interface WaitOptions extends CheckOptions {
  /** How long to wait at most, in milliseconds. Default: 30,000. */
  timeout?: number | undefined;
  /** Ends the wait; the promise is then rejected with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** Options of a reservation. */
export interface ReserveOptions extends CheckOptions {
  /** Units in flight. Default: 1. */
  units?: number | undefined;
  /** How long the hold lives from its last renewal, in milliseconds. Default: 60 seconds. */
  expiresAfter?: number | undefined;
}

/** Options of a hold. */
export interface HoldOptions extends ReserveOptions {
  /** Whether work that throws gives everything back. Default: false, because what is unknown stays charged. */
  releaseOnError?: boolean | undefined;
}

/** Options of a count: either `quotas` or `window`. */
export interface CountOptions extends TraceContext {
  /** Limits in their written form, such as `["5/1m", "100/1h"]`. */
  quotas?: readonly string[] | undefined;
  /** A window without a limit, such as `1m@first_hit`. */
  window?: string | undefined;
  /**
   * How long to block a key that is above its limit, such as `30s`, with a single quota of a fixed window.
   *
   * A key that is blocked is not counted; after its block, counting starts over.
   */
  block?: string | undefined;
  /** Default: `add`, which counts also past the limit. */
  operation?: "add" | "subtract" | "get" | "set" | "reset" | undefined;
  /** Units. Default: 1. */
  cost?: number | undefined;
  /** The new count; only for `set`. */
  used?: number | undefined;
  /**
   * What to answer if the store of the service, or the service itself, does not; for `add` and `get`.
   *
   * Default: what the client does without an answer, with the policy as the name.
   */
  onStoreFailure?: OnFailure | undefined;
}

/** How long a hold lives if nobody says otherwise. */
const standardLife = 60_000;

const defaultUrl = "http://127.0.0.1:8080";
const operations = ["add", "subtract", "get", "set", "reset"] as const;
const policies = ["open", "closed"] as const;
const trace = ["traceparent", "tracestate"] as const;

/** A reservation is repeated so often on other connections if one breaks, because its id makes that safe. */
const repeats = 2;

/** After a denial by units in flight, ask again after this time: a unit may be free at once, or never. */
const inFlightWait = 1_000;

/**
 * A client of one service.
 *
 * A denial is an answer and no exception, and so is a call without an answer: the client then answers by itself.
 * Wrong arguments throw a TypeError. Make one client for a process; its calls share connections.
 */
export class Tollgate {
  readonly #transport: Transport;
  readonly #slots: Slots;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #token: string | undefined;
  readonly #timeout: number;
  readonly #onFailure: OnFailure;
  readonly #names: ReadonlyMap<string, OnFailure>;
  readonly #log: FailureLog;
  #closed = false;

  /** Throws a TypeError if an option is wrong. `open` is for the other entries of this package. */
  constructor(options: TollgateOptions = {}, open: (settings: TransportSettings) => Transport = openTransport) {
    checkOptions(options, ["url", "token", "timeout", "onFailure", "names", "maxConnections", "logger", "fetch"]);
    const settings = {
      address: options.url !== undefined ? parseAddress(options.url, "url") : addressOfEnvironment(),
      maxConnections: checkUnits(options.maxConnections ?? 64, "maxConnections", 1, 65_535),
    };
    this.#headers = headersOf(options.token);
    this.#token = this.#headers["Authorization"]?.slice("Bearer ".length);
    this.#timeout = checkTime(options.timeout ?? 250, "timeout", 60_000);
    this.#onFailure = checkWord(options.onFailure ?? "open", "onFailure", policies);
    const names = Object.entries(options.names ?? {});
    this.#names = new Map(names.map(([name, word]) => [name, checkWord(word, `names.${name}`, policies)]));
    const logger = options.logger ?? console;
    if (typeof logger.warn !== "function") throw new TypeError("logger must have a function `warn`");
    this.#log = new FailureLog(logger);
    this.#slots = new Slots(settings.maxConnections);
    this.#transport = options.fetch === undefined ? open(settings) : new FetchTransport(settings, options.fetch);
  }

  /** Takes units, if there is room. */
  async check(name: string, attributes: Attributes = {}, options: CheckOptions = {}): Promise<Decision> {
    checkOptions(options, ["cost", ...trace]);
    return this.#decide("/v1/check", name, attributes, options);
  }

  /** Answers as a check would, and takes nothing. */
  async peek(name: string, attributes: Attributes = {}, options: CheckOptions = {}): Promise<Decision> {
    checkOptions(options, ["cost", ...trace]);
    return this.#decide("/v1/peek", name, attributes, options);
  }

  /**
   * Repeats a check until it is admitted, and sleeps exactly as long as each denial says.
   *
   * Returns the denial at once if waiting does not help, or if the next attempt would be after the timeout.
   */
  async wait(name: string, attributes: Attributes = {}, options: WaitOptions = {}): Promise<Decision> {
    checkOptions(options, ["cost", "timeout", "signal", ...trace]);
    const { timeout, signal, ...rest } = options;
    const end = this.now() + checkTime(timeout ?? 30_000, "timeout", longestWait);
    for (;;) {
      signal?.throwIfAborted();
      const decision = await this.#decide("/v1/check", name, attributes, rest);
      if (decision.allowed || decision.failure !== undefined) return decision;
      const pause = decision.retryAfterMs ?? (decision.reason === "in_flight_exceeded" ? inFlightWait : Infinity);
      if (this.now() + pause > end) return decision;
      // A denial that says 0 must not be asked again without a pause.
      await this.sleep(Math.max(1, pause), signal);
    }
  }

  /** Holds an estimated cost and units in flight. Settle or release the hold when its work has ended. */
  async reserve(name: string, attributes: Attributes = {}, options: ReserveOptions = {}): Promise<Hold> {
    checkOptions(options, ["cost", "units", "expiresAfter", ...trace]);
    return this.#reserve(name, attributes, options);
  }

  /**
   * Holds units for a scope, and renews the hold meanwhile: `await using hold = await tollgate.hold("render", { user })`.
   *
   * Where `await using` is missing, close the hold in a `finally`, or pass the work as a function: the result is then
   * that of the work, and `releaseOnError` gives everything back if the work throws.
   */
  async hold(name: string, attributes?: Attributes, options?: HoldOptions): Promise<Hold>;
  async hold<Result>(
    name: string, attributes: Attributes, options: HoldOptions, work: (hold: Hold) => Result | Promise<Result>,
  ): Promise<Result>;
  async hold<Result>(
    name: string, attributes: Attributes = {}, options: HoldOptions = {}, work?: (hold: Hold) => Result | Promise<Result>,
  ): Promise<Hold | Result> {
    checkOptions(options, ["cost", "units", "expiresAfter", "releaseOnError", ...trace]);
    const { releaseOnError = false, ...rest } = options;
    if (work === undefined) {
      if (releaseOnError) throw new TypeError("releaseOnError needs the work as a function: `using` does not tell an error");
      const hold = await this.#reserve(name, attributes, rest);
      hold.keepAlive();
      return hold;
    }
    if (typeof work !== "function") throw new TypeError("the work must be a function");
    const hold = await this.#reserve(name, attributes, rest);
    hold.keepAlive();
    let result;
    try {
      result = await work(hold);
    } catch (error) {
      if (releaseOnError && !hold.settled) await hold.release();
      await hold.close();
      throw error;
    }
    await hold.close();
    return result;
  }

  /** Counts under limits or a window that the call names, apart from all policies. */
  async count(policy: string, attributes: Attributes, options: CountOptions): Promise<Count> {
    checkOptions(options, ["quotas", "window", "block", "operation", "cost", "used", "onStoreFailure", ...trace]);
    const { quotas, window, block, used } = options;
    const operation = checkWord(options.operation ?? "add", "operation", operations);
    const counts = operation === "add" || operation === "get";
    const name = checkName(policy, "the policy of a count");
    const standard = counts ? this.onFailureOf(name) : "open";
    const onStoreFailure = checkWord(options.onStoreFailure ?? standard, "onStoreFailure", policies);
    if ((quotas === undefined) === (window === undefined)) throw new TypeError("give either quotas or window");
    if (quotas !== undefined && !Array.isArray(quotas)) throw new TypeError("quotas must be a list, such as [\"5/1m\"]");
    if (block !== undefined && (quotas?.length !== 1 || operation === "subtract" || operation === "set")) {
      throw new TypeError("block needs one quota in quotas, and the operation add, get or reset");
    }
    if ((used !== undefined) !== (operation === "set")) throw new TypeError("used is for the operation set, which needs it");
    const body = {
      policy: name,
      attributes: attributesOf(attributes),
      quotas: quotas?.map((quota) => checkName(quota, "a quota")),
      window: window === undefined ? undefined : checkName(window, "window"),
      block: block === undefined ? undefined : checkName(block, "block"),
      operation: operation === "add" ? undefined : operation,
      cost: unlessDefault(checkUnits(options.cost ?? 1, "the cost"), 1),
      used: used === undefined ? undefined : checkUnits(used, "used", 0, Number.MAX_SAFE_INTEGER),
      on_store_failure: onStoreFailure === "open" ? undefined : onStoreFailure,
    };
    if (Object.keys(body.attributes).length === 0) throw new TypeError("a count needs at least one attribute: all of them are its key");
    try {
      return countIn(await this.#send("/v1/count", body, options));
    } catch (error) {
      const failure = this.#counted(error, body.attributes);
      const asks = quotas !== undefined && counts;
      return { ...(asks ? { allowed: onStoreFailure === "open" } : {}), source: "client", failure: failure.kind };
    }
  }

  /** Returns what calls under a name do without an answer. The name of a count is its policy. */
  onFailureOf(name: string): OnFailure {
    return this.#names.get(name) ?? this.#onFailure;
  }

  /** Returns how many calls got no answer, by kind. Kinds that did not occur are absent. */
  failures(): Partial<Record<FailureKind, number>> {
    return this.#log.counts();
  }

  /** Closes the connections. Later calls get no answer. */
  close(): void {
    this.#closed = true;
    this.#transport.close();
    this.#log.flush();
  }

  /** Closes the client at the end of `using`. */
  [Symbol.dispose](): void {
    this.close();
  }

  /** The time in milliseconds, for waits; a fake skips time. */
  protected now(): number {
    return performance.now();
  }

  /** Sleeps in a wait; a fake does not. */
  protected sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return sleep(ms, signal);
  }

  async #decide(path: string, name: string, attributes: unknown, options: CheckOptions): Promise<Decision> {
    const cost = unlessDefault(checkUnits(options.cost ?? 1, "the cost"), 1);
    const body = { attributes: namedAttributes(name, attributes), cost };
    try {
      return decisionIn(await this.#send(path, body, options))[0];
    } catch (error) {
      return ownDecision(this.#counted(error, withoutName(body.attributes)), this.onFailureOf(name));
    }
  }

  async #reserve(name: string, attributes: unknown, options: ReserveOptions): Promise<Hold> {
    const cost = checkUnits(options.cost ?? 1, "the cost");
    const body = {
      attributes: namedAttributes(name, attributes),
      cost: unlessDefault(cost, 1),
      units: unlessDefault(checkUnits(options.units ?? 1, "units", 0, 1_000), 1),
      expires_after: duration(options.expiresAfter ?? standardLife),
      id: randomId(),
    };
    const secrets = { ...withoutName(body.attributes), id: body.id };
    const call: HoldCall = async (path, fields) => {
      try {
        const answer = statusIn(await this.#send(path, fields, options, repeats));
        return { status: answer.status, fields: answer };
      } catch (error) {
        return { failure: this.#counted(error, { ...secrets, hold: fields["hold"] }).kind };
      }
    };
    try {
      const [decision, fields] = decisionIn(await this.#send("/v1/reserve", body, options, repeats));
      return new Hold(call, decision, fields, cost);
    } catch (error) {
      return new Hold(call, ownDecision(this.#counted(error, secrets), this.onFailureOf(name)), {}, cost);
    }
  }

  /** Sends a request once or, if its connection breaks, up to `repeats` times more, all within the timeout. */
  async #send(path: string, fields: Fields, trace: TraceContext, repeats = 0): Promise<Reply> {
    const body = checkBody(JSON.stringify(fields));
    const end = performance.now() + this.#timeout;
    const headers = headersWithTrace(this.#headers, trace);
    if (this.#closed) throw new Failure("connection", "the client is closed");
    const slot = this.#slots.take(this.#timeout);
    if (slot !== true && !(await slot)) throw new Failure("timeout", "no free connection within the timeout");
    try {
      for (let attempt = 0; ; attempt += 1) {
        try {
          return await this.#transport.send(path, headers, body, Math.max(1, end - performance.now()));
        } catch (error) {
          const broke = error instanceof Failure && error.kind === "connection";
          if (!broke || attempt === repeats || this.#closed || performance.now() >= end) throw error;
        }
      }
    } finally {
      this.#slots.give();
    }
  }

  /** Counts and logs a failure, without the texts among the secrets. */
  #counted(error: unknown, secrets: Fields): Failure {
    if (!(error instanceof Failure)) throw error;
    const values = Object.values(secrets).flat().filter((value) => typeof value === "string");
    this.#log.add(error, this.#token === undefined ? values : [...values, this.#token]);
    return error;
  }
}

/** Returns the caller's own attributes of a check. Those of a count have no name among them. */
function withoutName({ action: _, ...attributes }: Fields): Fields {
  return attributes;
}

function addressOfEnvironment() {
  const url = environment("TOLLGATE_URL");
  return parseAddress(url ?? defaultUrl, url === undefined ? "url" : "TOLLGATE_URL");
}

function headersOf(given: unknown): Record<string, string> {
  const headers: Record<string, string> = {
    "Content-Type": "application/json",
    "User-Agent": `tollgate-javascript/${version}`,
  };
  const source = given === undefined ? "TOLLGATE_TOKEN" : "token";
  const token = given ?? environment("TOLLGATE_TOKEN");
  if (token === undefined) return headers;
  if (typeof token !== "string" || !/^[\x21-\x7e]+$/.test(token)) {
    throw new TypeError(`${source} must be visible ASCII characters without spaces`);
  }
  return { ...headers, Authorization: `Bearer ${token}` };
}

/** Adds the context to pass on. What a header cannot carry is left out: a trace must not fail a check. */
function headersWithTrace(headers: Readonly<Record<string, string>>, context: TraceContext): Record<string, string> {
  const all = { ...headers };
  for (const name of trace) {
    const value = context[name];
    if (typeof value === "string" && /^[\x20-\x7e]{1,512}$/.test(value)) all[name] = value;
  }
  return all;
}

/** Returns a variable of the environment, if the runtime has one and lets us read it. An empty one is unset. */
function environment(name: string): string | undefined {
  try {
    const process = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process;
    return process?.env?.[name] || undefined;
  } catch {
    return undefined;
  }
}

function duration(ms: number): string | undefined {
  const whole = Math.ceil(checkTime(ms, "expiresAfter", 3_600_000));
  return whole === standardLife ? undefined : `${whole}ms`;
}

function unlessDefault(units: number, standard: number): number | undefined {
  return units === standard ? undefined : units;
}

function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    // A timer may fire up to a millisecond early, and would be denied again.
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms + 1);
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort, { once: true });
  });
}
