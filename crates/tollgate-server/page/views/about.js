// @ts-check
// What this page is: the process, the token, the licence.

import { token } from "../api.js";
import { el, facts, renew } from "../dom.js";
import { length, moment, stamp } from "../format.js";
import { forget } from "../notices.js";
import { serverNow } from "../poll.js";

/** What the words of the strip mean. */
const WORDS = [
  ["store, memory", "The counters decided."],
  ["known denials", "An earlier denial still holds, so the store was not asked."],
  ["policies alone", "The policies decided without a counter, such as when no quota applies."],
  ["local share", "The store did not answer, and this process counted against its share."],
  ["uncounted", "The store did not answer, or the memory was full, and the request was admitted."],
  ["no answer", "Nobody decided: the store failed under `closed`, the memory was full, or the caller gave up."],
  ["on trial", "A candidate, or a policy in shadow mode, would have denied it. Neither denies anybody."],
];

/** @returns {View} */
export function about() {
  const process = el("dl.facts");
  return {
    title: "About",
    node: el(
      "div",
      el("h1", { tabindex: -1 }, "About this page"),
      el("p.lead", "It shows this process, and loads nothing from elsewhere. `docs/dashboard.md` explains it."),
      process,
      el("h2", "What the words mean"),
      el(
        "dl.reasons",
        WORDS.map(([word, meaning]) => [el("dt", word), el("dd", meaning)]),
      ),
      token.get() && el("p", "This tab keeps your token until it is closed. ", forget("Forget it")),
      el(
        "p",
        "Tollgate is licensed under MIT or Apache 2.0, at your option. The page has no code of others.",
      ),
    ),
    update({ process: { host, pid, started, version } }) {
      const list = [
        ["Tollgate", version],
        ["Process", `${pid} on ${host}`],
        ["Started", moment(started, serverNow())],
        ["Runs for", length(serverNow() - stamp(started))],
      ];
      renew(process, [version, pid, host, list[3]], () => facts(list));
    },
  };
}
