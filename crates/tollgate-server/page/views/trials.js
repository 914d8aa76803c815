// @ts-check
// Trials: can a limit be enforced? What policies in shadow mode and candidates would deny, against what is denied now.

import { command, el, empty, write } from "../dom.js";
import { count, length, share } from "../format.js";
import { liveTable, shareCell, text } from "../live_table.js";
import { groups, SeriesFeed } from "../series_feed.js";
import { checks, nameCell, trialOf } from "./policy_row.js";

/** @typedef {{policy: LivePolicy, all: number, denied: number, trial: number, seen: number}} Row */

/** So many policies are followed over a day; the others show their last minute. */
const FOLLOWED = 24;
/** With fewer, 95 % certainty that at most 1 in 1,000 would be denied cannot be had. */
const ENOUGH = 2995;
const DAY = 86_400_000;

/** The most that the true share can be, with 95 %: the upper bound of Wilson's interval. */
function most(part, whole) {
  const z = 1.645;
  const p = part / whole;
  return (
    (p + (z * z) / (2 * whole) + z * Math.sqrt((p * (1 - p)) / whole + (z * z) / (4 * whole * whole))) /
    (1 + (z * z) / whole)
  );
}

/** @param {Row} row */
function judgement({ all, trial, seen }) {
  if (all < ENOUGH) return `not yet: ${count(all)} of ${count(ENOUGH)} checks`;
  return seen < 0.98 * DAY
    ? `not yet: ${length(seen - (seen % 60_000))} of a day`
    : `yes: at most ${share(most(trial, all))}`;
}

/** @param {Row} row */
const about = ({ policy: { mode, quotas, candidates = [] } }) =>
  mode === "shadow" ? quotas.join(", ") : `${candidates.flat().join(", ")}, now ${quotas.join(", ")}`;

/** @type {Column<Row>[]} */
const COLUMNS = [
  {
    name: "policy",
    head: "policy",
    kind: "left name",
    order: ({ policy }) => policy.name,
    make: nameCell(
      ({ policy }) => [policy.name, { tier: "5m" }],
      ({ policy }) => [policy.mode === "shadow" ? "shadow" : "candidate"],
      about,
    ),
  },
  { name: "checks", head: "checks", order: ({ all }) => all, make: text(({ all }) => count(all)) },
  {
    name: "now",
    head: "denied now",
    order: ({ all, denied }) => denied / (all || 1),
    make: text(({ all, denied }) => share(denied, all)),
  },
  {
    name: "trial",
    head: "on trial",
    order: ({ all, trial }) => trial / (all || 1),
    make: shareCell(
      ({ trial }) => trial,
      ({ all }) => all,
    ),
  },
  { name: "enough", head: "enough data?", kind: "left wide-only", make: text(judgement) },
];

/** @returns {View} */
export function trials() {
  const table = liveTable("Trials", COLUMNS, ({ policy }) => policy.name, "trial");
  const none = empty(
    "Nothing is on trial.",
    "Give a policy a candidate, or `mode: shadow`. It is counted and denies nobody:",
    command('- name: search\n  match: { path: "/search" }\n  key: [ip]\n  quotas: [300/1m]\n  candidate: [30/1m]'),
  );
  const more = el("p.soft.small");
  const node = el(
    "div",
    el("h1", { tabindex: -1 }, "Trials"),
    el("p.lead", "What would be denied if these limits were enforced, beside what is denied now."),
    table.node,
    more,
    none,
  );
  /** @type {Map<string, SeriesFeed>} */
  const feeds = new Map();
  let isReading = false;

  async function read(list, live) {
    if (isReading) return;
    isReading = true;
    for (const { name } of list.slice(0, FOLLOWED)) {
      if (!feeds.has(name)) feeds.set(name, new SeriesFeed(name, "5m"));
      if (node.isConnected) await feeds.get(name)?.read(live);
    }
    isReading = false;
  }

  /** @param {LivePolicy} policy @param {Live} live @returns {Row} */
  function row(policy, { at, span_seconds: span }) {
    const points = feeds.get(policy.name)?.points;
    const first = points?.allowed.findIndex((value) => value !== null) ?? -1;
    const [day] = points && first >= 0 ? groups(points, 288) : [];
    if (points && day?.all) return { policy, ...day, seen: Date.parse(at) - points.times[first] * 1000 };
    return { policy, all: checks(policy), denied: policy.denied, trial: trialOf(policy).denied, seen: span * 1000 };
  }

  return {
    title: "Trials",
    node,
    update(live) {
      const list = live.policies.filter(({ mode, candidates }) => mode === "shadow" || candidates?.length);
      read(list, live);
      table.update(list.map((policy) => row(policy, live)));
      table.node.hidden = more.hidden = !list.length;
      none.hidden = list.length > 0;
      write(
        more,
        `Figures are of the last day, or since the start${list.length > FOLLOWED ? `; after the first ${FOLLOWED}, of the last minute` : ""}. The bound is of 95 %, if requests are independent. A denied client would have waited or gone away, which a trial cannot show.`,
      );
    },
  };
}
