// @ts-check
// A dialog that says what will happen, asks, and shows what has happened.

import { button, el, fill } from "./dom.js";
import { plainTable } from "./live_table.js";

/**
 * Asks about a change, and makes it only after the button of its name.
 * @param {Change} change
 * @param {() => void} done called when the dialog closes after the change
 */
export function confirmChange({ title, button: name, says, fields = [], twice, run }, done) {
  const words = el("p.says", { "aria-live": "polite" });
  const sure = el("input", { type: "checkbox" });
  const failed = el("p.problem", { role: "alert" });
  const go = el("button.danger", name);
  const close = () => dialog.close();
  const form = el(
    "form",
    { input: tell, submit },
    el("h2", { id: "dialog-title" }, title),
    fields,
    words,
    twice && el("label.check", sure, " ", twice),
    failed,
    el("div.fields.end", button("Cancel", close, "plain"), go),
  );
  const dialog = el("dialog", { "aria-labelledby": "dialog-title" }, form);
  let isDone = false;

  function tell() {
    fill(words, says());
    go.disabled = Boolean(twice) && !sure.checked;
  }

  async function submit(event) {
    event.preventDefault();
    go.disabled = true;
    fill(failed);
    try {
      const { says, heads, rows } = await run();
      isDone = true;
      const end = button("Close", close, "primary");
      fill(
        form,
        el("h2", { id: "dialog-title" }, "Done"),
        el("p", { role: "status" }, says),
        rows.length > 0 && plainTable("Before and after", heads, rows),
        el("div.fields.end", end),
      );
      end.focus();
    } catch (error) {
      const changed = error.problem?.changed?.map(({ policy, quota }) => `${policy} ${quota}`).join(", ");
      fill(failed, error.words, changed && ` Changed before the failure: ${changed}.`);
      go.disabled = false;
    }
  }

  // Another view has nothing to do with the question, and nothing to read again.
  function leave() {
    isDone = false;
    close();
  }
  addEventListener("hashchange", leave);
  dialog.addEventListener("close", () => {
    removeEventListener("hashchange", leave);
    dialog.remove();
    if (isDone) done();
  });
  document.body.append(dialog);
  tell();
  dialog.showModal();
}

/** A field, which has an id, with its label and a hint. */
export const field = (label, control, hint) =>
  el("div.field", el("label", { for: control.id }, label), control, hint && el("p.soft.small", hint));

/** A choice of one of several, as `[value, name]`. */
export const select = (id, choices, more) =>
  el(
    "select",
    { id, ...more },
    choices.map(([value, name]) => el("option", { value }, name)),
  );

/** Buttons of which one is pressed, as `[value, name]`. */
export function choice(label, choices, first, chosen) {
  const buttons = choices.map(([value, name]) =>
    button(
      name,
      () => {
        buttons.forEach((other, at) => other.setAttribute("aria-pressed", choices[at][0] === value));
        chosen(value);
      },
      "plain",
    ),
  );
  buttons.forEach((node, at) => node.setAttribute("aria-pressed", choices[at][0] === first));
  return el("div.choice", { role: "group", "aria-label": label }, buttons);
}
