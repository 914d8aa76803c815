// @ts-check
// What the inspector found: the verdict, each policy that applies with its counters, and the reasons of the others.

import { sentence } from "../api.js";
import { button, el, put, write } from "../dom.js";
import { count, foreign, length, moment, second, stamp, told } from "../format.js";
import { plainTable } from "../live_table.js";
import { serverNow } from "../poll.js";
import { link } from "../route.js";
import { meter, sign } from "../spark.js";
import { changeButtons } from "./changes.js";

const VERDICTS = { allowed: ["good", "Allowed"], denied: ["bad", "Denied"] };
const SOURCES = {
  store: "by the store",
  local: "without asking the store: an earlier denial still holds",
  policies: "by the policies alone",
  fallback: "without the store",
};

/** @param {Inspection} found */
function verdict({
  verdict,
  peek_failed: failed,
  source = "",
  message,
  retry_after_ms: retry,
  at,
  talker,
  policies_version: version,
  overrides_version: overrides,
}) {
  const [level, word] = failed ? ["watch", "Unknown"] : VERDICTS[verdict ?? ""] || ["idle", "No verdict"];
  return el(
    `div.verdict-box.${level}`,
    el("h2", sign(level), ` ${word}`, !failed && SOURCES[source] && el("span.soft", `, ${SOURCES[source]}`)),
    el(
      "p",
      failed ? told(sentence(`the counters could not be read: ${failed}`)) : message && told(sentence(message)),
      // Of a talker, not all policies are known, and so no answer.
      failed && !talker && ` A check ${verdict ? `is ${verdict}` : "fails"} meanwhile.`,
      retry && ` It may pass in ${length(retry)}.`,
    ),
    el(
      "p.soft.small",
      `At ${second(stamp(at))}, under version ${version} of the policies${overrides ? ` and ${overrides} of the overrides` : ""}.`,
    ),
  );
}

const overridden = (over) =>
  over &&
  el(
    "span.badge",
    "by an override, ",
    over.until === undefined ? "without end" : ["until ", moment(over.until, serverNow())],
  );

/** A row of a quota, and what writes the time until it resets. @param {InspectedQuota} quota */
function quotaRow({ quota, limit, used, held, remaining, reset_after_ms: reset, override }, at) {
  const number = used ?? held;
  // What could not be read is not shown as room.
  if (number === undefined) {
    return { cells: [[quota, overridden(override)], `unknown, of ${count(limit)}`, "–", "–"], tick: () => {} };
  }
  const bar = meter(number < limit ? "admitted" : "denied", number / limit);
  const ends = el("span");
  const tick = () => write(ends, length(Math.ceil((at + Number(reset) - serverNow()) / 1000) * 1000));
  if (reset === undefined) write(ends, "–");
  else tick();
  const left = count(remaining ?? Math.max(0, limit - number));
  const cells = [[quota, overridden(override)], [`${count(number)} of ${count(limit)}`, bar.node], left, ends];
  return { cells, tick: reset === undefined ? () => {} : tick };
}

const ROLES = { exempt: "It admits the request without counting.", deny: "It denies the request." };

const ANSWERS = { allowed: "it would admit this request now", denied: "it would deny this request now" };

/** What is on trial, in words. @param {AppliedPolicy} applied */
const tried = ({ trials = [] }) =>
  trials.map(({ kind, answer, charges = [], in_flight: flight }) => {
    const limits = [...charges.map(({ quota }) => quota), ...(flight ? [flight.written] : [])].join(", ");
    const says = answer ? `: ${ANSWERS[answer]}` : "";
    return el("p.small.soft", `${kind === "shadow" ? "In shadow mode" : "Candidate"} ${limits}${says}.`);
  });

/** @param {AppliedPolicy} applied */
function card(applied, found, subject, live, again) {
  const { policy, mode, role, id, counts, override, charges, in_flight: flight } = applied;
  const quotas = applied.quotas ?? charges ?? [];
  const all = flight ? [...quotas, { ...flight, quota: flight.quota || flight.written || "in flight" }] : quotas;
  const rows = all.map((quota) => quotaRow(quota, stamp(found.at)));
  const tags = [mode !== "enforce" && mode, role !== "limit" && role].filter(Boolean);
  const title = el("h3", el("a", { href: link(["policy", policy]) }, policy));
  const names = tags.map((tag) => el("span.badge", tag));
  const cells = rows.map(({ cells }) => cells);
  const table = plainTable(`Counters of ${policy}`, ["<quota", "used", "left", "resets in"], cells);
  const node = el(
    "article.card",
    el("div.head", put(title, names, overridden(override)), counts ? foreign(counts) : id && el("code", id)),
    rows.length ? table : el("p.soft", ROLES[role ?? ""] || "It counts nothing."),
    tried(applied),
    rows.length > 0 && changeButtons(applied, found, subject, live, again),
  );
  return { node, tick: () => rows.forEach(({ tick }) => tick()) };
}

/**
 * @param {Inspection} found
 * @param {() => void} again inspects again
 */
export function inspection(found, subject, live, again) {
  const cards = found.applied.map((applied) => card(applied, found, subject, live, again));
  const others = found.not_applied;
  const number = found.not_applied_count ?? others.length;
  const reasons =
    others.length > 0 &&
    el(
      "dl.reasons",
      others.map(({ policy, reason }) => [
        el("dt", el("a", { href: link(["policy", policy]) }, policy)),
        el("dd", told(reason)),
      ]),
    );
  const title = `${count(number)} ${number === 1 ? "does" : "do"} not apply`;
  const apply = cards.length === 1 ? "1 policy applies" : `${count(cards.length)} policies apply`;
  const head = found.talker ? "One policy is known to apply" : apply;
  const node = el(
    "div",
    verdict(found),
    el("div.head", el("h2", head), button("Inspect again", again)),
    el(
      "div.cards",
      cards.map(({ node }) => node),
    ),
    found.talker &&
      el("p.soft", "Policies that need more than this key may apply as well. Inspect attributes to see all."),
    others.length > 12 ? el("details", el("summary", title), reasons) : reasons && [el("h2", title), reasons],
  );
  const timer = setInterval(
    () => (node.isConnected ? cards.forEach(({ tick }) => tick()) : clearInterval(timer)),
    1000,
  );
  return node;
}
