// @ts-check
// What would another limit have done to the requests that the service has seen?

import { ask, query } from "../api.js";
import { curvePicture } from "../curve.js";
import { command, copyButton, el, empty, fill, input, renew } from "../dom.js";
import { count, counted, length, share, told } from "../format.js";
import { keyParts } from "../key.js";
import { plainTable } from "../live_table.js";
import { legend } from "../spark.js";

const LEGEND = [
  ["line.curve-requests", "requests denied"],
  ["line.curve-keys", "clients denied at least once"],
];

/** @param {WhatIf} answer */
function basis({ requests, keys, span_seconds: span, denied_requests: denied, exact, says = "" }) {
  const known = `${counted(requests, "request")} of ${counted(keys, "client")} in ${length(span * 1000)}`;
  return el(
    "p.soft.small",
    `From ${known}; the policy denied ${share(denied, requests)} of them. `,
    exact && "The counts are exact for these requests. ",
    told(says),
  );
}

/** @param {WhatIf} answer @param {LivePolicy} row */
function result(answer, row) {
  const { curve, quota, requests, kinds } = answer;
  if (!requests) {
    const names = keyParts(row.key).names.map((name) => `${encodeURIComponent(name)}=alice`);
    return empty(
      "This policy has had no requests yet.",
      "The curve needs requests that the policy counts, such as this one, with the attributes that it matches:",
      command(`curl 'http://127.0.0.1:8080/v1/check?${names.join("&")}'`),
    );
  }
  const other = (limit) => quota.replace(/^\d+/, String(limit));
  const [first, last] = [curve[0], curve[curve.length - 1]];
  const ends = [first, last].map((point) => `${share(point.share_requests)} of the requests at ${other(point.limit)}`);
  const picture = curvePicture(curve, `Denied by limit: from ${ends.join(" to ")}`);
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
    const band = point.low === undefined ? "" : ` (95 %: ${share(point.low)} to ${share(point.high)})`;
    fill(
      sentence,
      "With ",
      el("strong", limit),
      `, ${share(point.share_requests)} of the requests would have been denied, and ${share(point.share_keys)} of the clients at least once${band}.`,
    );
    const text = answer.candidate.replace(quota, limit);
    fill(line, el("code", text), " ", copyButton(text, "Copy as candidate"));
  }
  move();
  const rows = curve.map((point) => [
    other(point.limit),
    count(point.refused_requests),
    share(point.share_requests),
    count(point.refused_keys),
    share(point.share_keys),
    point.low === undefined ? "–" : `${share(point.low)} to ${share(point.high)}`,
  ]);
  const heads = ["<quota", "requests denied", "share", "clients denied", "share", "95 %"];
  const table = plainTable("Denied at each limit", heads, rows);
  const asked = curve.filter(({ limit }) => other(limit) === quota).map((point) => ({ ...point, quota }));
  const others = el(
    "div",
    el("h3", `The limit of ${quota} in other kinds`),
    plainTable(
      "Other kinds of quotas",
      ["<quota", "requests denied", "clients denied"],
      [...asked, ...kinds].map((kind) => [kind.quota, count(kind.refused_requests), count(kind.refused_keys)]),
    ),
  );
  const chart = el(
    "figure.curve-figure",
    el("ul.legend", LEGEND.map(legend)),
    el("div.curve-place", picture.node),
    el("div.curve-slider", slider, el("div.curve-limits", { "aria-hidden": "true" }, picture.ends)),
  );
  const left = el("div", chart, line, el("details", el("summary", "As a table"), table));
  return [sentence, el("div.pair", left, kinds.length > 0 && others), basis(answer)];
}

/** The panel of a policy. @param {string} name */
export function whatIf(name) {
  const field = input("quota", { size: 16, required: true });
  const body = el("div", { "aria-live": "off" });
  const go = el("button.primary", "Compute");
  const form = el("form.fields", { submit }, el("label", { for: "quota" }, "Quota"), field, go);
  const why = el("div");
  const node = el(
    "section",
    el("h2", "What if?"),
    el(
      "p.soft",
      "What another quota, in place of this policy's, would have done to the requests that this process has seen. ",
      "Denied requests are in it, as if their clients had asked all the same. Nothing is changed.",
    ),
    why,
    form,
    body,
  );
  /** @type {LivePolicy} */
  let row;

  async function submit(event) {
    event.preventDefault();
    go.disabled = true;
    try {
      fill(body, result((await ask(query("whatif", { policy: name, quota: field.value.trim() }))).body, row));
    } catch (error) {
      fill(body, el("p.problem", { role: "alert" }, error.words, error.status === 503 && " Try again in a moment."));
    }
    go.disabled = false;
  }

  return {
    node,
    /** @param {Live} live @param {LivePolicy} now */
    update({ talkers }, now) {
      if (!row) field.value = now.candidates?.[0]?.[0] || now.quotas[0] || "60/1m";
      row = now;
      node.hidden = now.role !== "limit" || now.mode !== "enforce";
      form.hidden = body.hidden = talkers === "off";
      renew(why, talkers, () =>
        talkers === "off"
          ? empty(
              "This service samples no requests, because it counts no talkers.",
              command("tollgate serve --config tollgate.yaml --talkers hashed"),
            )
          : "",
      );
    },
  };
}
