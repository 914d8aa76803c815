"use strict";
// Reads a chart out, where the pointer is or where arrow keys move to. The values are those of the chart's table: the row of
// a point, or in a chart of cells, the cell. Text alone is read and written.
(() => {
  const shape = (svg, name) => {
    const element = document.createElementNS(svg.namespaceURI, name);
    element.setAttribute("class", "cursor");
    svg.append(element);
    return element;
  };

  const set = (element, attributes) => {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  };

  // Points from left to right, in one picture or in several above one another.
  const points = (pictures, places, rows, says) => {
    const lines = pictures.map((svg) => shape(svg, "line"));
    return {
      steps: { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 },
      count: places.length,
      nearest: (x) => places.reduce((best, place, at) => Math.abs(place - x) < Math.abs(places[best] - x) ? at : best, 0),
      show: (at) => lines.forEach((line) => set(line, { x1: `${places[at]}%`, x2: `${places[at]}%`, y1: 0, y2: "100%" })),
      text: (at) => says.replace(/{(\d)}/g, (_, column) => rows[at][column]).replace(/(?<![\d,.])1 (request|client)s\b/g, "1 $1"),
    };
  };

  const cells = (pictures, columns, rows, heads) => {
    const box = shape(pictures[0], "rect");
    const share = 100 / columns;
    return {
      steps: { ArrowLeft: -1, ArrowDown: columns, ArrowRight: 1, ArrowUp: -columns },
      count: columns * rows.length,
      nearest: (x, y) => Math.min(rows.length - 1, Math.floor(y / 100 * rows.length)) * columns
        + Math.min(columns - 1, Math.floor(x / share)),
      show: (at) => set(box, {
        x: `${at % columns * share}%`, width: `${share}%`,
        y: `${Math.floor(at / columns) * 100 / rows.length}%`, height: `${100 / rows.length}%`,
      }),
      text: (at) => {
        const row = rows[Math.floor(at / columns)];
        return `${row[0]} ${heads[at % columns + 1]} h · ${row[at % columns + 1]}`;
      },
    };
  };

  for (const chart of document.querySelectorAll(".chart[data-at], .chart[data-columns]")) {
    const figure = chart.closest("figure");
    const table = figure.querySelector("table");
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
    const pictures = [...chart.querySelectorAll(":scope > svg")];
    const { at: places, from, says, start, columns } = chart.dataset;
    const reading = columns
      ? cells(pictures, Number(columns), rows, heads)
      : points(pictures, places.split(" ").map(Number), rows.slice(Number(from)), says);
    const readout = document.createElement("p");
    readout.className = "readout";
    readout.setAttribute("aria-live", "polite");
    readout.textContent = "Point at the chart, or focus it and use the arrow keys, to read its values.";
    figure.querySelector("details").before(readout);
    set(chart, { tabindex: 0, role: "group", "aria-label": `${figure.querySelector("h3").textContent}: arrow keys read its values` });
    let here = start === undefined ? -1 : Number(start);
    const move = (at) => {
      here = Math.max(0, Math.min(reading.count - 1, at));
      reading.show(here);
      readout.textContent = reading.text(here);
    };
    if (here >= 0) readout.textContent = reading.text(here);
    const point = (event) => {
      const box = pictures[0].getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * 100;
      move(reading.nearest(Math.max(0, Math.min(100, x)), Math.max(0, (event.clientY - box.top) / box.height * 100)));
    };
    chart.addEventListener("pointermove", point);
    chart.addEventListener("pointerdown", point);
    chart.addEventListener("keydown", (event) => {
      const step = reading.steps[event.key];
      if (step !== undefined) move(here < 0 ? 0 : here + step);
      else if (event.key === "Home") move(0);
      else if (event.key === "End") move(reading.count - 1);
      else return;
      event.preventDefault();
    });
  }
})();
