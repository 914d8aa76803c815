// @ts-check
// Makes elements. Text stays text: nothing here turns a text into HTML, because clients choose some of the texts.

/**
 * Makes an element: a tag with classes (`p.soft`), then attributes in objects, children, and lists of children. A function
 * among the attributes listens to the event of its name. In texts, code stands between backticks.
 * @returns {any}
 */
export const el = (tag, ...parts) => make("http://www.w3.org/1999/xhtml", tag, parts);

/** Makes an element of a picture. @returns {any} */
export const svg = (tag, ...parts) => make("http://www.w3.org/2000/svg", tag, parts);

function make(space, tag, parts) {
  const [name, ...classes] = tag.split(".");
  const node = document.createElementNS(space, name);
  if (classes.length) set(node, "class", classes.join(" "));
  return put(node, parts);
}

/** Adds attributes and children. */
export function put(node, ...parts) {
  for (const part of parts.flat(9)) {
    if (part instanceof Node) node.append(part);
    else if (part && typeof part === "object") dress(node, part);
    else if (part || part === 0)
      node.append(
        ...String(part)
          .split("`")
          .map((text, at) => (at % 2 ? el("code", text) : text)),
      );
  }
  return node;
}

function dress(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else set(node, name, value === true ? "" : value);
  }
}

export function fill(node, ...parts) {
  node.replaceChildren();
  return put(node, parts);
}

/** Sets an attribute if it is another one, and removes it if the value is absent. */
export function set(node, name, value) {
  if (value === false || value === undefined) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/** Sets a text as it is, if it is another one. */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const keys = new WeakMap();

/** Fills a node anew only if `key` has changed: what somebody reads or selects stays. */
export function renew(node, key, parts) {
  const text = JSON.stringify(key) ?? "";
  if (keys.get(node) !== text) fill(node, parts());
  keys.set(node, text);
}

export const say = (node, text) => renew(node, text, () => text);

export const button = (text, click, kind = "small") => el(`button.${kind}`, { type: "button", click }, text);

export const input = (id, more) => el("input", { id, autocomplete: "off", spellcheck: "false", ...more });

export function copyButton(text, label = "Copy") {
  const node = button(label, async () => {
    // Browsers have a clipboard only on https and on localhost.
    const copied = await navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    );
    write(node, copied ? "Copied" : "Select it to copy");
    setTimeout(() => write(node, label), 2000);
  });
  return node;
}

/** A command that can be copied. */
export const command = (text) => el("div.command", el("pre", { tabindex: 0 }, el("code", text)), copyButton(text));

/** Tells people without data what to do. */
export const empty = (title, ...parts) =>
  el(
    "div.empty",
    el("p", el("strong", title)),
    parts.map((part) => (typeof part === "string" ? el("p", part) : part)),
  );

/** Facts with their names. */
export const facts = (list) =>
  list.filter(Boolean).map(([head, ...value]) => el("div", el("dt", head), el("dd", value)));
