// @ts-check
// The strip on every view: is this process protecting, how much comes, who decides, is the store up, is the file live.

import { el, renew, say, set, write } from "./dom.js";
import { count, counted, length, millis, rate, share, stamp } from "./format.js";
import { serverNow } from "./poll.js";
import { protection, STORES } from "./protection.js";
import { link } from "./route.js";
import { dot, sign, split } from "./spark.js";

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
  /**
   * Writes a figure, lines about it, and a level that is not good.
   * @param {string} figure @param {any[]} lines @param {string} [level]
   */
  const put = (figure, lines, level) => {
    write(value, figure);
    const seen = lines.filter(Boolean);
    renew(more, seen, () => seen.map((line) => [el("span", line), " "]));
    set(node, "data-level", level);
  };
  return { node, value, more, put };
}

export function strip() {
  const [mark, word, said, spoken] = [el("span"), el("strong"), el("span"), el("p.hidden", { role: "status" })];
  const cells = [
    ["Checks a second"],
    ["Denied"],
    ["Decided by", "about"],
    ["Store", "store"],
    ["Policies", "policies"],
    ["Warnings", "policies"],
  ].map(([head, view]) => cell(head, view));
  const [checks, denied, by, store, file, warnings] = cells;
  const bar = split(SOURCES.map(([, kind]) => kind));
  by.more.before(bar.node);
  by.more.classList.add("parts");
  let spokenAt = -Infinity;
  /** @type {any} */
  let last = ["idle", "", ""];

  function tell([level, name, sentence]) {
    renew(mark, level, () => sign(level));
    write(word, `${name}.`);
    say(said, sentence);
    if (performance.now() - spokenAt < QUIET || spoken.textContent.startsWith(name)) return;
    spokenAt = performance.now();
    write(spoken, `${name}. ${sentence}`);
  }

  /** The largest part in words, and what the colours of the bar mean. @param {Live} live */
  function decided({ sources, store, totals: { checks } }) {
    const parts = SOURCES.filter(([name]) => sources[name]);
    const most = parts.reduce((most, part) => (sources[part[0]] > sources[most[0]] ? part : most), parts[0]);
    const words = (/** @type {string[]} */ [name, , words]) =>
      `${share(sources[name], checks)} ${name === "store" && !store ? "memory" : words}`;
    write(by.value, most ? words(most) : "–");
    renew(by.more, parts.map(words), () => parts.map((part) => [el("span", dot(part[1]), words(part)), " "]));
  }

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
      last = protection(live, serverNow());
      tell(last);
      checks.put(count(totals.checks_now), [`${rate(totals.checks / (span || 1))} on average`]);
      denied.put(share(totals.denied, totals.checks), [
        `${count(totals.denied)} of ${count(totals.checks)}`,
        totals.trial_denied && `${count(totals.trial_denied)} on trial`,
      ]);
      bar.update(SOURCES.map(([name]) => sources[name]));
      decided(live);
      store.put(...ofStore(live));
      file.put(...ofFile(live));
      const code = all ? list[0]?.code || "see Policies" : "none";
      warnings.put(count(all), [code, all > 1 && `and ${count(all - 1)} more`]);
    },
    /** Says that nobody knows what is now. @param {number} age of the figures, in milliseconds */
    old: (age) => tell(["idle", "Unknown", `The last figures are ${length(age)} old. They said: ${last[1]}.`]),
  };
}

/** @param {Live} live @returns {[string, any[], string?]} */
function ofStore({ store, memory }) {
  if (!store) {
    const { counters = 0, max_counters: most = 0 } = memory || {};
    return ["memory", [counted(counters, "counter"), `of ${count(most)}`], counters > 0.9 * most ? "watch" : undefined];
  }
  const { servers, down_since: since } = store;
  const kind = STORES[store.kind] || store.kind;
  if (!store.is_up) return [since ? `down ${length(serverNow() - stamp(since))}` : "down", [kind], "bad"];
  const up = servers.filter(({ connected }) => connected).length;
  const lines = [
    servers.length > 1 ? `${up} of ${servers.length} servers` : kind,
    store.p99_ms !== undefined && `99 % in ${millis(store.p99_ms)}`,
  ];
  return ["up", lines, up < servers.length ? "watch" : undefined];
}

/** @param {Live} live @returns {[string, any[], string?]} */
function ofFile({ policies_version: version, in_step: isInStep, overrides }) {
  const isGood = isInStep && !overrides?.stale;
  const words = isInStep ? "in step" : "the file is not live";
  const more = overrides?.stale
    ? "overrides are stale"
    : Boolean(overrides?.count) && counted(overrides?.count, "override");
  return [`version ${version}`, [words, more], isGood ? undefined : "watch"];
}
