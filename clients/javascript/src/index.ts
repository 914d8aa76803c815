/**
 * A client of Tollgate, an exact rate limiter.
 *
 * The contract that it follows is `docs/clients.md` of the project.
 */
export type { Count, Decision, Source } from "./answer.js";
export type { Attributes } from "./arguments.js";
export type { FailureKind, Logger, OnFailure } from "./failure.js";
export { Hold, type Renewal, type Settlement } from "./hold.js";
export {
  Tollgate,
  type CheckOptions, type CountOptions, type HoldOptions, type ReserveOptions, type TollgateOptions, type TraceContext,
  type WaitOptions,
} from "./tollgate.js";
