// What the page reads from the service, and the parts of the page itself. Only `tsc` reads this file; browsers never get it.

interface Sums { allowed: number; denied: number; failed: number }

/** A trial since it began, beside what denies now. */
interface Trial extends Sums {
  kind: "shadow" | "candidate";
  since: string;
  denied_by_both: number;
  denied_only_on_trial: number;
  denied_only_now: number;
}

interface LivePolicy extends Sums {
  name: string;
  mode: "enforce" | "shadow" | "off";
  role: "limit" | "exempt" | "deny";
  key?: string;
  quotas: string[];
  candidates?: string[][];
  on_store_failure?: string;
  by_fallback: number;
  shadow?: Sums;
  candidate?: Sums;
  trials?: Trial[];
  overrides?: number;
  checks: (number | null)[];
  denials: (number | null)[];
}

interface StoreServer { name: string; connected: boolean; down_for_ms?: number; trouble?: string; clock_offset_ms?: number }

interface LiveStore {
  kind: string;
  servers: StoreServer[];
  is_up: boolean;
  down_since?: string;
  without_store: string[];
  steps: number;
  errors: Record<string, number>;
  late_replies: number;
  p50_ms?: number;
  p99_ms?: number;
}

interface Mark { at: string; kind: string; text: string }

interface FileWarning { code?: string; policy?: string; text: string }

interface LiveDomain {
  domain: string;
  limits: number;
  allowed: number;
  denied: number;
  checks: (number | null)[];
  denials: (number | null)[];
  /** The texts by which talkers of a rule are asked for. */
  rules?: string[];
}

interface Live {
  seq: number;
  at: string;
  process: { host: string; pid: number; started: string; version: string };
  state: "ready" | "draining" | "not_ready";
  state_text: string;
  decided_by: "policies" | "domains";
  policies_version: number;
  generation?: string;
  overrides_version?: string;
  overrides?: { count: number; stale: boolean; age_ms: number };
  source: string;
  since: string;
  in_step: boolean;
  failure?: string;
  warnings: FileWarning[];
  warnings_count?: number;
  span_seconds: number;
  totals: {
    checks: number; allowed: number; denied: number; failed: number; by_fallback: number;
    trial_denied: number; unlimited: number; unmatched: number; checks_now: number;
  };
  sources: {
    store: number; local: number; policies: number; fallback_local: number; fallback_open: number; none: number;
  };
  latency_ms?: { p50?: number; p99?: number };
  memory?: { counters: number; max_counters: number; holds: number; expired_holds: number; store_full: number };
  store?: LiveStore;
  talkers: "hashed" | "plain" | "off";
  policies: LivePolicy[];
  policies_count?: number;
  envoy?: { domains: LiveDomain[] };
  events: Mark[];
}

interface Series {
  seq: number;
  tier: "1s" | "5m";
  step_seconds: number;
  start: number;
  times: number[];
  series: {
    policy: string;
    allowed: (number | null)[];
    denied: (number | null)[];
    trial_denied: (number | null)[];
    by_fallback: (number | null)[];
    failed: (number | null)[];
  }[];
  events?: Mark[];
}

interface Talkers {
  policy: string;
  by: "checks" | "denied";
  period: "current" | "last";
  names: "hashed" | "plain";
  since: string;
  until: string;
  total: number;
  counted: number;
  skipped: number;
  counters: number;
  max_error: number;
  memory_bytes: number;
  rows: { id: string; key?: string; count: number; error: number; share: number }[];
}

interface InspectedQuota {
  quota: string;
  limit: number;
  used?: number;
  held?: number;
  remaining?: number;
  reset_after_ms?: number;
  next_after_ms?: number;
  window?: { start: number; end: number };
  override?: { until?: string | number };
}

interface AppliedPolicy {
  policy: string;
  mode?: string;
  role?: string;
  id?: string;
  counts?: string;
  override?: { until?: string | number; id?: string };
  quotas?: InspectedQuota[];
  charges?: InspectedQuota[];
  in_flight?: { quota?: string; written?: string; limit: number; held?: number; remaining?: number };
  trials?: {
    kind: string; answer?: "allowed" | "denied"; charges?: InspectedQuota[]; in_flight?: { written: string };
  }[];
}

interface Inspection {
  at: string;
  policies_version: number;
  overrides_version?: string;
  talker?: { policy: string; id: string };
  verdict?: "allowed" | "denied";
  message?: string;
  source?: string;
  reason?: string;
  retry_after_ms?: number;
  peek_failed?: string;
  applied: AppliedPolicy[];
  not_applied: { policy: string; reason: string }[];
  not_applied_count?: number;
  overrides?: unknown[];
}

/** Attributes of a request, or a talker. */
interface Subject { attributes?: Record<string, string>; policy?: string; id?: string }

interface QuotaAfter {
  policy: string; quota: string; limit?: number; used?: number; remaining?: number; given?: number; window?: unknown;
}

interface WhatIf {
  policy: string;
  quota: string;
  exact: boolean;
  says?: string;
  since?: string;
  until: string;
  span_seconds: number;
  sampled?: string;
  keys: number;
  requests: number;
  denied_requests: number;
  skipped: number;
  basis: "calculated" | "replayed";
  curve: {
    limit: number; refused_requests: number; refused_keys: number;
    share_requests: number; share_keys: number; low?: number; high?: number;
  }[];
  kinds: { quota: string; refused_requests: number; refused_keys: number }[];
  candidate: string;
}

interface History {
  reloads: {
    at: string; cause: string; version: number; outcome: "replaced" | "unchanged" | "failed";
    changes?: string[]; more?: number; failure?: string;
  }[];
  warnings: FileWarning[];
}

interface Problem {
  title?: string;
  detail?: string;
  field?: string;
  scope?: string;
  reason?: string;
  changed?: QuotaAfter[];
}

interface Route { view: string; names: string[]; values: URLSearchParams }

interface View { title: string; node: Element; update(live: Live): void; leave?(): void }

/** A column of a table whose rows change. */
interface Column<Row> {
  name: string;
  head: string;
  kind?: string;
  order?(row: Row): string | number;
  /** Fills a new cell, and returns what writes it. */
  make(cell: HTMLElement): (row: Row) => void;
}

interface Points {
  times: number[];
  allowed: (number | null)[];
  denied: (number | null)[];
  trial_denied: (number | null)[];
  by_fallback: (number | null)[];
  failed: (number | null)[];
}

interface Change {
  title: string;
  button: string;
  /** What will happen, for what the fields say now. */
  says(): string;
  fields?: Element[];
  /** What has to be confirmed in addition, if the change concerns many. */
  twice?: string;
  run(): Promise<{ says: string; heads: string[]; rows: unknown[][] }>;
}
