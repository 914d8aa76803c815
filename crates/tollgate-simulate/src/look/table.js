"use strict";
// Sorts tables. Without it the page says the same. It reads and writes text alone: nothing that strangers chose becomes
// HTML.
(() => {
  const SECONDS = { second: 1, minute: 60, hour: 3600, day: 86400 };

  // "1,234", "over 99.9 %", "2.5 hours"
  const number = (text) => {
    const found = /^(?:over |under |about )?(\d+(?:\.\d+)?)(?: (second|minute|hour|day))?/.exec(text.replace(/,/g, ""));
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

  for (const table of document.querySelectorAll("table")) {
    if (table.tBodies[0].rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sort(table, head, column));
      head.replaceChildren(button);
    });
  }
})();
