// @ts-check
// The store: its servers, how fast they answer, how they fail, and what decides meanwhile.

import { command, el, empty, facts, renew, write } from "../dom.js";
import { count, foreign, lately, length, millis, share, stamp, told } from "../format.js";
import { plainTable } from "../live_table.js";
import { serverNow } from "../poll.js";
import { meanwhile } from "../protection.js";
import { meter } from "../spark.js";

/** @param {StoreServer} server */
const row = ({ name, connected, down_for_ms: down, trouble, clock_offset_ms: offset }) => [
  foreign(name),
  connected ? "connected" : el("strong.problem", `not connected${down === undefined ? "" : ` for ${length(down)}`}`),
  trouble ? told(trouble) : "none",
  offset === undefined ? "–" : `${offset > 0 ? "+" : ""}${count(offset)} ms`,
];

/** @param {LiveStore} store */
function shared({ kind, servers, is_up: isUp, down_since: since, without_store: words, ...figures }, span) {
  const { steps, errors, late_replies: late, p50_ms: half, p99_ms: most } = figures;
  const failed = Object.entries(errors)
    .filter(([, number]) => number)
    .map(([kind, number]) => `${count(number)} ${kind.replaceAll("_", " ")}`);
  const down = el("strong", `The store does not answer${since ? `, for ${length(serverNow() - stamp(since))}` : ""}. `);
  const doctor = el("p", "`tollgate doctor` examines the connection and the server.");
  return [
    !isUp && el("div.notice.bad", el("p", down, meanwhile(words)), doctor),
    el(
      "dl.facts",
      facts([
        ["Kind", kind],
        [`Steps in ${lately(span)}`, count(steps)],
        ["Half within", millis(half)],
        ["99 % within", millis(most)],
        ["Errors", failed.join(", ") || "none"],
        late > 0 && ["Late replies", count(late)],
      ]),
    ),
    plainTable("Servers", ["<server", "<state", "<trouble", "clock"], servers.map(row)),
    el("p.soft.small", "A step is a round trip; checks at the same time share one. “Clock” is how far a server is ahead of this machine, as well as replies tell it: windows open and close by the server."),
    isUp && el("p.soft.small", `If the store fails: ${meanwhile(words)}`),
  ];
}

/** @param {NonNullable<Live["memory"]>} memory */
const memory = ({ counters, max_counters: max, holds, expired_holds: expired, store_full: full }, isAlone) =>
  el(
    "section",
    el("h2", "Memory of this process"),
    el(
      "dl.facts",
      facts([
        [
          "Counters",
          `${count(counters)} of ${count(max)} (${share(counters, max)})`,
          meter(counters < max * 0.9 ? "admitted" : "denied", counters / max).node,
        ],
        ["Holds", count(holds)],
        ["Holds that ended by themselves", count(expired)],
        ["Checks without room", count(full)],
      ]),
    ),
    full > 0 && el("p.notice.bad", "The memory was full. Raise `--max-counters`, or shorten the windows."),
    isAlone &&
      empty(
        "Counters live in this process.",
        "They end with it, and other processes have their own. To share them, give the service a store:",
        command("tollgate serve --config tollgate.yaml --store redis://127.0.0.1:6379"),
      ),
  );

/** @returns {View} */
export function store() {
  const body = el("div");
  const latency = el("p.lead");
  return {
    title: "Store",
    node: el("div", el("h1", { tabindex: -1 }, "Store"), latency, body),
    update(live) {
      const { p50, p99 } = live.latency_ms || {};
      write(
        latency,
        !live.latency_ms
          ? "No check was decided in the last minute."
          : `Half of the checks are decided within ${millis(p50)}, and 99 % within ${millis(p99)}.`,
      );
      // What somebody selects or has in hand stays.
      if (
        body.contains(document.activeElement) ||
        (body.contains(getSelection()?.anchorNode ?? null) && !getSelection()?.isCollapsed)
      )
        return;
      renew(body, [live.store, live.memory, live.store?.is_up === false && live.seq], () => [
        live.store && shared(live.store, live.span_seconds),
        live.memory && (!live.store || live.memory.counters > 0) && memory(live.memory, !live.store),
      ]);
    },
  };
}
