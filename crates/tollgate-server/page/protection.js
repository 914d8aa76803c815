// @ts-check
// Says in plain words whether limits hold now: a level (`good`, `watch`, `bad` or `idle`), a word and a sentence.

import { sentence } from "./api.js";
import { count, counted, lately, length, share, stamp } from "./format.js";

/** Names of stores by their kinds. */
export const STORES = { redis: "Redis", sentinel: "Redis", cluster: "The Cluster" };
const MEANWHILE = {
  open: "admit requests without counting them",
  closed: "refuse them with 503",
  local: "count in this process alone, against its share",
};

/** What policies do without the store, from the words of `on_store_failure`. */
export function meanwhile(words) {
  const kinds = Object.keys(MEANWHILE).filter((kind) => words.some((word) => word.startsWith(kind)));
  if (kinds.length === 1) return `All policies are \`${kinds[0]}\`: they ${MEANWHILE[kinds[0]]}.`;
  return kinds.length
    ? `Policies with ${kinds.map((kind) => `\`${kind}\` ${MEANWHILE[kind]}`).join("; those with ")}.`
    : "";
}

/** @param {Live} live */
export const protection = (live, now) =>
  stopping(live) || outage(live, now) || gaps(live) || nothing(live) || protecting(live);

/** @param {Live} live */
function stopping({ state, state_text: text }) {
  if (state === "draining")
    return ["watch", "Stopping", "This process answers the requests that it has, and takes no new ones."];
  return state === "not_ready" && ["bad", "Not ready", sentence(text)];
}

/** @param {Live} live */
function outage({ store }, now) {
  if (!store || store.is_up) return null;
  const words = store.without_store.join();
  const since = store.down_since ? ` for ${length(now - stamp(store.down_since))}` : "";
  const [level, word] = /open/.test(words)
    ? ["bad", "Not protected"]
    : /closed/.test(words)
      ? ["bad", "Refusing"]
      : ["watch", "Partly protected"];
  return [level, word, `The store has not answered${since}. ${meanwhile(store.without_store)}`];
}

/** @param {Live} live */
function gaps({ sources, totals, memory, span_seconds: span }) {
  const { fallback_open: open, fallback_local: shared, none } = sources;
  const checks = (number) => `In ${lately(span)}, ${counted(number, "check")} (${share(number, totals.checks)})`;
  if (memory?.store_full)
    return [
      "bad",
      "Memory full",
      `${checks(memory.store_full)} found no room for a counter. Raise \`--max-counters\`.`,
    ];
  if (open) return ["watch", "Gaps", `${checks(open)} passed without a count of the store.`];
  if (none) return ["watch", "Gaps", `${checks(none)} got no decision.`];
  return shared > 0 && ["watch", "Gaps", `${checks(shared)} were decided by this process's share alone.`];
}

/** @param {Live} live */
function nothing({ decided_by: by, policies, envoy, in_step: isInStep }) {
  const isEmpty = by === "domains" ? !envoy?.domains.length : !policies.length;
  if (isEmpty)
    return [
      "idle",
      "No limits",
      `No ${by === "domains" ? "domain has a limit" : "policy is live"}, so every request is admitted.`,
    ];
  if (by === "policies" && !policies.some(({ mode }) => mode === "enforce")) {
    return ["idle", "Only watching", "No policy is enforced: they count, and deny nothing."];
  }
  return !isInStep && ["watch", "Protected by the older file", "The file that was read last is not live."];
}

/** @param {Live} live */
function protecting({ totals: { checks }, sources, store, span_seconds: span }) {
  const place = store ? STORES[store.kind] || "The store" : "This process";
  const decided = sources.store + sources.local;
  const text = !checks
    ? `There were no checks in ${lately(span)}.`
    : !decided
      ? `No quota applied to the ${counted(checks, "check")} of ${lately(span)}.`
      : `${place} decided ${count(decided)} of ${counted(checks, "check")} in ${lately(span)}.`;
  return ["good", "Protected", text];
}
