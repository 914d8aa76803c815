// @ts-check
// Changes of what a client has used: reset, set, refund. Each asks first, and says before and after.

import { ask } from "../api.js";
import { confirmChange, field, select } from "../dialog.js";
import { button, el, input } from "../dom.js";
import { count } from "../format.js";
import { keyOf, keyParts } from "../key.js";
import { overrideButtons } from "./override.js";

const HEADS = ["<quota", "used before", "used now", "left now"];

const figure = (number) => (number === undefined ? "–" : count(number));

/**
 * Before and after of each quota of the policy.
 * @param {InspectedQuota[]} before
 * @param {QuotaAfter[]} after
 */
const compare = (before, after) =>
  after.map(({ quota, used, remaining }) => {
    const old = before.find((other) => other.quota === quota);
    // The answer to a refund has no `remaining`.
    const left = remaining ?? (old && used !== undefined ? Math.max(0, old.limit - used) : undefined);
    return [quota, figure(old?.used), figure(used), figure(left)];
  });

/**
 * @param {AppliedPolicy} applied
 * @param {Inspection} found
 * @param {Subject} subject
 * @param {Live} live
 * @param {() => void} done
 */
export function changeButtons(applied, found, subject, live, done) {
  const { policy, quotas = [], in_flight: flight } = applied;
  const key = live.policies.find(({ name }) => name === policy)?.key;
  const isOne = keyParts(key).kind !== "global";
  const one = subject.id ? `the client \`${subject.id}\`` : "the client with these attributes";
  const who = isOne ? one : "all clients";
  const where = live.store ? "all processes that share the store" : "this process";
  const now = quotas.map(({ quota, used, limit }) => `${figure(used)} of ${count(limit)} of \`${quota}\``).join(", ");

  /**
   * Offers the change at `path`: what will happen in words, and the body in addition to the client.
   * @param {string} path
   * @param {string} title
   * @param {{says: () => string, body: () => object, fields?: any[]}} change
   */
  function offer(path, title, { says, body, fields }) {
    const change = {
      title: `${title} ${policy}`,
      button: title,
      fields,
      twice: isOne ? undefined : `${policy} counts all clients together: this concerns every one of them.`,
      says: () => `Now ${now} are used. ${says()} for ${who}, at once and in ${where}. It needs the scope \`change\`.`,
      run: async () => {
        const { quotas: all, forgotten = [] } = (await ask(path, { body: { policy, ...body(), ...subject } })).body;
        const rows = compare(
          quotas,
          all.filter((after) => after.policy === policy),
        );
        const ended = forgotten.map(({ quota, units }) => [quota, count(units), "0", "–"]);
        return { says: "The service has made the change.", heads: HEADS, rows: [...rows, ...ended] };
      },
    };
    return button(`${title}…`, () => confirmChange(change, done), "plain");
  }

  // A reset is of all limits of the policy, and whoever holds units does not hear of it.
  const alsoEnds = flight ? `, and the units in flight (${figure(flight.held)} now) are forgotten` : "";
  const reset = offer("reset", "Reset", { says: () => `All of it becomes 0${alsoEnds}`, body: () => ({}) });

  const used = input("used", { type: "number", min: 0, value: quotas[0]?.used ?? 0, required: true });
  // Units in flight cannot be set, so next to them a quota is named.
  const each = flight ? [] : [["", "each quota"]];
  const which = select("which", [...each, ...quotas.map(({ quota }) => [quota, quota])]);
  const set = offer("set", "Set", {
    fields: [field("Used units", used, "It may be above the limit: the client then waits longer."), field("Of", which)],
    says: () => `It becomes ${figure(Number(used.value))} in ${which.value ? `\`${which.value}\`` : "each quota"}`,
    body: () => ({ used: Number(used.value), quota: which.value || undefined }),
  });

  // A refund names its charge. For fixed windows that is their start; of other kinds only the caller knows it.
  const windows = quotas
    .filter(({ window }) => window)
    .map(({ quota, window }) => ({ policy, quota, start: window?.start }));
  const named = windows.map(({ quota }) => `\`${quota}\``).join(" and ");
  const cost = input("cost", { type: "number", min: 1, value: 1, required: true });
  const refund = offer("refund", "Refund", {
    fields: [field("Units", cost)],
    says: () => `Up to ${figure(Number(cost.value))} of ${named} are given back, and none goes below 0,`,
    body: () => ({ policy: undefined, cost: Number(cost.value), version: found.policies_version, windows }),
  });

  return el(
    "div.fields.changes",
    { role: "group", "aria-label": `Changes of ${policy}` },
    quotas.length > 0 && [reset, set, windows.length > 0 && refund],
    overrideButtons(applied, subject.attributes && keyOf(key, subject.attributes), done),
  );
}
