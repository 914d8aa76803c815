// @ts-check
// What this page is: the process, the token, the licences.

import { token } from "../api.js";
import { el, fill, write } from "../dom.js";
import { length, stamp } from "../format.js";
import { forget } from "../notices.js";
import { serverNow } from "../poll.js";

/** @returns {View} */
export function about() {
  const process = el("p.lead");
  const licence = el("pre", { tabindex: 0 });
  fetch("vendor/uplot/LICENSE").then((answer) => answer.text()).then((text) => fill(licence, text), () => fill(licence, "It cannot be read now."));
  return {
    title: "About",
    node: el("div", el("h1", { tabindex: -1 }, "About"), process, token.get() && el("p", "This tab keeps your token until it is closed. ", forget("Forget it")),
      el("h2", "Licences"), el("p", "Tollgate: MIT or Apache 2.0, as you like. Charts are drawn by uPlot 1.6.32:"), licence),
    update({ process: { host, pid, started, version } }) {
      write(process, `Tollgate ${version}, process ${pid} on ${host}, for ${length(serverNow() - stamp(started))}. The page shows this process, and loads nothing from elsewhere.`);
    },
  };
}
