// @ts-check
// The policies as they are live: their version, what the last reloads changed, and what is probably wrong in the file.

import { ask } from "../api.js";
import { copyButton, el, empty, facts, renew } from "../dom.js";
import { count, moment, told } from "../format.js";
import { serverNow } from "../poll.js";
import { link } from "../route.js";

const EVERY = 5000;
const OUTCOMES = { replaced: "is live", unchanged: "stays: nothing changed", failed: "stays: the reload failed" };

/** Why the file was read, by the word of the service. */
const CAUSES = {
  watch: "its file changed",
  rename: "its file was replaced",
  interval: "seen by a regular look at its file",
  request: "asked for by a request",
  xds: "over xDS",
};

/** @param {History["reloads"][number]} reload */
const entry = ({ at, cause, version, outcome, changes = [], more, failure }) =>
  el(
    `li.${outcome}`,
    el(
      "p",
      moment(at, serverNow()),
      " ",
      el("strong", `version ${version} ${OUTCOMES[outcome]}`),
      el("span.soft", ` · ${CAUSES[cause] || cause}`),
    ),
    failure && el("p.soft", told(failure)),
    changes.length > 0 &&
      el(
        "ul",
        changes.map((change) => el("li", told(change))),
        more && el("li", `and ${count(more)} more`),
      ),
  );

/** @param {FileWarning} warning */
const warned = ({ code, policy, text }) =>
  el(
    "li",
    el("p", el("strong", code || "Warning"), " ", policy && el("a", { href: link(["policy", policy]) }, policy)),
    el("p.soft", told(text)),
  );

/** @returns {View} */
export function policies() {
  const [figures, failure, reloads, warnings] = [el("dl.facts"), el("div"), el("div"), el("div")];
  const node = el(
    "div",
    el("h1", { tabindex: -1 }, "Policies"),
    figures,
    failure,
    el("section", el("h2", "Last reloads"), reloads),
    el("section", el("h2", "Warnings"), warnings),
  );
  let asked = -Infinity;
  let news = "";

  /** Reads the reloads now and then, and at once if there is one. */
  async function read(now) {
    if (now === news && performance.now() - asked < EVERY) return;
    news = now;
    asked = performance.now();
    try {
      const { reloads: list } = (await ask("policies/history")).body;
      renew(reloads, list, () =>
        list.length
          ? el("ol.entries", list.map(entry))
          : empty(
              "Nothing was reloaded since the start.",
              "The service reads a file again when it changes, and on SIGHUP.",
            ),
      );
    } catch (error) {
      renew(reloads, error.words, () => el("p.soft", error.words));
    }
  }

  return {
    title: "Policies",
    node,
    update({
      policies_version: version,
      generation,
      source,
      since,
      overrides,
      overrides_version: number,
      policies,
      policies_count: all = policies.length,
      failure: text,
      in_step: isInStep,
      warnings: list,
      warnings_count: many = list.length,
    }) {
      renew(figures, [version, generation, source, since, overrides?.count, overrides?.stale, number, all], () =>
        facts([
          ["Version", count(version)],
          ["From", source],
          ["Live since", moment(since, serverNow())],
          ["Policies", count(all)],
          generation && ["Generation", el("code", generation), " ", copyButton(generation)],
          ["Overrides", overrides ? `${count(overrides.count)}${overrides.stale ? ", stale" : ""}` : "off"],
          number && ["Version of the overrides", el("code", number)],
        ]),
      );
      renew(
        failure,
        [text, isInStep],
        () =>
          !isInStep &&
          el(
            "div.notice",
            el("p", el("strong", "The file that was read last is not live. "), "The older version decides meanwhile."),
            text && el("p", told(text)),
            el("p", "`tollgate check-config FILE` shows all problems."),
          ),
      );
      renew(warnings, list, () =>
        list.length
          ? [
              el("ul.entries", list.map(warned)),
              many > list.length && el("p.soft", `${count(many - list.length)} more are in the log.`),
            ]
          : el("p.soft", "There are none."),
      );
      read(JSON.stringify([version, isInStep, text]));
    },
  };
}
