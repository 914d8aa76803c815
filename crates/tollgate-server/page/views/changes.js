// @ts-check
// Changes of what a client has used: reset, set, refund. Each asks first, and says before and after.

import { ask } from "../api.js";
import { confirmChange, field, select } from "../dialog.js";
import { button, el, input } from "../dom.js";
import { count } from "../format.js";
import { overrideButtons } from "./override.js";

const figure = (number) => (number === undefined ? "–" : count(number));

/**
 * @param {AppliedPolicy} applied
 * @param {Inspection} found
 * @param {Subject} subject
 * @param {Live} live
 */
export function changeButtons(applied, found, subject, live, done) {
  const { policy, quotas = [] } = applied;
  const key = live.policies.find(({ name }) => name === policy)?.key ?? "";
  const names = (key.match(/[^[\], ]+/g) || []).filter((name) => name !== "global");
  const who = subject.id ? `the client \`${subject.id}\`` : names.length ? `the client with this ${names.join(" and ")}` : "all clients";
  const now = `Now ${quotas.map(({ quota, used, limit }) => `${figure(used)} of ${count(limit)} of \`${quota}\``).join(", ")} are used. `;
  const then = `for ${who}, at once and in ${live.store ? "all processes that share the store" : "this process"}. It needs the scope \`change\`.`;
  const subjects = subject.id ? { policy, id: subject.id } : { policy, attributes: subject.attributes };

  /** Offers a change: its path, what will happen, its fields, and the body in addition to the client. */
  const offer = (path, title, says, fields, more) => button(`${title}…`, () => confirmChange({
    title: `${title} ${policy}`, button: title, fields: fields.map(([label, control, hint]) => field(label, control, hint)),
    twice: names.length || subject.id ? undefined : `${policy} counts all clients together: this concerns every one of them.`,
    says: () => now + says() + then,
    run: async () => {
      const { body } = await ask(path, { body: { ...subjects, ...more() } });
      const rows = body.quotas.filter((after) => after.policy === policy).map(({ quota, used, remaining }) =>
        [quota, figure(quotas.find((before) => before.quota === quota)?.used), figure(used), figure(remaining)]);
      return { says: "The service has made the change.", heads: ["<quota", "used before", "used now", "left now"], rows };
    },
  }, done), "plain");

  const used = input("used", { type: "number", min: 0, value: quotas[0]?.used ?? 0, required: true });
  const which = select("which", [["", "each quota"], ...quotas.map(({ quota }) => [quota, quota])]);
  const cost = input("cost", { type: "number", min: 1, value: 1, required: true });
  // A refund names its charge. For fixed windows that is their start; of other kinds only the caller knows it.
  const windows = quotas.filter(({ window }) => window).map(({ quota, window }) => ({ policy, quota, start: window?.start }));

  return el("div.fields.changes", { role: "group", "aria-label": `Changes of ${policy}` }, quotas.length > 0 && [
    offer("reset", "Reset", () => "All of it becomes 0 ", [], () => ({})),
    offer("set", "Set", () => `It becomes ${figure(Number(used.value))} in ${which.value ? `\`${which.value}\`` : "each quota"} `,
      [["Used units", used, "It may be above the limit: the client then waits longer."], ["Of", which]],
      () => ({ used: Number(used.value), ...(which.value && { quota: which.value }) })),
    windows.length > 0 && !subject.id && offer("refund", "Refund", () => `Up to ${figure(Number(cost.value))} of ${windows.map(({ quota }) => `\`${quota}\``).join(" and ")} are given back, and none goes below 0, `,
      [["Units", cost]], () => ({ policy: undefined, cost: Number(cost.value), version: found.policies_version, windows }))],
  overrideButtons(applied, subject, names, done));
}
