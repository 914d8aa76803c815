// @ts-check
// The inspector: why was this client denied? Attributes of a request go in, or a talker.

import { ask } from "../api.js";
import { button, el, empty, fill, input, renew } from "../dom.js";
import { keyParts } from "../key.js";
import { askNow } from "../poll.js";
import { link } from "../route.js";
import { inspection } from "./result.js";
import { inspected } from "./talkers.js";

/** What was typed last in this tab: keys do not go into the address. @type {string[][]} */
let typed = [];

/** The attributes that policies count by, the most frequent first. @param {Live} live */
function attributeNames({ policies }) {
  const names = policies.flatMap(({ key }) => keyParts(key).names);
  const uses = (name) => names.filter((other) => other === name).length;
  return [...new Set(names)].sort((a, b) => uses(b) - uses(a)).slice(0, 12);
}

/** @param {Route} here with a policy and the id of its talker, or with neither @returns {View} */
export function inspector({ names: [policy, id] }) {
  const known = el("datalist", { id: "attributes" });
  const rows = el("div");
  const offers = el("p.offers");
  const go = el("button.primary", "Inspect");
  const body = el("div", { "aria-live": "polite" });
  const node = el(
    "div",
    el("h1", { tabindex: -1 }, "Inspector"),
    el("p.lead", "Which policies apply to a request, which do not and why, and how much is used. Nothing is counted."),
    el(
      "form",
      { submit },
      known,
      rows,
      offers,
      el(
        "div.fields",
        go,
        button("Another attribute", () => add("", "").focus()),
      ),
    ),
    body,
  );
  /** @type {Live | null} */
  let live = null;

  function add(name, value) {
    const row = el(
      "div.attribute",
      input(undefined, {
        "aria-label": "Attribute",
        class: "attribute-name",
        list: "attributes",
        placeholder: "attribute",
        value: name,
        input: offer,
      }),
      el("span", "="),
      input(undefined, { "aria-label": "Value", placeholder: "value", value }),
      button("Remove", () => {
        row.remove();
        if (!rows.children.length) add("", "");
        offer();
      }),
    );
    rows.append(row);
    return row.querySelectorAll("input")[name ? 1 : 0];
  }

  const read = () =>
    [...rows.children]
      .map((row) => [...row.querySelectorAll("input")].map((field) => field.value))
      .filter(([name]) => name.trim());

  /** A button by its text and its group, so that the same one has the focus after another inspection. */
  const nameOf = (node) => `${node.closest("[role=group]")?.getAttribute("aria-label")} ${node.textContent}`;
  const buttonInHand = () => body.contains(document.activeElement) && nameOf(document.activeElement);

  /** @param {Subject} subject */
  async function inspect(subject) {
    go.disabled = true;
    try {
      const { body: answer } = await ask("inspect", { body: subject });
      for (const { policy, id } of answer.applied) if (id) inspected.add(`${policy} ${id}`);
      const held = buttonInHand();
      fill(
        body,
        inspection(answer, subject, live, () => {
          inspect(subject);
          askNow();
        }),
      );
      [...body.querySelectorAll("button")].find((node) => nameOf(node) === held)?.focus();
    } catch (error) {
      fill(body, el("p.problem", { role: "alert" }, error.words));
    }
    go.disabled = false;
  }

  function submit(event) {
    event.preventDefault();
    typed = read();
    if (!typed.length) return add("", "").focus();
    history.replaceState(null, "", link(["inspect"]));
    inspect({ attributes: Object.fromEntries(typed.map(([name, value]) => [name.trim(), value])) });
  }

  /** Offers the attributes that are not there yet. */
  function offer() {
    const names = live ? attributeNames(live) : [];
    const used = read().map(([name]) => name);
    const free = names.filter((name) => !used.includes(name));
    renew(known, names, () => names.map((value) => el("option", { value })));
    renew(
      offers,
      free,
      () =>
        free.length > 0 && [
          "Policies count by ",
          free.map((name) =>
            button(name, () => {
              [...rows.children].find((row) => !row.querySelector("input").value)?.remove();
              add(name, "").focus();
              offer();
            }),
          ),
        ],
    );
  }

  return {
    title: "Inspector",
    node,
    update(now) {
      const isFirst = !live;
      live = now;
      if (isFirst) {
        (typed.length ? typed : [[attributeNames(live)[0] || "", ""]]).forEach(([name, value]) => add(name, value));
        if (id) inspect({ policy, id });
        else if (!live.policies.length)
          fill(body, empty("There is no policy that could apply.", "Every request is admitted."));
      }
      offer();
    },
  };
}
