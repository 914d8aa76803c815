// @ts-check
// One policy: what happened in the last 10 minutes, or in a day; who it was; what another limit would do.

import { choice } from "../dialog.js";
import { el, empty, facts, renew, write } from "../dom.js";
import { clean, count, share, told } from "../format.js";
import { link, note } from "../route.js";
import { seriesChart } from "../series_chart.js";
import { SeriesFeed } from "../series_feed.js";
import { badges, limits, trialOf } from "./policy_row.js";
import { talkers } from "./talkers.js";
import { whatIf } from "./what_if.js";

/** @param {Route} here @returns {View} */
export function policy({ names: [name = ""], values }) {
  let feed = new SeriesFeed(name, values.get("tier") === "5m" ? "5m" : "1s");
  const chart = seriesChart(260);
  const tiers = choice(
    "Span",
    [
      ["1s", "10 minutes"],
      ["5m", "A day"],
    ],
    feed.tier,
    (tier) => {
      feed = new SeriesFeed(name, tier);
      note({ tier: tier === "5m" ? tier : "" });
      read();
    },
  );
  const tags = el("span");
  const about = el("p.lead");
  const figures = el("dl.facts");
  const who = talkers({ policy: name });
  const what = whatIf(name);
  const found = el("div", figures, chart.node, who.node, what.node);
  const lost = empty(
    "There is no policy of this name now.",
    el("p", el("a", { href: link(["policies"]) }, "The last reloads"), " say what has changed."),
  );
  const node = el(
    "div",
    el("p.kicker", el("a", { href: link([]) }, "Overview"), " / policy"),
    el("div.head", el("h1", { tabindex: -1 }, told(name), " ", tags), tiers),
    about,
    found,
    lost,
  );
  /** @type {Live} */
  let live;

  function read() {
    const asked = feed;
    feed.read(live).then((isNew) => isNew && asked === feed && chart.update(feed));
  }

  return {
    title: clean(name),
    node,
    update(now) {
      live = now;
      const row = live.policies.find((policy) => policy.name === name);
      found.hidden = !row;
      lost.hidden = Boolean(row);
      if (!row) return;
      const { allowed, denied, by_fallback: fallback, failed, candidates } = row;
      const trial = trialOf(row);
      write(
        about,
        limits(row) +
          (candidates?.length ? `; on trial: ${candidates.map((list) => list.join(", ")).join(" or ")}` : ""),
      );
      const words = badges(row);
      renew(tags, words, () => words.map((word) => el("span.badge", word)));
      const list = [
        ["Allowed in the last minute", count(allowed)],
        ["Denied", `${count(denied)} (${share(denied, allowed + denied)})`],
        ["Without the store", count(fallback)],
        failed > 0 && ["Failed", count(failed)],
        row.on_store_failure && ["If the store fails", row.on_store_failure],
        trial.allowed + trial.denied > 0 && [
          row.shadow ? "Denied in shadow mode" : "Denied by the candidate",
          `${count(trial.denied)} (${share(trial.denied, trial.allowed + trial.denied)})`,
        ],
      ];
      renew(figures, list, () => facts(list));
      who.update(live);
      what.update(live, row);
      read();
    },
    leave: who.leave,
  };
}
