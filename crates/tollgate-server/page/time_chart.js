// @ts-check
// A picture of values over time: areas and lines in steps, marks, a cursor, and a part of the time to look at closely.
//
// Shapes stretch with the page, and texts keep their size. Colours are those of the style, so they follow its scheme.

import { el, fill, set, svg, write } from "./dom.js";
import { hour, second, short } from "./format.js";

const TOP = 100;
const MINUTE = 60;
/** The steps between labels of the time, in seconds. */
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10_800, 21_600, 43_200];
/** A label of the time needs so many pixels. */
const LABEL = 84;
/** A shorter way of the pointer is no choice of a part. */
const CHOICE = 8;

/** The step of an axis up to `top` with at most four of them: 1, 2 or 5 and noughts. */
function niceStep(top) {
  const unit = 10 ** Math.floor(Math.log10(top / 4));
  return Math.max(1, [1, 2, 5, 10].map((size) => size * unit).find((step) => top / step <= 4) ?? top);
}

/**
 * @param {number} height in pixels
 * @param {(at: number) => void} pointed gets the place of the value that is pointed at, or -1
 * @param {(isPart: boolean) => void} zoomed
 */
export function timeChart(height, pointed, zoomed) {
  const [grid, shapes, flags, cursor, choice] = [
    svg("g.grid"),
    svg("g"),
    svg("g.flags"),
    svg("path.cursor"),
    svg("rect.choice"),
  ];
  const picture = svg(
    "svg",
    { preserveAspectRatio: "none", "aria-hidden": "true" },
    grid,
    shapes,
    flags,
    choice,
    cursor,
  );
  const labels = el("div", { "aria-hidden": "true" });
  const node = el(
    "div.plot",
    { tabindex: 0, role: "img", pointerdown, pointermove, pointerup, pointerleave: () => point(-1) },
    picture,
    labels,
  );
  node.style.height = `${height}px`;
  /** @type {number[]} */
  let times = [];
  let step = 1;
  /** The part that is seen, in seconds; absent for all. @type {number[] | undefined} */
  let part;
  let from = 0;
  let span = 1;
  let pressed = -1;

  const x = (time) => ((time - from) / span) * TOP;
  const timeOf = (event) => {
    const box = node.getBoundingClientRect();
    return from + Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)) * span;
  };

  function point(at) {
    const time = times[at];
    set(cursor, "d", time === undefined ? "" : `M${x(time + step / 2)} 0V${TOP}`);
    pointed(time === undefined ? -1 : at);
  }

  function pointerdown(event) {
    pressed = event.clientX;
    node.setPointerCapture(event.pointerId);
  }

  function pointermove(event) {
    const time = timeOf(event);
    point(times.findLastIndex((start) => start <= time));
    const start = timeOf({ clientX: pressed });
    const isChoice = pressed >= 0 && Math.abs(event.clientX - pressed) > CHOICE;
    set(choice, "width", isChoice ? Math.abs(x(time) - x(start)) : 0);
    if (isChoice) set(choice, "x", x(Math.min(start, time)));
  }

  function pointerup(event) {
    if (pressed < 0) return;
    if (Math.abs(event.clientX - pressed) > CHOICE)
      see([timeOf({ clientX: pressed }), timeOf(event)].sort((a, b) => a - b));
    pressed = -1;
    set(choice, "width", 0);
  }

  let redraw = () => {};
  function see(next) {
    part = next;
    zoomed(Boolean(part));
    redraw();
  }

  /** A stair through the values that are there; as an area, down to the ground. */
  function stair(values, y, isArea) {
    const end = isArea ? `V${TOP}` : "";
    let path = "";
    let right = -1;
    values.forEach((value, at) => {
      const left = times[at];
      // A gap ends the stair, and so does a time without points.
      if (right >= 0 && (value === null || left > right)) {
        path += end;
        right = -1;
      }
      if (value === null) return;
      if (right < 0) path += `M${x(left).toFixed(2)} ${isArea ? TOP : y(value)}`;
      right = left + step;
      path += `V${y(value)}H${x(right).toFixed(2)}`;
    });
    return path + (right < 0 ? "" : end);
  }

  function label(kind, text, style) {
    const node = el(`span.${kind}`);
    write(node, text);
    Object.assign(node.style, style);
    return node;
  }

  function timeLabels() {
    const every = STEPS.find((size) => (span / size) * LABEL <= node.clientWidth) ?? 86_400;
    // Labels are at whole hours and minutes of the reader's zone.
    const zone = new Date(from * 1000).getTimezoneOffset() * MINUTE;
    const list = [];
    for (let time = Math.ceil((from - zone) / every) * every + zone; time < from + span; time += every) list.push(time);
    return list
      .filter((time) => x(time) > 2 && x(time) < 97)
      .map((time) => label("along", every < MINUTE ? second(time * 1000) : hour(time * 1000), { left: `${x(time)}%` }));
  }

  return {
    node,
    point,
    showAll: () => see(undefined),
    /**
     * @param {number[]} starts of the steps, in Unix seconds
     * @param {[number, number]} lengths of a step, and of all that there can be, in seconds
     * @param {{kind: string, values: (number | null)[]}[]} layers whose kinds begin with `area` or `line`
     * @param {number[]} marks in Unix seconds
     */
    draw(starts, [length, whole], layers, marks) {
      redraw = () => {
        [times, step] = [starts, length];
        const end = times[times.length - 1] + step;
        [from, span] = part ? [part[0], part[1] - part[0]] : [end - whole, whole];
        const isSeen = (at) => times[at] + step > from && times[at] < from + span;
        const most =
          Math.max(
            3.7,
            ...layers.flatMap(({ values }) => values.map((value, at) => (value && isSeen(at) ? value : 0))),
          ) * 1.08;
        const y = (value) => (TOP - (value / most) * TOP).toFixed(2);
        const every = niceStep(most);
        const heights = Array.from({ length: Math.floor(most / every) + 1 }, (_, at) => at * every);
        set(picture, "viewBox", `0 0 ${TOP} ${TOP}`);
        fill(grid, svg("path", { d: heights.map((value) => `M0 ${y(value)}H${TOP}`).join("") }));
        fill(
          shapes,
          layers.map(({ kind, values }) => svg(`path.${kind}`, { d: stair(values, y, kind.startsWith("area")) })),
        );
        const seen = marks.filter((time) => time >= from && time <= from + span);
        fill(
          flags,
          seen.map((time) => svg("path", { d: `M${x(time)} 0V${TOP}` })),
        );
        fill(
          labels,
          heights.map((value) => label("high", short(value, most), { top: `${y(value)}%` })),
          timeLabels(),
          seen.map((time) => label("flag", "▼", { left: `${x(time)}%` })),
        );
      };
      redraw();
    },
  };
}
