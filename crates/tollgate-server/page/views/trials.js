// @ts-check
// Trials: can a limit be enforced? What policies in shadow mode and candidates would deny, next to what is denied now.

import { command, el, empty } from "../dom.js";
import { count, length, share, stamp } from "../format.js";
import { liveTable, shareCell, text } from "../live_table.js";
import { nameCell } from "./policy_row.js";

/** @typedef {{policy: LivePolicy, trial: Trial, all: number, age: number}} Row */

/** With fewer and no denial, 95 % certainty that at most 1 in 1,000 is denied cannot be had: ln 0.05 / ln 0.999. */
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
function judgement({ trial, all, age }) {
  if (all < ENOUGH) return `not yet: ${count(all)} of ${count(ENOUGH)} checks`;
  return age < DAY
    ? `not yet: ${length(age - (age % 60_000))} of a day`
    : `yes: at most ${share(most(trial.denied_only_on_trial, all))} newly denied`;
}

/** @param {Row} row */
const about = ({ policy: { quotas, candidates = [] }, trial: { kind } }) =>
  kind === "shadow"
    ? `${quotas.join(", ") || "all it matches"}, next to other policies`
    : `${candidates.flat().join(", ") || "of overrides"}, now ${quotas.join(", ")}`;

/** A column of a count. @returns {Column<Row>} */
const counts = (name, head, kind, figure) => ({
  name,
  head,
  kind,
  order: figure,
  make: text((row) => count(figure(row))),
});

/** @type {Column<Row>[]} */
const COLUMNS = [
  {
    name: "policy",
    head: "policy",
    kind: "left name",
    order: ({ policy }) => policy.name,
    make: nameCell(
      ({ policy }) => [policy.name, { tier: "5m" }],
      ({ trial: { kind }, policy }) =>
        policy.mode === "shadow" && kind !== "shadow" ? [kind, "in shadow mode"] : [kind],
      about,
    ),
  },
  counts("checks", "checks", "wide-only", ({ all }) => all),
  {
    name: "trial",
    head: "on trial",
    order: ({ trial, all }) => trial.denied / (all || 1),
    make: shareCell(
      ({ trial }) => trial.denied,
      ({ all }) => all,
    ),
  },
  {
    name: "now",
    head: "denied now",
    kind: "wide-only",
    order: ({ trial, all }) => (trial.denied_by_both + trial.denied_only_now) / (all || 1),
    make: text(({ trial, all }) => share(trial.denied_by_both + trial.denied_only_now, all)),
  },
  counts("new", "only on trial", "", ({ trial }) => trial.denied_only_on_trial),
  counts("old", "only now", "wider-only", ({ trial }) => trial.denied_only_now),
  counts("both", "by both", "wider-only", ({ trial }) => trial.denied_by_both),
  {
    name: "since",
    head: "for",
    kind: "wider-only",
    order: ({ age }) => age,
    make: text(({ age }) => length(age < 60_000 ? age : age - (age % 60_000))),
  },
  { name: "enough", head: "enough data?", kind: "left wide-only", make: text(judgement) },
];

/** @returns {View} */
export function trials() {
  const table = liveTable("Trials", COLUMNS, ({ policy, trial }) => `${policy.name}:${trial.kind}`, "new");
  const none = empty(
    "Nothing is on trial.",
    "Give a policy a candidate, or `mode: shadow`. It is counted and denies nobody:",
    command('- name: search\n  match: { path: "/search" }\n  key: [ip]\n  quotas: [300/1m]\n  candidate: [30/1m]'),
  );
  const more = el(
    "p.soft.small",
    "Figures are since the start of this process, or since a reload changed the policy. “Only on trial” is what would be denied in addition, and “only now” what would be admitted again. The bound is of 95 %, if requests are independent. A denied client would have waited or gone away, which a trial cannot show.",
  );
  return {
    title: "Trials",
    node: el(
      "div",
      el("h1", { tabindex: -1 }, "Trials"),
      el("p.lead", "What would be denied if these limits were enforced, next to what is denied now."),
      table.node,
      more,
      none,
    ),
    update({ at, policies }) {
      const rows = policies.flatMap((policy) =>
        (policy.trials || []).map((trial) => ({
          policy,
          trial,
          all: trial.allowed + trial.denied,
          age: stamp(at) - stamp(trial.since),
        })),
      );
      table.update(rows);
      table.node.hidden = more.hidden = !rows.length;
      none.hidden = rows.length > 0;
    },
  };
}
