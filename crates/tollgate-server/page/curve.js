// @ts-check
// The curve of "what if the limit were ...": the share denied at each limit, with a point to move.

import { el, set, svg } from "./dom.js";
import { count } from "./format.js";

const WIDE = 600;
const HIGH = 180;

/** @param {WhatIf["curve"]} curve in the order of its limits */
export function curvePicture(curve) {
  const first = curve[0].limit;
  const last = curve[curve.length - 1].limit;
  const isWide = first > 0 && last / first > 30;
  const place = (limit) => WIDE * (isWide ? Math.log(limit / first) / Math.log(last / first) : (limit - first) / Math.max(1, last - first));
  const top = Math.max(0.01, ...curve.flatMap((point) => [point.share_requests, point.share_keys, point.high ?? 0]));
  const line = (value, list = curve) => list.map((point) => `${place(point.limit).toFixed(1)} ${(HIGH - (value(point) / top) * HIGH).toFixed(1)}`).join("L");
  const band = curve.every(({ high }) => high !== undefined) && svg("path.curve-band",
    { d: `M${line((point) => point.high)}L${line((point) => point.low, [...curve].reverse())}z` });
  const cursor = svg("line.curve-cursor", { y1: 0, y2: HIGH });
  const grid = [0, 0.5, 1].map((part) => svg("path.grid", { d: `M0 ${HIGH * part}h${WIDE}` }));
  const percent = (part) => `${(100 * top * part).toFixed(top < 0.02 ? 2 : top < 0.2 ? 1 : 0)} %`;
  return {
    node: [el("div.curve-heights", { "aria-hidden": "true" }, [1, 0.5, 0].map((part) => el("span", percent(part)))),
      svg("svg.curve", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", "aria-hidden": "true" }, grid, band,
        svg("path.curve-keys", { d: `M${line((point) => point.share_keys)}` }), svg("path.curve-requests", { d: `M${line((point) => point.share_requests)}` }), cursor)],
    ends: [count(first), "limit", count(last)].map((text) => el("span", text)),
    point(at) {
      set(cursor, "x1", place(curve[at].limit));
      set(cursor, "x2", place(curve[at].limit));
    },
    /** Where on the curve a limit is nearest. */
    at: (limit) => curve.reduce((best, point, at) => (Math.abs(point.limit - limit) < Math.abs(curve[best].limit - limit) ? at : best), 0),
  };
}
