// @ts-check
// The figure of a feed: what was allowed and denied, stacked; what was answered without the store, or not at all; what
// trials would deny.

import { button, el, fill, renew, set, write } from "./dom.js";
import { count, counted, hour, moment, second, share, stamp, told } from "./format.js";
import { plainTable } from "./live_table.js";
import { serverNow } from "./poll.js";
import { groups, TIERS } from "./series_feed.js";
import { legend } from "./spark.js";
import { timeChart } from "./time_chart.js";

/** @typedef {import("./series_feed.js").SeriesFeed} SeriesFeed */

/** What the chart shows, and in which unit. */
const TITLES = { "1s": ["Last 10 minutes", "checks a second"], "5m": ["Last day", "checks in five minutes"] };
const MOVES = { ArrowLeft: -1, ArrowRight: 1, PageUp: 10, PageDown: -10, Home: -Infinity, End: Infinity };
const HINT = matchMedia("(hover: none)").matches
  ? "Touch the chart to read values."
  : "Point, or use the arrow keys, to read values. Drag to zoom.";

/** @param {number} height in pixels */
export function seriesChart(height) {
  const chart = timeChart(height, point, (isPart) => (whole.hidden = !isPart));
  const [title, unit] = [el("h2"), el("span.unit")];
  const [keys, marks, table] = [el("ul.legend"), el("ol.marks"), el("div")];
  const readout = el("p.readout", { "aria-live": "polite" }, HINT);
  const whole = button("Show all", () => chart.showAll());
  const details = el("details", { toggle: tabulate }, el("summary", "As a table"), table);
  const node = el(
    "figure",
    el("figcaption", el("div", title, unit), keys),
    el("div.over", readout, whole),
    chart.node,
    marks,
    details,
  );
  whole.hidden = true;
  write(title, "No figures yet");
  set(chart.node, "aria-label", "No figures yet");
  chart.node.addEventListener("keydown", move);
  /** @type {SeriesFeed} */
  let feed;
  /** The time of the value that is read: it stays when the chart moves on. */
  let read = 0;

  function words(at) {
    const { times, allowed, denied, trial_denied: trial, by_fallback: fallback, failed } = feed.points;
    const from = times[at] * 1000;
    const time = feed.tier === "1s" ? second(from) : `${hour(from)} to ${hour(from + 300_000)}`;
    if (allowed[at] === null) return `${time}: no data`;
    const no = Number(denied[at]);
    const all = Number(allowed[at]) + no;
    const more = [
      trial[at] && `${count(trial[at])} denied by a trial`,
      fallback[at] && `${count(fallback[at])} without the store`,
      failed[at] && `${count(failed[at])} failed`,
    ];
    return [`${time}: ${counted(all, "check")}`, `${count(no)} denied (${share(no, all)})`, ...more]
      .filter(Boolean)
      .join(", ");
  }

  function point(at) {
    read = at < 0 ? 0 : feed.points.times[at];
    write(readout, at < 0 ? HINT : words(at));
  }

  function move(event) {
    const step = MOVES[event.key];
    if (!step || !feed) return;
    event.preventDefault();
    const last = feed.points.times.length - 1;
    const here = read ? feed.points.times.indexOf(read) : last;
    chart.point(Math.max(0, Math.min(last, here + step)));
  }

  function tabulate() {
    // What somebody scrolls by the keyboard stays.
    if (!details.open || table.contains(document.activeElement)) return;
    const isFine = feed.tier === "1s";
    const rows = groups(feed.points, isFine ? 60 : 12)
      .reverse()
      .map(({ from, allowed, denied, all, trial, fallback, failed }) => [
        isFine ? second(from) : hour(from),
        count(allowed),
        count(denied),
        share(denied, all),
        count(trial),
        count(fallback),
        count(failed),
      ]);
    fill(
      table,
      plainTable(
        `${TITLES[feed.tier][0]}, in sums`,
        [isFine ? "<minute from" : "<hour from", "allowed", "denied", "denied %", "on trial", "without the store", "failed"],
        rows,
      ),
    );
  }

  return {
    node,
    /** @param {SeriesFeed} next */
    update(next) {
      if (feed && next !== feed) {
        point(-1);
        chart.showAll();
      }
      feed = next;
      const { times, allowed, denied, trial_denied: trial, by_fallback: fallback, failed } = feed.points;
      if (!times.length) return;
      // A line along zero says nothing.
      const some = (values) => values.map((value, at) => (value || values[at - 1] || values[at + 1] ? value : null));
      const all = allowed.map((value, at) => (value === null ? null : value + Number(denied[at])));
      const layers = [
        { kind: "area.admitted", name: "allowed", values: all },
        { kind: "area.fallback", name: "answered without the store", values: fallback },
        { kind: "area.denied", name: "denied", values: denied },
        // A sum over trials of several policies says nothing.
        { kind: "line.trial", name: "denied by a trial", values: feed.policy ? some(trial) : [] },
        { kind: "line.lost", name: "failed", values: some(failed) },
      ].filter(({ name, values }) => ["allowed", "denied"].includes(name) || values.some(Boolean));
      const events = feed.marks.filter(({ at }) => stamp(at) >= times[0] * 1000);
      chart.draw(
        times,
        TIERS[feed.tier].lengths,
        layers,
        events.map(({ at }) => stamp(at) / 1000),
      );
      if (read) chart.point(times.indexOf(read));
      const names = TITLES[feed.tier];
      const [sum] = groups(feed.points, times.length);
      set(
        chart.node,
        "aria-label",
        `${names[0]}: ${counted(sum.all, "check")}, ${share(sum.denied, sum.all)} denied. Arrow keys read single values.`,
      );
      [title, unit].forEach((node, at) => write(node, names[at]));
      renew(
        keys,
        layers.map(({ kind }) => kind),
        () => layers.map(({ kind, name }) => legend([kind, name])),
      );
      renew(marks, events, () =>
        events.slice(0, 4).map(({ at, text }) => el("li", moment(at, serverNow()), " ", told(text))),
      );
      tabulate();
    },
  };
}
