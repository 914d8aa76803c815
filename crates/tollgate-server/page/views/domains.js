// @ts-check
// The limits of Envoy's domains, where they decide in place of policies.

import { command, el, empty, input, put, set, write } from "../dom.js";
import { count } from "../format.js";
import { liveTable, shareCell, text } from "../live_table.js";
import { link } from "../route.js";

function nameCell(cell) {
  const [rule, about] = [el("a"), el("span.about")];
  put(cell, rule, about);
  return (row) => {
    write(rule, row.rule);
    set(rule, "href", link(["rule", row.domain, row.rule]));
    write(about, `${row.domain}: ${row.limit}`);
  };
}

/** @type {(head: string, hit: keyof DomainRule["hits"], kind?: string) => Column<DomainRule>} */
const hits = (head, hit, kind) => ({
  name: hit,
  head,
  kind,
  order: (row) => row.hits[hit],
  make: text((row) => count(row.hits[hit])),
});

/** @type {Column<DomainRule>[]} */
const COLUMNS = [
  { name: "rule", head: "rule", kind: "left name", order: ({ rule }) => rule, make: nameCell },
  hits("hits", "total"),
  hits("over limit", "over"),
  {
    name: "share",
    head: "over %",
    kind: "wide-only",
    order: (row) => row.hits.over / (row.hits.total || 1),
    make: shareCell(
      (row) => row.hits.over,
      (row) => row.hits.total,
    ),
  },
  hits("near limit", "near", "wide-only"),
  hits("in shadow mode", "shadow", "wide-only"),
];

/** @returns {View} */
export function domains() {
  /** @type {DomainRule[]} */
  let rules = [];
  const find = input("find", { type: "search", placeholder: "Find a rule", "aria-label": "Find a rule", input: list });
  const table = liveTable("Rules of domains", COLUMNS, ({ domain, rule }) => `${domain} ${rule}`, "over");
  const none = empty(
    "No domain has a limit.",
    "Import the files of Envoy's rate-limit service:",
    command("tollgate serve --import envoy-ratelimit --config ratelimit/config"),
  );

  function list() {
    table.update(
      rules.filter((row) => `${row.domain} ${row.rule} ${row.limit}`.toLowerCase().includes(find.value.toLowerCase())),
    );
    table.node.hidden = !rules.length;
    none.hidden = rules.length > 0;
  }

  return {
    title: "Domains",
    node: el("div", el("div.head", el("h1", { tabindex: -1 }, "Domains"), find), table.node, none),
    update({ envoy }) {
      rules = envoy?.domains || [];
      list();
    },
  };
}
