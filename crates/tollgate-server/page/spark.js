// @ts-check
// Small pictures in a line of text: sparklines, parts of a whole, meters, signs. Texts next to them say the same.

import { el, set, svg } from "./dom.js";

const WIDE = 120;
const HIGH = 24;
const MUTE = { "aria-hidden": "true" };

/** Checks a second as an area, and the denied ones of them as bars. */
export function sparkline() {
  const [area, bars] = [svg("path.spark-all"), svg("path.spark-denied")];
  const node = svg(
    "svg.spark",
    { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img" },
    area,
    bars,
  );
  return {
    node,
    update(checks, denials, words) {
      // A check now and then does not look like load.
      const top = Math.max(4, ...checks);
      set(area, "d", steps(checks, top));
      set(bars, "d", steps(denials, top));
      set(node, "aria-label", words);
    },
  };
}

/** A filled stair. What is there is seen, however small it is. */
function steps(values, top) {
  const wide = WIDE / Math.max(1, values.length);
  const step = (value, at) =>
    `M${(at * wide).toFixed(1)} ${HIGH}v-${Math.max(1.5, (value / top) * (HIGH - 1)).toFixed(1)}h${wide.toFixed(1)}V${HIGH}z`;
  return values.map((value, at) => (value ? step(value, at) : "")).join("");
}

/** Parts of a whole. */
export function split(kinds) {
  const parts = kinds.map((kind) => svg(`rect.${kind}`, { height: "100%" }));
  return {
    node: svg("svg.split-bar", MUTE, parts),
    update(sizes) {
      const whole = sizes.reduce((sum, part) => sum + part, 0) || 1;
      let from = 0;
      sizes.forEach((part, at) => {
        set(parts[at], "x", `${(from / whole) * 100}%`);
        set(parts[at], "width", `${(part / whole) * 100}%`);
        from += part;
      });
    },
  };
}

/** A mark of the colour of a part. */
export const dot = (kind) =>
  svg("svg.dot", { viewBox: "0 0 8 8", ...MUTE }, svg(`rect.${kind}`, { width: 8, height: 8 }));

/** A share as a short bar; nothing for 0. */
export function meter(kind, part = 0) {
  const bar = svg(`rect.${kind}`, { height: "100%" });
  const node = svg("svg.meter", MUTE, bar);
  const update = (part) => {
    node.classList.toggle("none", !(part > 0));
    set(bar, "width", `${Math.min(1, part || 0) * 100}%`);
  };
  update(part);
  return { node, update };
}

const SIGNS = {
  good: ["M8 1.2 14 3.4V8c0 3.4-2.4 5.7-6 6.8C4.4 13.7 2 11.4 2 8V3.4z", "M4.9 8.1 7.2 10.3 11.2 5.8"],
  watch: ["M8 1.5 15.3 14.5H.7z", "M8 6v4M8 11.7v.9"],
  bad: ["M5 1h6l4 4v6l-4 4H5l-4-4V5z", "M5.4 5.4l5.2 5.2M10.6 5.4l-5.2 5.2"],
  idle: ["M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1z", "M4.8 8h6.4"],
};

/** A sign whose shape says the level. */
export const sign = (level) =>
  svg(
    `svg.sign.${level}`,
    { viewBox: "0 0 16 16", ...MUTE },
    SIGNS[level].map((d, at) => svg(at ? "path.sign-mark" : "path.sign-ground", { d })),
  );

/** An entry of a legend: a line or an area, and its name. @param {string[]} entry */
export const legend = ([kind, words]) =>
  el(
    "li",
    svg(
      `svg.key-sign.${kind}`,
      { viewBox: "0 0 16 10", ...MUTE },
      svg("path", { d: kind.startsWith("area") ? "M0 0h16v10H0z" : "M0 5h16" }),
    ),
    words,
  );
