// @ts-check
// One rule of one of Envoy's domains: how often it was hit, and by whom.

import { el, empty, facts, renew, write } from "../dom.js";
import { count, share } from "../format.js";
import { link } from "../route.js";
import { talkers } from "./talkers.js";

/** @param {Route} here @returns {View} */
export function rule({ names: [domain, name] }) {
  const figures = el("dl.facts");
  const about = el("p.lead");
  const lost = empty("There is no such rule now.");
  const who = talkers({ domain, rule: name });
  const found = el("div", figures, who.node);
  const node = el(
    "div",
    el("p.kicker", el("a", { href: link(["domains"]) }, "Domains"), " / rule"),
    el("h1", { tabindex: -1 }, name),
    about,
    found,
    lost,
  );
  return {
    title: name,
    node,
    update(live) {
      const row = live.envoy?.domains.find((row) => row.domain === domain && row.rule === name);
      found.hidden = !row;
      lost.hidden = Boolean(row);
      if (!row) return;
      const { hits } = row;
      write(about, `${domain}: ${row.limit}`);
      renew(figures, hits, () =>
        facts([
          ["Hits", count(hits.total)],
          ["Over the limit", `${count(hits.over)} (${share(hits.over, hits.total)})`],
          ["Near the limit", count(hits.near)],
          ["In shadow mode", count(hits.shadow)],
        ]),
      );
      who.update(live);
    },
    leave: who.leave,
  };
}
