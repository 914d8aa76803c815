// @ts-check
// Who asks most, and who is denied most. Each count says how much too high it can be.

import { ask, query } from "../api.js";
import { choice } from "../dialog.js";
import { command, el, empty, fill, renew } from "../dom.js";
import { count, counted, foreign, moment, second, share, stamp } from "../format.js";
import { plainTable } from "../live_table.js";
import { serverNow } from "../poll.js";
import { link, note, route } from "../route.js";
import { meter } from "../spark.js";

const EVERY = 5000;

/** The talkers that were inspected in this tab, as `POLICY ID`, so that lists can mark them. @type {Set<string>} */
export const inspected = new Set();

const named = (policy, id, name) => (policy ? el("a", { href: link(["inspect", policy, id]) }, name) : name);

/** @param {Talkers} answer @param {string | undefined} policy absent for a rule, whose talkers cannot be inspected */
function table({ by, rows }, policy) {
  const what = by === "denied" ? "denied" : "checks";
  return plainTable(
    `Talkers by ${what}`,
    ["<key", what, "too high by", "share"],
    rows.map(({ id, key, count: number, error, share: part }) => [
      [
        named(policy, id, key === undefined ? el("code", id) : foreign(key, 80)),
        inspected.has(`${policy} ${id}`) && el("span.badge", "inspected"),
      ],
      count(number),
      error ? `≤ ${count(error)}` : "0",
      [share(part), meter(by === "denied" ? "denied" : "admitted", part).node],
    ]),
  );
}

/** @param {Talkers} answer */
const about = ({ since, until, total, skipped, counters, max_error: error, memory_bytes: memory }) => [
  moment(since, serverNow()),
  ` to ${second(stamp(until))}: ${counted(total, "request")}${skipped ? `, ${count(skipped)} not looked at` : ""}. `,
  `${count(counters)} counters in ${count(memory / 1024)} KiB, at most ${count(error)} too high.`,
];

/** @param {{policy?: string, rule?: string}} subject */
export function talkers(subject) {
  let period = route().values.get("period") || "current";
  let asked = -Infinity;
  let hasLeft = false;
  const periods = choice(
    "Period",
    [
      ["current", "This period"],
      ["last", "The one before"],
    ],
    period,
    (value) => {
      period = value;
      note({ period: value === "last" ? value : "" });
      asked = -Infinity;
      read();
    },
  );
  const sides = [
    ["denied", "Denied most"],
    ["checks", "Asks most"],
  ].map(([by, title]) => {
    const says = el("p.soft.small");
    const body = el("div");
    return { by, says, body, node: el("div", el("h3", title), says, body) };
  });
  const pair = el(
    "div.pair",
    sides.map(({ node }) => node),
  );
  const off = empty(
    "Talkers are off.",
    "To see who asks, start the service without `--talkers off`:",
    command("tollgate serve --config tollgate.yaml --talkers hashed"),
  );
  const hashed = el(
    "p.soft.small",
    "Ids stand for keys. They are new at each start, unless the service has `--talkers-secret`.",
    subject.policy && [
      " To find a customer, ask the ",
      el("a", { href: link(["inspect"]) }, "inspector"),
      ": its rows are marked here.",
    ],
  );
  const node = el("section", el("div.head", el("h2", "Talkers"), periods), hashed, pair, off);

  async function read() {
    if (performance.now() - asked < EVERY) return;
    asked = performance.now();
    const chosen = period;
    for (const { by, says, body } of sides) {
      try {
        const { body: answer } = await ask(query("talkers", { ...subject, by, period, limit: 10 }));
        // Somebody has chosen the other period meanwhile.
        if (hasLeft || period !== chosen) return;
        fill(says, about(answer));
        // A row that somebody has in hand stays.
        if (body.contains(document.activeElement)) continue;
        renew(body, [answer.rows, [...inspected]], () =>
          answer.rows.length
            ? table(answer, subject.policy)
            : empty(by === "denied" ? "Nobody was denied." : "Nobody has asked.", "A period is five minutes long."),
        );
      } catch (error) {
        if (hasLeft || period !== chosen) return;
        fill(says);
        renew(body, error.words, () => el("p.soft", error.words));
      }
    }
  }

  return {
    node,
    /** @param {Live} live */
    update({ talkers: kind }) {
      off.hidden = kind !== "off";
      pair.hidden = periods.hidden = kind === "off";
      hashed.hidden = kind !== "hashed";
      if (kind !== "off") read();
    },
    leave: () => (hasLeft = true),
  };
}
