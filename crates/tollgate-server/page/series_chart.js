// @ts-check
// The chart of a feed: what was allowed and denied, stacked; what trials would deny, and what passed without the store.

import { button, el, fill, renew, set, write } from "./dom.js";
import { count, counted, hour, moment, second, share, short, stamp, told } from "./format.js";
import { plainTable } from "./live_table.js";
import { serverNow } from "./poll.js";
import { groups } from "./series_feed.js";
import { legend } from "./spark.js";

const STEPS = { ArrowLeft: -1, ArrowRight: 1, PageUp: 10, PageDown: -10, Home: -Infinity, End: Infinity };
const HINT = "Point, or use the arrow keys, to read values. Drag to zoom.";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);

export function seriesChart(title, height) {
  const place = el("div.plot", { tabindex: 0, role: "img", keydown: move, pointermove: () => (held = 0) });
  const keys = el("ul.legend");
  const unit = el("p.unit");
  const readout = el("p.readout", { "aria-live": "polite" }, HINT);
  const whole = button("Show all", () => zoom(false));
  const marks = el("ol.marks");
  const table = el("div");
  const details = el("details", { toggle: tabulate }, el("summary", "As a table"), table);
  const node = el("figure.series", el("figcaption", el("h2", title), keys), el("div.over", unit, readout, whole), place, marks, details);
  /** @type {uPlot | null} */
  let plot = null;
  /** @type {import("./series_feed.js").SeriesFeed} */
  let feed;
  let isZoomed = false;
  let pointed = -1;
  /** The time that arrow keys have chosen: it stays when the chart moves on. */
  let held = 0;
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const size = new ResizeObserver(() => plot?.setSize({ width: place.clientWidth, height }));
  size.observe(place);
  scheme.addEventListener("change", make);
  zoom(false);

  function zoom(zoomed) {
    isZoomed = zoomed;
    whole.hidden = !zoomed;
    if (!zoomed) plot?.setData(data());
  }

  function data() {
    const { times, allowed, denied, trial_denied: trial, by_fallback: fallback } = feed.points;
    // A line along zero says nothing.
    const some = (values) => values.map((value, at) => (value || values[at - 1] || values[at + 1] ? value : null));
    return [times, allowed.map((value, at) => (value === null ? null : value + Number(denied[at]))), denied, some(trial), some(fallback)];
  }

  function make() {
    plot?.destroy();
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const line = { paths: uPlot.paths.stepped({ align: 1 }), points: { show: false }, width: 2 };
    const clock = (splits) => splits.map((time) => (splits[1] - splits[0] < 60 ? second(time * 1000) : hour(time * 1000)));
    plot = new uPlot({
      width: place.clientWidth || 600, height, legend: { show: false }, padding: [8, 8, 0, 0],
      cursor: { y: false, points: { show: false } },
      scales: { y: { range: (u, low, high) => [0, Math.max(4, high * 1.08)] } },
      axes: [{ ...axis, size: 28, space: 70, values: (u, splits) => clock(splits) },
        { ...axis, size: 52, space: 32, values: (u, splits) => splits.map((value) => (value % 1 ? "" : short(value))) }],
      series: [{}, { ...line, width: 0, fill: colour("--admitted") }, { ...line, width: 0, fill: colour("--denied") },
        { ...line, stroke: colour("--mark"), dash: [6, 3] }, { ...line, stroke: colour("--error"), dash: [2, 3] }],
      hooks: { draw: [drawMarks], setCursor: [(u) => point(u.cursor.idx ?? -1)], setSelect: [(u) => u.select.width && zoom(true)] },
    }, data(), place);
  }

  /** @param {uPlot} u */
  function drawMarks({ ctx, bbox, valToPos }) {
    const wing = 4 * devicePixelRatio;
    ctx.strokeStyle = ctx.fillStyle = colour("--text");
    ctx.setLineDash([3, 3]);
    for (const { at } of feed.marks) {
      const x = Math.round(valToPos(stamp(at) / 1000, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.stroke(new Path2D(`M${x} ${bbox.top}v${bbox.height}`));
      ctx.fill(new Path2D(`M${x - wing} ${bbox.top - wing}h${2 * wing}l${-wing} ${2 * wing}z`));
    }
    ctx.setLineDash([]);
  }

  function words(at) {
    const { times, allowed, denied, trial_denied: trial, by_fallback: fallback } = feed.points;
    const from = times[at] * 1000;
    const time = feed.tier === "1s" ? second(from) : `${hour(from)} to ${hour(from + 300_000)}`;
    if (allowed[at] === null) return `${time}: no data`;
    const no = Number(denied[at]);
    const all = Number(allowed[at]) + no;
    const more = [trial[at] && `${count(trial[at])} denied by a trial`, fallback[at] && `${count(fallback[at])} without the store`];
    return [`${time}: ${counted(all, "check")}`, `${count(no)} denied (${share(no, all)})`, ...more].filter(Boolean).join(", ");
  }

  function point(at) {
    pointed = at;
    write(readout, at >= 0 && at < feed.points.times.length ? words(at) : HINT);
  }

  const show = (time) => plot?.setCursor({ left: plot.valToPos(time, "x"), top: 10 });

  function move(event) {
    const step = STEPS[event.key];
    if (!step || !plot) return;
    event.preventDefault();
    const last = feed.points.times.length - 1;
    held = feed.points.times[Math.max(0, Math.min(last, (pointed < 0 ? last : pointed) + step))];
    show(held);
  }

  function tabulate() {
    if (!details.open) return;
    const isFine = feed.tier === "1s";
    const rows = groups(feed.points, isFine ? 60 : 12).reverse().map(({ from, allowed, denied, all, trial, fallback }) =>
      [isFine ? second(from) : hour(from), count(allowed), count(denied), share(denied, all), count(trial), count(fallback)]);
    fill(table, plainTable(title, [isFine ? "<minute from" : "<hour from", "allowed", "denied", "denied %", "on trial", "without the store"], rows));
  }

  return {
    node,
    /** @param {import("./series_feed.js").SeriesFeed} next */
    update(next) {
      const isNew = next !== feed;
      feed = next;
      const { points, marks: all, tier } = feed;
      if (!points.times.length) return;
      if (isNew) [held, pointed] = [0, -1];
      if (isNew) zoom(false);
      if (!plot) make();
      plot?.setData(data(), !isZoomed);
      if (isZoomed) plot?.redraw();
      if (held) show(held);
      const [sum] = groups(points, points.times.length);
      set(place, "aria-label", `${title}: ${counted(sum.all, "check")}, ${share(sum.denied, sum.all)} denied. Arrow keys read single values.`);
      write(unit, tier === "1s" ? "checks a second" : "checks in five minutes");
      const kinds = [["admitted", "allowed"], ["denied", "denied"], sum.trial && ["trial", "denied by a trial"], sum.fallback && ["fallback", "answered without the store"]].filter(Boolean);
      renew(keys, kinds, () => kinds.map(legend));
      const seen = all.filter(({ at }) => stamp(at) >= points.times[0] * 1000).slice(0, 4);
      renew(marks, seen, () => seen.map(({ at, text }) => el("li", moment(at, serverNow()), " ", told(text))));
      tabulate();
    },
    leave() {
      scheme.removeEventListener("change", make);
      size.disconnect();
      plot?.destroy();
    },
  };
}
