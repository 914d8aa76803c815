// @ts-check
// Puts the page together: the head, what is wrong, the strip, and the view that the address names.

import { button, el, fill, set, write } from "./dom.js";
import { length } from "./format.js";
import { notices } from "./notices.js";
import { known, pause, start } from "./poll.js";
import { link, route } from "./route.js";
import { strip } from "./strip.js";
import { about } from "./views/about.js";
import { domain } from "./views/domain.js";
import { domains } from "./views/domains.js";
import { inspector } from "./views/inspector.js";
import { overview } from "./views/overview.js";
import { policies } from "./views/policies.js";
import { policy } from "./views/policy.js";
import { store } from "./views/store.js";
import { trials } from "./views/trials.js";

/** @type {Record<string, (route: Route) => View>} */
const VIEWS = { "": overview, policy, inspect: inspector, trials, policies, store, domains, domain, about };
/** Views that belong to another one. */
const PARENTS = { policy: "", domain: "domains" };
const PLACES = [
  ["", "Overview"],
  ["inspect", "Inspector"],
  ["trials", "Trials"],
  ["policies", "Policies"],
  ["store", "Store"],
  ["domains", "Domains"],
];
/** Figures of this age are said to be old. */
const OLD = 3500;

/** @returns {any} */
const at = (selector) => document.querySelector(selector);
const content = at("#content");
const links = PLACES.map(([view, name]) => ({ view, node: el("a", { href: link(view ? [view] : []) }, name) }));
const who = el("p.who");
const release = el("p.soft.who");
const state = el("span");
const pulse = el("p.pulse", el("span.pulse-sign", { "aria-hidden": "true" }), state);
const pauser = button("Pause", () => pause(!known.isPaused));
const status = strip();
const warning = notices();
/** @type {View | null} */
let view = null;
let shown = "";

function frame() {
  fill(
    at("header"),
    el("a.brand", { href: link([]) }, el("img", { src: "icon.svg", alt: "", width: 20, height: 20 }), "Tollgate"),
    release,
    el(
      "nav.places",
      { "aria-label": "Views" },
      el(
        "ul",
        links.map(({ node }) => el("li", node)),
      ),
    ),
    el("div.now", who, pulse, pauser),
  );
  content.before(warning.node);
  fill(
    at("footer"),
    el("p", "This page shows one process. Metrics show all of them."),
    el("p", el("a", { href: link(["about"]) }, "About")),
  );
  at(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    content.focus();
  });
}

/** Opens the view that the address names. */
function open() {
  const here = route();
  if (view && location.hash === shown) return;
  shown = location.hash;
  const isFirst = !view;
  view?.leave?.();
  // An address may name anything, such as `toString`, which every object has.
  const name = Object.hasOwn(VIEWS, here.view) ? here.view : "";
  view = VIEWS[name](here);
  fill(content, view.node);
  document.title = `${view.title} · Tollgate`;
  const place = PARENTS[name] ?? name;
  for (const { view: to, node } of links) set(node, "aria-current", to === place && "page");
  at("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  if (known.live) view.update(known.live);
  if (isFirst) return;
  // People who cannot see the change hear the heading of the new view.
  scrollTo(0, 0);
  at("main h1")?.focus({ preventScroll: true });
}

function update() {
  warning.update();
  const { live } = known;
  if (live) {
    if (!status.node.isConnected) at(".status").append(status.node);
    status.update(live);
    write(who, `${live.process.host}, process ${live.process.pid}`);
    write(release, live.process.version);
    links[5].node.parentElement.hidden = live.decided_by !== "domains";
    view?.update(live);
  }
  content.hidden = at(".places").hidden = pauser.hidden = !live;
  tick();
}

/** Says how old the figures are. */
function tick() {
  const age = performance.now() - known.answered;
  const isOld = Boolean(known.live) && age > OLD;
  at(":root").toggleAttribute("data-old", isOld && !known.isPaused);
  if (isOld && !known.isPaused) status.old(age);
  const old = `${length(age)} old`;
  write(state, !known.live ? "no figures yet" : known.isPaused ? `paused, ${old}` : isOld ? old : "live");
  set(pulse, "data-live", Boolean(known.live) && !isOld && !known.isPaused && "yes");
  write(pauser, known.isPaused ? "Go on" : "Pause");
  warning.tick();
}

frame();
open();
addEventListener("hashchange", open);
setInterval(() => document.hidden || tick(), 1000);
start(update);
update();
