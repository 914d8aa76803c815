// @ts-check
// A table whose rows change each second: sorted, a page at a time, and written in place. And one that is written once.

import { button, el, put, set, write } from "./dom.js";
import { count, share } from "./format.js";
import { note, route } from "./route.js";
import { meter } from "./spark.js";

const PAGE = 50;
/** Rows keep their places so long, and while somebody points at one. */
const STILL = 10_000;

/**
 * @template Row
 * @param {Column<Row>[]} columns the first is the heading of its row
 * @param {(row: Row) => string} key
 * @param {string} first the column by which it is sorted at first
 */
export function liveTable(caption, columns, key, first) {
  const { values } = route();
  const state = { sort: values.get("sort") || first, up: values.has("up"), page: Number(values.get("page")) || 1 };
  const heads = columns.map(({ name, head, kind, order }) =>
    el(
      "th",
      { scope: "col", class: kind },
      order ? el("button", { type: "button", click: () => sortBy(name) }, head) : head,
    ),
  );
  const body = el("tbody");
  const shown = el("span", { role: "status" });
  const [back, on] = [button("Back", () => turn(-1)), button("Next", () => turn(1))];
  const pager = el("nav.pager", { "aria-label": `Pages of ${caption}` }, shown, back, on);
  const node = el("div", frame(caption, heads, body), pager);
  const made = new Map();
  /** @type {Row[]} */
  let rows = [];
  let places = new Map();
  let sorted = -Infinity;

  function sortBy(name) {
    state.up = state.sort === name ? !state.up : name === columns[0].name;
    state.sort = name;
    sorted = -Infinity;
    turn(1 - state.page);
  }

  function turn(step) {
    state.page += step;
    note({
      sort: state.sort === first ? "" : state.sort,
      up: state.up ? "1" : "",
      page: state.page > 1 ? state.page : "",
    });
    draw();
  }

  function order() {
    const isHeld =
      performance.now() - sorted < STILL ||
      (sorted > 0 && (node.matches(":hover") || node.contains(document.activeElement)));
    if (isHeld && rows.every((row) => places.has(key(row)))) return;
    sorted = performance.now();
    const value = columns.find(({ name }) => name === state.sort)?.order || key;
    const sign = state.up ? 1 : -1;
    const list = rows.map((row) => [value(row), key(row)]);
    list.sort(([a, one], [b, other]) => (a < b ? -sign : a > b ? sign : one < other ? -1 : 1));
    places = new Map(list.map(([, name], at) => [name, at]));
  }

  function draw() {
    order();
    heads.forEach((cell, at) =>
      set(cell, "aria-sort", columns[at].name === state.sort && (state.up ? "ascending" : "descending")),
    );
    const pages = Math.max(1, Math.ceil(rows.length / PAGE));
    state.page = Math.min(Math.max(1, state.page), pages);
    const from = (state.page - 1) * PAGE;
    const page = [...rows].sort((a, b) => places.get(key(a)) - places.get(key(b))).slice(from, from + PAGE);
    page.forEach((row, at) => {
      if (!made.has(key(row))) made.set(key(row), make());
      const { line, writers } = made.get(key(row));
      writers.forEach((writer) => writer(row));
      if (body.children[at] !== line) body.insertBefore(line, body.children[at]);
    });
    while (body.children.length > page.length) body.lastElementChild.remove();
    pager.hidden = pages === 1;
    write(shown, `${count(from + 1)} to ${count(from + page.length)} of ${count(rows.length)}`);
    back.disabled = state.page === 1;
    on.disabled = state.page === pages;
  }

  function make() {
    const cells = columns.map(({ kind }, at) => bodyCell(at, kind));
    return { line: el("tr", cells), writers: columns.map((column, at) => column.make(cells[at])) };
  }

  return {
    node,
    toFirstPage: () => (state.page = 1),
    /** Shows other rows. @param {Row[]} next */
    update(next) {
      rows = next;
      draw();
    },
  };
}

const bodyCell = (at, kind, ...parts) => el(at ? "td" : "th", { scope: !at && "row", class: kind }, parts);

const frame = (caption, heads, body) =>
  el(
    "div.scroll",
    { tabindex: 0, role: "region", "aria-label": caption },
    el("table", el("caption.hidden", caption), el("thead", el("tr", heads)), body),
  );

/** A table that is written once; a head with `<` in front is of texts. */
export function plainTable(caption, heads, rows) {
  const kinds = heads.map((head) => head.startsWith("<") && "left");
  return frame(
    caption,
    heads.map((head, at) => el("th", { scope: "col", class: kinds[at] }, head.replace("<", ""))),
    el(
      "tbody",
      rows.map((row) =>
        el(
          "tr",
          row.map((cell, at) => bodyCell(at, kinds[at], cell)),
        ),
      ),
    ),
  );
}

/** A cell with a text. */
export const text = (words) => (cell) => (row) => {
  const now = words(row);
  write(cell, now);
  cell.classList.toggle("zero", ["0", "0 %", "–"].includes(now));
};

/** A cell with a share, in words and as a bar. */
export const shareCell = (part, whole) => (cell) => {
  const words = el("span");
  const bar = meter("denied");
  put(cell, words, bar.node);
  const writer = text((row) => share(part(row), whole(row)))(words);
  return (row) => {
    writer(row);
    bar.update(whole(row) ? part(row) / whole(row) : 0);
  };
};
