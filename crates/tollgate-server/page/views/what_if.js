// @ts-check
// What would another limit have done to the requests of the last hour?

import { ask, query } from "../api.js";
import { curvePicture } from "../curve.js";
import { copyButton, el, empty, fill, input } from "../dom.js";
import { count, counted, length, share } from "../format.js";
import { plainTable } from "../live_table.js";
import { legend } from "../spark.js";

/** @param {WhatIf} answer */
function result({ curve, quota, keys, requests, span_seconds: span, sampled, exact, says, kinds = [] }) {
  const basis = el(
    "p.soft.small",
    `From ${counted(requests, "request")} of ${counted(keys, "client")} in ${length(span * 1000)}${sampled ? `, ${sampled}` : ""}. ${exact ? "The counts are exact for these." : says || "The counts are estimates."}`,
  );
  if (!curve.length || !requests)
    return [basis, empty("There is nothing to compute from.", "Ask again when this policy has had requests.")];
  const other = (limit) => quota.replace(/^\d+/, String(limit));
  const picture = curvePicture(curve);
  const slider = el("input", {
    type: "range",
    min: 0,
    max: curve.length - 1,
    value: picture.at(parseInt(quota, 10)),
    "aria-label": "Limit",
    input: move,
  });
  const sentence = el("p.finding", { role: "status" });
  const line = el("p");
  function move() {
    const point = curve[slider.value];
    const limit = other(point.limit);
    picture.point(slider.value);
    slider.setAttribute("aria-valuetext", limit);
    const bounds = point.high === undefined ? "" : ` (95 %: ${share(point.low)} to ${share(point.high)})`;
    fill(
      sentence,
      "With ",
      el("strong", limit),
      `, ${share(point.share_requests)} of the requests would have been denied, and ${share(point.share_keys)} of the clients at least once${bounds}.`,
    );
    fill(line, el("code", `candidate: [${limit}]`), " ", copyButton(`candidate: [${limit}]`, "Copy as candidate"));
  }
  move();
  const rows = curve.map((point) => [
    other(point.limit),
    count(point.refused_requests),
    share(point.share_requests),
    count(point.refused_keys),
    share(point.share_keys),
  ]);
  const names = [
    ["line.curve-requests", "requests denied"],
    ["line.curve-keys", "clients denied at least once"],
  ];
  const chart = el(
    "figure.curve-figure",
    el("ul.legend", names.map(legend)),
    el("div.curve-place", picture.node),
    el("div.curve-slider", slider, el("div.curve-limits", { "aria-hidden": "true" }, picture.ends)),
  );
  const table = el(
    "details",
    el("summary", "As a table"),
    plainTable("Denied at each limit", ["<quota", "requests denied", "share", "clients denied", "share"], rows),
  );
  const others =
    kinds.length > 0 &&
    el(
      "div",
      el("h3", "The same limit in other kinds"),
      plainTable(
        "Kinds",
        ["<quota", "requests denied", "clients denied"],
        kinds.map(({ quota, refused_requests: refused, refused_keys: clients }) => [
          quota,
          count(refused),
          count(clients),
        ]),
      ),
    );
  return [basis, sentence, el("div.pair", el("div", chart, line, table), others)];
}

/** @param {LivePolicy} row */
export function whatIf({ name, candidates, quotas }) {
  const field = input("quota", { value: candidates?.[0]?.[0] || quotas[0] || "60/1m", size: 16 });
  const body = el("div");
  const go = el("button.primary", "Compute");
  async function submit(event) {
    event.preventDefault();
    go.disabled = true;
    try {
      fill(body, result((await ask(query("whatif", { policy: name, quota: field.value.trim() }))).body));
    } catch (error) {
      fill(body, el("p.problem", { role: "alert" }, error.words, error.status === 503 && " Try again in a moment."));
    }
    go.disabled = false;
  }
  return el(
    "section",
    el("h2", "What if?"),
    el("p.soft", "What another limit would have done to the requests that this process has seen. Nothing is changed."),
    el("form.fields", { submit }, el("label", { for: "quota" }, "Quota"), field, go),
    body,
  );
}
