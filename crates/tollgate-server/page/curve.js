// @ts-check
// The curve of "what if the limit were ...": the share denied at each limit, with a point to move.

import { el, set, svg } from "./dom.js";
import { count, share } from "./format.js";

const WIDE = 600;
const HIGH = 180;

/**
 * @param {WhatIf["curve"]} curve in the order of its limits, which stand at equal distances, as on the slider below
 * @param {string} name what the picture shows, in a sentence
 */
export function curvePicture(curve, name) {
  const place = (at) => (WIDE * at) / Math.max(1, curve.length - 1);
  const top = Math.max(0.01, ...curve.flatMap((point) => [point.share_requests, point.share_keys, point.high ?? 0]));
  const spots = (value) =>
    curve.map((point, at) => `${place(at).toFixed(1)} ${(HIGH - (value(point) / top) * HIGH).toFixed(1)}`);
  const line = (value) => `M${spots(value).join("L")}`;
  const hasBand = curve.every(({ high }) => high !== undefined);
  const band =
    hasBand &&
    `${line(({ high }) => high)}L${spots(({ low }) => low)
      .reverse()
      .join("L")}z`;
  const cursor = svg("line.curve-cursor", { y1: 0, y2: HIGH });
  const picture = svg(
    "svg.curve",
    { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": name },
    svg("path.grid", { d: `M0 0h${WIDE}M0 ${HIGH / 2}h${WIDE}M0 ${HIGH}h${WIDE}` }),
    band && svg("path.curve-band", { d: band }),
    svg("path.curve-keys", { d: line((point) => point.share_keys) }),
    svg("path.curve-requests", { d: line((point) => point.share_requests) }),
    cursor,
  );
  const heights = [top, top / 2, 0].map((part) => el("span", share(part)));
  const ends = [0, 0.25, 0.5, 0.75, 1].map((part) =>
    el("span", count(curve[Math.round(part * (curve.length - 1))].limit)),
  );
  return {
    node: [el("div.curve-heights", { "aria-hidden": "true" }, heights), picture],
    ends,
    point(at) {
      set(cursor, "x1", place(at));
      set(cursor, "x2", place(at));
    },
    /** Where on the curve a limit is nearest. */
    at: (limit) =>
      curve.reduce(
        (best, point, at) => (Math.abs(point.limit - limit) < Math.abs(curve[best].limit - limit) ? at : best),
        0,
      ),
  };
}
