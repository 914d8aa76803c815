// @ts-check
// One of Envoy's domains: what happened in the last 10 minutes, and who it was, by its rules.

import { select } from "../dialog.js";
import { el, empty, facts, put, renew } from "../dom.js";
import { clean, count, share, told } from "../format.js";
import { link } from "../route.js";
import { seriesChart } from "../series_chart.js";
import { SeriesFeed } from "../series_feed.js";
import { talkers } from "./talkers.js";

/** @param {Route} here @returns {View} */
export function domain({ names: [name = "", rule] }) {
  const feed = new SeriesFeed(name, "1s");
  const chart = seriesChart(220);
  const [figures, rest] = [el("dl.facts"), el("div")];
  const found = el("div", figures, chart.node, rest);
  const lost = empty("There is no such domain now.");
  /** @type {ReturnType<typeof talkers> | undefined} */
  let who;

  /** Talkers are of one rule; others are a choice away. */
  function begin(rules) {
    const here = rule || rules[0];
    const choose = () => (location.hash = link(["domain", name, which.value]));
    const which = select(
      "rule",
      rules.map((rule) => [rule, clean(rule)]),
      { change: choose },
    );
    which.value = here;
    who = talkers({ rule: here });
    put(rest, el("section.fields", el("label", { for: "rule" }, "Talkers of the rule"), which), who.node);
  }

  return {
    title: clean(name),
    node: el(
      "div",
      el("p.kicker", el("a", { href: link(["domains"]) }, "Domains"), " / domain"),
      el("h1", { tabindex: -1 }, told(name)),
      found,
      lost,
    ),
    update(live) {
      const row = live.envoy?.domains.find(({ domain }) => domain === name);
      found.hidden = !row;
      lost.hidden = Boolean(row);
      if (!row) return;
      const { limits, allowed, denied, rules } = row;
      const list = [
        ["Limits", count(limits)],
        ["Within, in the last minute", count(allowed)],
        ["Over", `${count(denied)} (${share(denied, allowed + denied)})`],
      ];
      renew(figures, list, () => facts(list));
      if (!who && rules?.length) begin(rules);
      who?.update(live);
      feed.read(live).then((isNew) => isNew && chart.update(feed));
    },
    leave: () => who?.leave(),
  };
}
