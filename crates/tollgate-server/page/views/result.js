// @ts-check
// What the inspector found: the verdict, each policy that applies with its counters, and the reasons of the others.

import { sentence } from "../api.js";
import { button, el, write } from "../dom.js";
import { count, foreign, length, moment, second, stamp, told } from "../format.js";
import { serverNow } from "../poll.js";
import { link } from "../route.js";
import { meter, sign } from "../spark.js";
import { changeButtons } from "./changes.js";

const VERDICTS = { allowed: ["good", "Allowed"], denied: ["bad", "Denied"] };
const SOURCES = {
  store: "by the store",
  local: "by a denial that is still known",
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
  el("span.badge", "override ", over.until === undefined ? "without end" : ["until ", moment(over.until, serverNow())]);

/** @param {InspectedQuota} quota */
function quotaRow({ quota, limit, used, held, remaining, reset_after_ms: reset, override }, at) {
  const number = used ?? held ?? 0;
  const ends = el("td");
  const tick = () =>
    write(ends, reset === undefined ? "–" : length(Math.ceil((at + reset - serverNow()) / 1000) * 1000));
  tick();
  const row = el(
    "tr",
    el("th.left", { scope: "row" }, quota, overridden(override)),
    el("td", `${count(number)} of ${count(limit)}`, meter(number < limit ? "admitted" : "denied", number / limit).node),
    el("td", count(remaining ?? Math.max(0, limit - number))),
    ends,
  );
  return { row, tick };
}

/** @param {AppliedPolicy} applied */
function card(applied, found, subject, live, again) {
  const { policy, mode, role, id, counts, override, quotas = [], in_flight: flight, trials = [] } = applied;
  const all = flight ? [...quotas, { ...flight, quota: flight.quota || flight.written || "in flight" }] : quotas;
  const rows = all.map((quota) => quotaRow(quota, stamp(found.at)));
  const tags = [mode !== "enforce" && mode, role !== "limit" && role]
    .filter(Boolean)
    .map((tag) => el("span.badge", tag));
  const tried = trials.flatMap(({ kind, quotas = [], answer }) =>
    quotas.map(({ quota, used, limit }) =>
      el(
        "p.small.soft",
        `${kind}: ${quota}, ${count(used ?? 0)} of ${count(limit)} used${answer ? `, ${answer}` : ""}`,
      ),
    ),
  );
  const none =
    role === "exempt"
      ? "It admits the request without counting."
      : role === "deny"
        ? "It denies the request."
        : "It counts nothing.";
  const node = el(
    "article.card",
    el(
      "div.head",
      el("h3", el("a", { href: link(["policy", policy]) }, policy), tags, overridden(override)),
      counts ? foreign(counts) : id && el("code", id),
    ),
    rows.length
      ? el(
          "div.scroll",
          el(
            "table",
            el("caption.hidden", `Counters of ${policy}`),
            el(
              "thead",
              el(
                "tr",
                ["quota", "used", "left", "resets in"].map((head, at) =>
                  el("th", { scope: "col", class: !at && "left" }, head),
                ),
              ),
            ),
            el(
              "tbody",
              rows.map(({ row }) => row),
            ),
          ),
        )
      : el("p.soft", none),
    tried,
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
  const reasons =
    others.length > 0 &&
    el(
      "dl.reasons",
      others.map(({ policy, reason }) => [
        el("dt", el("a", { href: link(["policy", policy]) }, policy)),
        el("dd", told(reason)),
      ]),
    );
  const title = `${count(others.length)} ${others.length === 1 ? "does" : "do"} not apply`;
  const node = el(
    "div",
    verdict(found),
    el(
      "div.head",
      el("h2", cards.length === 1 ? "1 policy applies" : `${count(cards.length)} policies apply`),
      button("Inspect again", again),
    ),
    cards.map(({ node }) => node),
    others.length > 12 ? el("details", el("summary", title), reasons) : reasons && [el("h2", title), reasons],
  );
  const timer = setInterval(
    () => (node.isConnected ? cards.forEach(({ tick }) => tick()) : clearInterval(timer)),
    1000,
  );
  return node;
}
