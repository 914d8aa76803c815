// @ts-check
// What this page is: the process, the token, the licence.

import { token } from "../api.js";
import { el, write } from "../dom.js";
import { length, stamp } from "../format.js";
import { forget } from "../notices.js";
import { serverNow } from "../poll.js";

/** @returns {View} */
export function about() {
  const process = el("p.lead");
  return {
    title: "About",
    node: el(
      "div",
      el("h1", { tabindex: -1 }, "About"),
      process,
      token.get() && el("p", "This tab keeps your token until it is closed. ", forget("Forget it")),
      el(
        "p",
        "Tollgate is under the MIT licence or the Apache licence 2.0, as you like. The page has no parts of others.",
      ),
    ),
    update({ process: { host, pid, started, version } }) {
      write(
        process,
        `Tollgate ${version}, process ${pid} on ${host}, for ${length(serverNow() - stamp(started))}. The page shows this process, and loads nothing from elsewhere.`,
      );
    },
  };
}
