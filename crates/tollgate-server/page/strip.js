// @ts-check
// The strip on every view: is this process protecting, how much comes, who decides, is the store up, is the file live.

import { el, renew, say, set, write } from "./dom.js";
import { count, counted, length, millis, rate, share, stamp } from "./format.js";
import { serverNow } from "./poll.js";
import { protection } from "./protection.js";
import { link } from "./route.js";
import { sign, split } from "./spark.js";

/** What decided: its name in answers, the class of its part of the bar, and words. */
const SOURCES = [
  ["store", "of-store", "store"],
  ["local", "of-local", "known denials"],
  ["policies", "of-policies", "policies alone"],
  ["fallback_local", "of-share", "local share"],
  ["fallback_open", "of-fallback", "uncounted"],
  ["none", "of-none", "no answer"],
];
/** Screen readers hear news only so often. */
const QUIET = 10_000;

function cell(head, view) {
  const [value, more] = [el("span.value"), el("span.more")];
  const node = el("div.cell", el("dt", view ? el("a", { href: link([view]) }, head) : head), el("dd", value, more));
  /** Writes a figure, words about it, and a level that is not good. */
  const put = (figure, words, level) => {
    write(value, figure);
    write(more, words);
    set(node, "data-level", level);
  };
  return { node, more, put };
}

export function strip() {
  const [mark, word, said, spoken] = [el("span"), el("strong"), el("span"), el("p.hidden", { role: "status" })];
  const cells = [
    ["Checks a second"],
    ["Denied"],
    ["Decided by"],
    ["Store", "store"],
    ["Policies", "policies"],
    ["Warnings", "policies"],
  ].map(([head, view]) => cell(head, view));
  const [checks, denied, by, store, file, warnings] = cells;
  const bar = split(SOURCES.map(([, kind]) => kind));
  by.more.before(bar.node);
  let spokenAt = -Infinity;

  return {
    node: el(
      "section.strip",
      { "aria-label": "Status" },
      el("p.verdict", mark, word, said),
      el(
        "dl.cells",
        cells.map(({ node }) => node),
      ),
      spoken,
    ),
    /** @param {Live} live */
    update(live) {
      const { totals, sources, span_seconds: span, warnings: list, warnings_count: all = list.length } = live;
      const [level, name, sentence] = protection(live, serverNow());
      renew(mark, level, () => sign(level));
      write(word, `${name}.`);
      say(said, sentence);
      checks.put(count(totals.checks_now), `${rate(totals.checks / (span || 1))} on average`);
      denied.put(
        share(totals.denied, totals.checks),
        `${count(totals.denied)} of ${count(totals.checks)}${totals.trial_denied ? `, ${count(totals.trial_denied)} on trial` : ""}`,
      );
      bar.update(SOURCES.map(([name]) => sources[name]));
      const [first = "–", ...others] = SOURCES.filter(([name]) => sources[name])
        .sort(([a], [b]) => sources[b] - sources[a])
        .map(([name, , words]) => `${share(sources[name], totals.checks)} ${words}`);
      by.put(first, others.join(", "));
      store.put(...ofStore(live));
      file.put(...ofFile(live));
      warnings.put(count(all), all ? list[0].code || "see Policies" : "none");
      if (performance.now() - spokenAt < QUIET || spoken.textContent.startsWith(name)) return;
      spokenAt = performance.now();
      write(spoken, `${name}. ${sentence}`);
    },
  };
}

/** @param {Live} live @returns {[string, string, string?]} */
function ofStore({ store, memory }) {
  if (!store)
    return ["memory", memory ? `${count(memory.counters)} of ${counted(memory.max_counters, "counter")}` : ""];
  const { servers, down_since: since, kind } = store;
  if (!store.is_up) return [since ? `down ${length(serverNow() - stamp(since))}` : "down", kind, "bad"];
  const up = servers.filter(({ connected }) => connected).length;
  const words = [
    servers.length > 1 && `${up} of ${servers.length} servers`,
    store.p99_ms !== undefined && `99 % within ${millis(store.p99_ms)}`,
  ].filter(Boolean);
  return ["up", words.join(", ") || kind, up < servers.length ? "watch" : undefined];
}

/** @param {Live} live @returns {[string, string, string?]} */
function ofFile({ policies_version: version, in_step: isInStep, overrides }) {
  const isGood = isInStep && !overrides?.stale;
  const words = isInStep ? "in step" : "the file is not live";
  const more = overrides?.stale
    ? ", overrides are stale"
    : overrides?.count
      ? `, ${counted(overrides.count, "override")}`
      : "";
  return [`version ${version}`, words + more, isGood ? undefined : "watch"];
}
