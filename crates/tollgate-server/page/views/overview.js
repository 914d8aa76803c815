// @ts-check
// The overview: which limit bites?

import { select } from "../dialog.js";
import { button, command, el, empty, input, renew } from "../dom.js";
import { count, foreign } from "../format.js";
import { liveTable } from "../live_table.js";
import { note } from "../route.js";
import { seriesChart } from "../series_chart.js";
import { SeriesFeed } from "../series_feed.js";
import { domainTable } from "./domains.js";
import { columns } from "./policy_row.js";

const MODES = [
  ["", "All policies"],
  ["enforce", "Enforced"],
  ["shadow", "In shadow mode"],
  ["off", "Off"],
  ["denying", "Denying now"],
];

/** @param {Route} here @returns {View} */
export function overview({ values }) {
  const find = input("find", {
    type: "search",
    value: values.get("find") || "",
    placeholder: "Find a policy",
    "aria-label": "Find a policy",
    input: filter,
  });
  const mode = select("mode", MODES, { "aria-label": "Which policies", change: filter });
  mode.value = values.get("mode") || "";
  /** @type {Live} */
  let live;
  const table = liveTable(
    "Policies",
    columns(() => live.span_seconds || 1),
    (row) => row.name,
    "denied",
  );
  const hint = el("div");
  const filters = el("div.filters", find, mode);
  const feed = new SeriesFeed("", "1s");
  const chart = seriesChart(150);
  const domains = domainTable("h2");
  const once = el("p.soft.small", "A check counts for one policy: the one that decided it.");
  const policies = el("section", el("div.head", el("h2", "Policies"), filters), hint, table.node, once);
  const node = el(
    "div.overview",
    el("h1.hidden", { tabindex: -1 }, "Overview"),
    chart.node,
    domains.node,
    policies,
  );

  function filter() {
    note({ find: find.value, mode: mode.value, page: "" });
    table.toFirstPage();
    list();
  }

  function showAll() {
    find.value = mode.value = "";
    filter();
  }

  function list() {
    const words = find.value.toLowerCase();
    const seen = live.policies.filter(
      (row) =>
        `${row.name} ${row.key} ${row.quotas}`.toLowerCase().includes(words) &&
        (!mode.value || row.mode === mode.value || (mode.value === "denying" && row.denied)),
    );
    table.update(seen);
    table.node.hidden = once.hidden = !seen.length;
    filters.hidden = !live.policies.length;
    chart.node.hidden = !live.policies.length && live.decided_by === "policies";
    const missing = (live.policies_count ?? 0) - live.policies.length;
    const kind = hintKind(live, seen.length, missing);
    renew(hint, [kind, missing], () => HINTS[kind]?.(missing, showAll, live));
  }

  return {
    title: "Overview",
    node,
    update(now) {
      live = now;
      const isOfDomains = live.decided_by === "domains";
      domains.node.hidden = !isOfDomains;
      policies.hidden = isOfDomains;
      if (isOfDomains) domains.update(live);
      list();
      feed.read(live).then((isNew) => isNew && chart.update(feed));
    },
  };
}

/** @param {Live} live */
function hintKind({ policies, totals }, seen, missing) {
  if (!policies.length) return "none";
  if (!seen) return "found";
  if (!totals.checks) return "calm";
  return missing > 0 ? "more" : "";
}

/** What to do if there is nothing to see, by its kind. */
const HINTS = {
  none: (missing, clear, live) =>
    empty(
      "There is no policy yet.",
      el("p", "Write one into ", foreign(live.source), ". The service reads a file again when it changes:"),
      command("policies:\n  - name: search\n    match: { path: /search }\n    key: [user]\n    quotas: [5/1m]"),
    ),
  found: (missing, clear) => empty("No policy is like this.", el("p", button("Show all", clear))),
  calm: () =>
    empty(
      "Nobody has asked in the last minute.",
      "Ask once, and see it here. 8080 is the usual port of checks:",
      command("curl 'http://127.0.0.1:8080/v1/check?user=alice'"),
    ),
  more: (missing) => el("p.soft", `${count(missing)} more policies are not shown here; metrics have all.`),
};
