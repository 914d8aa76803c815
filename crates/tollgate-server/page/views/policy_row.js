// @ts-check
// A policy as a row: its name, what it is about, what it allowed and denied in the last minute.

import { el, put, renew, set, write } from "../dom.js";
import { count, rate, share } from "../format.js";
import { keyWords } from "../key.js";
import { shareCell, text } from "../live_table.js";
import { link } from "../route.js";
import { sparkline } from "../spark.js";

/**
 * How many checks there were. A policy in shadow mode decides none, but its trial counts them.
 * @param {{allowed: number, denied: number, shadow?: Sums}} row
 */
export const checks = ({ allowed, denied, shadow }) =>
  allowed + denied || (shadow ? shadow.allowed + shadow.denied : 0);

/** What a policy in shadow mode, or its candidate, would deny. @param {LivePolicy} row */
export const trialOf = ({ shadow, candidate }) => shadow || candidate || { allowed: 0, denied: 0 };

/** What the policy is about, in a line. @param {LivePolicy} row */
export function limits({ role, key, quotas }) {
  if (role !== "limit") return role === "exempt" ? "admits without counting" : "denies all it matches";
  return `${quotas.join(", ") || "unlimited"} for ${keyWords(key)}`;
}

/** The roles and modes that a name alone does not say. @param {LivePolicy} row */
export const badges = ({ role, mode, candidates, overrides }) =>
  [
    role !== "limit" && role,
    mode !== "enforce" && mode,
    candidates?.length && "candidate",
    overrides && `${overrides} override${overrides > 1 ? "s" : ""}`,
  ].filter(Boolean);

/** The name of a policy, which leads to its view, with badges and a line about it. */
export const nameCell = (policy, tags, about) => (cell) => {
  const [name, badges, line] = [el("a"), el("span"), el("span.about")];
  put(cell, name, badges, line);
  return (row) => {
    const [to, values] = policy(row);
    write(name, to);
    set(name, "href", link(["policy", to], values));
    const words = tags(row);
    renew(badges, words, () => words.map((word) => el("span.badge", word)));
    write(line, about(row));
  };
};

export function sparkCell(cell) {
  const picture = sparkline();
  cell.append(picture.node);
  return (row) =>
    picture.update(
      row.checks,
      row.denials,
      `At most ${count(Math.max(0, ...row.checks))} checks a second, ${count(row.denied)} denied`,
    );
}

/** The columns of policies. @type {(span: () => number) => Column<LivePolicy>[]} */
export const columns = (span) => [
  {
    name: "policy",
    head: "policy",
    kind: "left name",
    order: (row) => row.name,
    make: nameCell((row) => [row.name], badges, limits),
  },
  { name: "checks", head: "checks/s", order: checks, make: text((row) => rate(checks(row) / span())) },
  {
    name: "denied",
    head: "denied",
    kind: "wide-only",
    // Of two that deny as much, the busier one comes first.
    order: (row) => row.denied + checks(row) / 2 ** 52,
    make: text((row) => count(row.denied)),
  },
  {
    name: "share",
    head: "denied %",
    order: (row) => row.denied / (checks(row) || 1),
    make: shareCell((row) => row.denied, checks),
  },
  {
    name: "trial",
    head: "on trial %",
    kind: "wide-only",
    order: (row) => trialOf(row).denied / (checks(trialOf(row)) || 1),
    make: text((row) => share(trialOf(row).denied, checks(trialOf(row)))),
  },
  {
    name: "fallback",
    head: "without store",
    kind: "wider-only",
    order: (row) => row.by_fallback,
    make: text((row) => count(row.by_fallback)),
  },
  { name: "minute", head: "last minute", kind: "wide-only spark-cell", make: sparkCell },
];
