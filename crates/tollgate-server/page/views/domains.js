// @ts-check
// Envoy's domains, where they decide in place of policies.

import { command, el, empty, input, put, set, write } from "../dom.js";
import { clean, count, counted, rate } from "../format.js";
import { liveTable, shareCell, text } from "../live_table.js";
import { link } from "../route.js";
import { checks, sparkCell } from "./policy_row.js";

function nameCell(cell) {
  const [name, about] = [el("a"), el("span.about")];
  put(cell, name, about);
  return (row) => {
    write(name, clean(row.domain));
    set(name, "href", link(["domain", row.domain]));
    write(about, counted(row.limits, "limit"));
  };
}

/** @type {(span: () => number) => Column<LiveDomain>[]} */
const columns = (span) => [
  { name: "domain", head: "domain", kind: "left name", order: (row) => row.domain, make: nameCell },
  { name: "checks", head: "checks/s", order: checks, make: text((row) => rate(checks(row) / span())) },
  { name: "denied", head: "over limit", order: (row) => row.denied, make: text((row) => count(row.denied)) },
  {
    name: "share",
    head: "over %",
    kind: "wide-only",
    order: (row) => row.denied / (checks(row) || 1),
    make: shareCell((row) => row.denied, checks),
  },
  { name: "minute", head: "last minute", kind: "wide-only spark-cell", make: sparkCell },
];

/** The domains with a heading, such as `h1`. */
export function domainTable(heading) {
  /** @type {Live} */
  let live;
  const find = input("find", {
    type: "search",
    placeholder: "Find a domain",
    "aria-label": "Find a domain",
    input: list,
  });
  const seconds = () => live.span_seconds || 1;
  const table = liveTable("Domains", columns(seconds), ({ domain }) => domain, "denied");
  const none = empty(
    "No domain has a limit.",
    "Import the files of Envoy's rate-limit service:",
    command("tollgate serve --import envoy-ratelimit --config ratelimit/config"),
  );

  function list() {
    const rows = live.envoy?.domains || [];
    table.update(rows.filter(({ domain }) => domain.toLowerCase().includes(find.value.toLowerCase())));
    table.node.hidden = !rows.length;
    none.hidden = rows.length > 0;
  }

  return {
    node: el("section", el("div.head", el(heading, { tabindex: -1 }, "Domains"), find), table.node, none),
    /** @param {Live} now */
    update(now) {
      live = now;
      list();
    },
  };
}

/** @returns {View} */
export const domains = () => ({ title: "Domains", ...domainTable("h1") });
