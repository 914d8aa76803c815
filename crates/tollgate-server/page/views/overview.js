// @ts-check
// The overview: which limit bites?

import { select } from "../dialog.js";
import { button, command, el, empty, input, put, renew, set, write } from "../dom.js";
import { count, rate, share } from "../format.js";
import { liveTable, shareCell, text } from "../live_table.js";
import { link, note } from "../route.js";
import { seriesChart } from "../series_chart.js";
import { SeriesFeed } from "../series_feed.js";
import { sparkline } from "../spark.js";

/** @param {{allowed: number, denied: number}} row */
const checks = (row) => row.allowed + row.denied;

/** What a policy in shadow mode, or its candidate, would deny. @param {LivePolicy} row */
export const trialOf = ({ shadow, candidate }) => shadow || candidate || { allowed: 0, denied: 0 };

/** What the policy is about, in a line. @param {LivePolicy} row */
export function limits({ role, key, quotas }) {
  if (role !== "limit") return role === "exempt" ? "admits without counting" : "denies all it matches";
  const who = key === "global" ? " for all together" : key ? ` for each ${key.replace(/[[\]]/g, "")}` : "";
  return (quotas.join(", ") || "unlimited") + who;
}

/** The roles and modes that a name alone does not say. @param {LivePolicy} row */
export const badges = ({ role, mode, candidates, overrides }) =>
  [role !== "limit" && role, mode !== "enforce" && mode, candidates?.length && "candidate", overrides && `${overrides} override${overrides > 1 ? "s" : ""}`]
    .filter(Boolean).map((word) => el("span.badge", word));

/** The name of a policy, which leads to its view, with badges and a line about it. */
export const nameCell = (policy, tags, about) => (cell) => {
  const [name, badges, line] = [el("a"), el("span"), el("span.about")];
  put(cell, name, badges, line);
  return (row) => {
    const [to, values] = policy(row);
    write(name, to);
    set(name, "href", link(["policy", to], values));
    renew(badges, tags(row).map((tag) => tag.textContent), () => tags(row));
    write(line, about(row));
  };
};

function sparkCell(cell) {
  const picture = sparkline();
  cell.append(picture.node);
  return (row) => picture.update(row.checks, row.denials, `At most ${count(Math.max(0, ...row.checks))} checks a second, ${count(row.denied)} denied`);
}

/** @type {(span: () => number) => Column<LivePolicy>[]} */
const columns = (span) => [
  { name: "policy", head: "policy", kind: "left name", order: (row) => row.name, make: nameCell((row) => [row.name], badges, limits) },
  { name: "checks", head: "checks/s", order: checks, make: text((row) => rate(checks(row) / span())) },
  { name: "denied", head: "denied", kind: "wide-only", order: (row) => row.denied, make: text((row) => count(row.denied)) },
  { name: "share", head: "denied %", order: (row) => row.denied / (checks(row) || 1), make: shareCell((row) => row.denied, checks) },
  { name: "trial", head: "on trial %", kind: "wide-only", order: (row) => trialOf(row).denied / (checks(trialOf(row)) || 1),
    make: text((row) => share(trialOf(row).denied, checks(trialOf(row)))) },
  { name: "fallback", head: "without store", kind: "wider-only", order: (row) => row.by_fallback, make: text((row) => count(row.by_fallback)) },
  { name: "minute", head: "last minute", kind: "wide-only spark-cell", make: sparkCell },
];

const MODES = [["", "All policies"], ["enforce", "Enforced"], ["shadow", "In shadow mode"], ["off", "Off"], ["denying", "Denying now"]];

/** @param {Route} here @returns {View} */
export function overview({ values }) {
  const find = input("find", { type: "search", value: values.get("find") || "", placeholder: "Find a policy", "aria-label": "Find a policy", input: filter });
  const mode = select("mode", MODES, { "aria-label": "Which policies", change: filter });
  mode.value = values.get("mode") || "";
  /** @type {Live} */
  let live;
  const table = liveTable("Policies", columns(() => live.span_seconds || 1), (row) => row.name, "denied");
  const hint = el("div");
  const filters = el("div.filters", find, mode);
  const feed = new SeriesFeed("", "1s");
  const chart = seriesChart("Last 10 minutes", 150);
  const node = el("div.overview", el("h1.hidden", { tabindex: -1 }, "Overview"), chart.node,
    el("section", el("div.head", el("h2", "Policies"), filters), table.node, hint));

  function filter() {
    note({ find: find.value, mode: mode.value, page: "" });
    table.toFirstPage();
    list();
  }

  function list() {
    const words = find.value.toLowerCase();
    const seen = live.policies.filter((row) => `${row.name} ${row.key} ${row.quotas}`.toLowerCase().includes(words)
      && (!mode.value || row.mode === mode.value || (mode.value === "denying" && row.denied)));
    table.update(seen);
    table.node.hidden = !seen.length;
    filters.hidden = !live.policies.length;
    chart.node.hidden = !live.policies.length && live.decided_by === "policies";
    const missing = (live.policies_count ?? 0) - live.policies.length;
    const kind = live.decided_by === "domains" ? "domains" : !live.policies.length ? "none" : !seen.length ? "found" : !live.totals.checks ? "calm" : missing > 0 ? "more" : "";
    renew(hint, [kind, missing], () => HINTS[kind]?.(missing, () => {
      find.value = mode.value = "";
      filter();
    }));
  }

  return {
    title: "Overview",
    node,
    update(now) {
      live = now;
      list();
      feed.read(live.process.started).then((isNew) => isNew && chart.update(feed));
    },
  };
}

/** What to do if there is nothing to see. */
const HINTS = {
  domains: () => empty("Domains decide here.", el("p", el("a", { href: link(["domains"]) }, "Their limits and hits"), " have a view of their own.")),
  none: () => empty("There is no policy yet.", "Start the service with a limit, or with a file of policies:",
    command("tollgate serve --limit 5/1m"), command("tollgate serve --config tollgate.yaml")),
  found: (missing, clear) => empty("No policy is like this.", el("p", button("Show all", clear))),
  calm: () => empty("Nobody has asked in the last minute.", "Ask once, and see it here. 8080 is the usual port of checks:",
    command("curl 'http://127.0.0.1:8080/v1/check?user=alice'")),
  more: (missing) => el("p.soft", `${count(missing)} more policies are not shown here; metrics have all.`),
};
