// Makes the picture of the boundary burst interactive. Without scripts, the still picture stays.
"use strict";

(() => {
  const SECONDS = 180;
  const MINUTE = 60;
  const QUOTAS = {
    "5/1m": [{ limit: 5, window: MINUTE }],
    "5/1m, 2/10s": [{ limit: 5, window: MINUTE }, { limit: 2, window: 10 }],
    "5/1m@first_hit": [{ limit: 5, window: MINUTE, firstHit: true }],
  };
  const TRAFFIC = {
    "Burst at the boundary": [56, 57, 57.5, 58, 59, 60.5, 61, 61.5, 62, 63],
    "Even traffic": Array.from({ length: 15 }, (_, place) => 6 + 12 * place),
    "Ten at once": [20, 20.4, 20.8, 21.2, 21.6, 22, 22.4, 22.8, 23.2, 23.6],
  };
  const picture = document.currentScript.previousElementSibling;

  /** Decides requests in the order of their times: all quotas are charged, or none. */
  function decide(times, quotas) {
    const counters = quotas.map(() => []);
    return [...times].sort((one, other) => one - other).map((at) => {
      const windows = quotas.map(({ window, firstHit }, place) => {
        const last = counters[place].at(-1);
        if (last && at < last.end) return last;
        const start = firstHit ? at : Math.floor(at / window) * window;
        return { start, end: start + window, used: 0 };
      });
      const allowed = windows.every(({ used }, place) => used < quotas[place].limit);
      if (allowed) {
        windows.forEach((window, place) => {
          window.used += 1;
          if (counters[place].at(-1) !== window) counters[place].push(window);
        });
      }
      return { at, allowed, windows: counters };
    });
  }

  /** The minute with the most admitted requests. */
  function busiest(requests) {
    const admitted = requests.filter(({ allowed }) => allowed).map(({ at }) => at);
    const minutes = admitted.map((from) => ({
      from,
      count: admitted.filter((at) => from <= at && at < from + MINUTE).length,
    }));
    return minutes.reduce((most, minute) => (minute.count > most.count ? minute : most), { from: 0, count: 0 });
  }

  const clock = (at) => `12:${String(Math.floor(at / 60)).padStart(2, "0")}:${String(Math.floor(at % 60)).padStart(2, "0")}`;

  function element(name, attributes = {}, ...children) {
    const isDrawn = ["svg", "g", "line", "rect", "circle", "path", "text", "title"].includes(name);
    const made = isDrawn
      ? document.createElementNS("http://www.w3.org/2000/svg", name)
      : document.createElement(name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    made.append(...children);
    return made;
  }

  const LEFT = 20;
  const BASE = 150;
  const x = (at) => LEFT + (at * 760) / SECONDS;

  function draw(requests, quotas) {
    const svg = element("svg", { viewBox: "0 0 800 205", role: "img" });
    svg.append(element("title", {}, "Three minutes of requests. Click to add one at that time."));
    const { window, firstHit, limit } = quotas[0];
    const counted = requests.at(0)?.windows[0] ?? [];
    const shown = firstHit
      ? counted
      : [0, 1, 2].map((place) => counted.find(({ start }) => start === place * window)
        ?? { start: place * window, end: (place + 1) * window, used: 0 });
    for (const { start, end, used } of shown) {
      const width = x(Math.min(end, SECONDS)) - x(start);
      svg.append(element("rect", { class: "window", x: x(start), y: 48, width, height: BASE - 48 }));
      svg.append(element("text", { x: x(start) + width / 2, y: 40, "text-anchor": "middle" },
        width > 120 ? `${used} of ${limit} used` : `${used}/${limit}`));
    }
    for (let at = 0; at <= SECONDS; at += MINUTE) {
      const anchor = at === 0 ? "start" : at === SECONDS ? "end" : "middle";
      svg.append(element("line", { x1: x(at), x2: x(at), y1: BASE, y2: BASE + 6 }));
      svg.append(element("text", { x: x(at), y: BASE + 22, "text-anchor": anchor }, clock(at).slice(0, 5)));
    }
    svg.append(element("line", { x1: LEFT, x2: x(SECONDS), y1: BASE, y2: BASE }));
    const columns = new Map();
    for (const { at, allowed } of requests) {
      const column = Math.round(x(at) / 9);
      const height = columns.get(column) ?? 0;
      columns.set(column, height + 1);
      const [cx, cy] = [column * 9, BASE - 8 - 10 * height];
      svg.append(allowed
        ? element("circle", { class: "allowed", cx, cy, r: 4 }, element("title", {}, `${clock(at)}: allowed`))
        : element("path", { class: "denied", d: `M${cx - 3.5} ${cy - 3.5}l7 7m-7 0l7 -7` },
          element("title", {}, `${clock(at)}: denied`)));
    }
    const { from, count } = busiest(requests);
    if (count > 0) {
      const end = Math.min(from + MINUTE, SECONDS);
      const over = count > limit ? "over" : "";
      svg.append(element("path", { class: `minute ${over}`, d: `M${x(from)} 178v6H${x(end)}v-6` }));
      const middle = Math.min(Math.max((x(from) + x(end)) / 2, 120), 680);
      svg.append(element("text", { class: over, x: middle, y: 200, "text-anchor": "middle" },
        `busiest 60 seconds: ${count} admitted`));
    }
    return svg;
  }

  const style = element("style", {}, `
    .burst { border: 1px solid; border-radius: 6px; padding: 0.8em; margin: 1em 0; }
    .burst svg { width: 100%; height: auto; cursor: crosshair; touch-action: manipulation; }
    .burst text { font-size: 14px; fill: currentColor; }
    .burst line, .burst .minute { stroke: currentColor; stroke-width: 1.5; fill: none; }
    .burst .window { fill: currentColor; fill-opacity: 0.06; stroke: currentColor; stroke-opacity: 0.35; }
    .burst .allowed { fill: #2f81f7; }
    .burst .denied, .burst .minute.over { stroke: #e5534b; stroke-width: 2; fill: none; }
    .burst text.over { fill: #e5534b; font-weight: 600; }
    .burst .controls { display: flex; flex-wrap: wrap; gap: 0.5em; align-items: center; }
    .burst button, .burst select { font: inherit; color: inherit; background: transparent; border: 1px solid;
      border-radius: 4px; padding: 0.1em 0.6em; cursor: pointer; }
    .burst option { color: #000; background: #fff; }
    .burst output { display: block; }
  `);
  const limits = element("select", { "aria-label": "Limit" });
  Object.keys(QUOTAS).forEach((name) => limits.append(element("option", {}, name)));
  const controls = element("div", { class: "controls" }, "Limit", limits);
  const stage = element("div");
  const told = element("output", { "aria-live": "polite" });
  let times = TRAFFIC["Burst at the boundary"];

  function show() {
    const quotas = QUOTAS[limits.value];
    const requests = decide(times, quotas);
    const svg = draw(requests, quotas);
    svg.addEventListener("click", (event) => {
      const box = svg.getBoundingClientRect();
      const at = ((((event.clientX - box.left) / box.width) * 800 - LEFT) * SECONDS) / 760;
      if (at < 0 || at >= SECONDS) return;
      times = [...times, at];
      show();
    });
    stage.replaceChildren(svg);
    const admitted = requests.filter(({ allowed }) => allowed).length;
    told.value = `${requests.length} requests: ${admitted} admitted, ${requests.length - admitted} denied. `
      + "Click into the picture to add a request.";
  }

  for (const [name, chosen] of Object.entries({ ...TRAFFIC, Clear: [] })) {
    const button = element("button", { type: "button" }, name);
    button.addEventListener("click", () => {
      times = chosen;
      show();
    });
    controls.append(button);
  }
  limits.addEventListener("change", show);
  const widget = element("div", { class: "burst" }, style, controls, stage, told);
  picture.replaceWith(widget);
  show();
})();
