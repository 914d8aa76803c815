"use strict";
// Sorts tables and slides along curves. Without it the page says the same. It reads and writes text alone: nothing that
// strangers chose becomes HTML.
(() => {
  const make = (name, text) => {
    const element = document.createElement(name);
    element.textContent = text;
    return element;
  };

  const SECONDS = { second: 1, minute: 60, hour: 3600, day: 86400 };

  // "1,234", "over 99.9 %", "2.5 hours"
  const number = (text) => {
    const found = /^(?:over |under )?(\d+(?:\.\d+)?)(?: (second|minute|hour|day))?/.exec(text.replace(/,/g, ""));
    return found ? Number(found[1]) * (SECONDS[found[2]] || 1) : null;
  };

  // Cells without a value come last in both directions.
  const compare = (a, b, sign) => {
    if (a === b) return 0;
    if (a === null || a === "") return 1;
    if (b === null || b === "") return -1;
    return a < b ? -sign : sign;
  };

  const sort = (table, head, column) => {
    const isText = head.classList.contains("left");
    const first = isText ? "ascending" : "descending";
    const other = isText ? "descending" : "ascending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    for (const cell of head.parentElement.cells) cell.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    const value = (row) => {
      const text = row.cells[column].textContent;
      return isText ? text : number(text);
    };
    const rows = [...table.tBodies[0].rows].map((row) => ({ row, value: value(row) }));
    rows.sort((a, b) => compare(a.value, b.value, order === "ascending" ? 1 : -1));
    table.tBodies[0].append(...rows.map(({ row }) => row));
  };

  const slide = (curve) => {
    const points = curve.querySelector("svg .one").getAttribute("points").split(" ");
    const places = points.map((point) => point.split(",")[0]);
    const rows = [...curve.querySelectorAll("tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent));
    // A limit of 0 has no place on a logarithmic axis.
    const limits = rows.filter((row) => row[0] !== "0");
    const here = curve.querySelector("svg .here");
    const control = make("p", "");
    const label = make("label", "Another limit ");
    const range = make("input", "");
    const said = make("output", "");
    control.className = "control";
    range.type = "range";
    range.min = "0";
    range.max = String(limits.length - 1);
    range.value = String(Math.max(0, limits.findIndex((row) => row[5].includes("today"))));
    const show = () => {
      const [limit, denied, share, clients, shareOfClients] = limits[Number(range.value)];
      range.setAttribute("aria-valuetext", limit);
      here.setAttribute("transform", `translate(${places[Number(range.value)]} 0)`);
      said.textContent = `Limit ${limit}: denied requests ${denied} (${share}), denied clients ${clients} (${shareOfClients})`;
    };
    range.addEventListener("input", () => {
      here.classList.add("on");
      show();
    });
    label.append(range);
    control.append(label, said);
    curve.querySelector("svg").after(control);
    show();
  };

  for (const curve of document.querySelectorAll(".curve")) slide(curve);
  for (const table of document.querySelectorAll("table")) {
    if (table.tBodies[0].rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = make("button", head.textContent);
      button.type = "button";
      button.addEventListener("click", () => sort(table, head, column));
      head.replaceChildren(button);
    });
  }
})();
