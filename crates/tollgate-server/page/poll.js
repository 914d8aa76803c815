// @ts-check
// Follows the service: one request at a time, the next one a second after the last answer.
//
// It stops while nobody looks at the page. After an error it waits longer each time, up to 30 s.

import { ask } from "./api.js";
import { stamp } from "./format.js";

const EVERY = 1000;
const LONGEST_WAIT = 30_000;

/** What the page knows. `answered` and `next` are times of the page; `ahead` is what the server's clock is ahead of it. */
export const known = {
  /** @type {Live | null} */
  live: null,
  /** @type {any} */
  error: null,
  isPaused: false,
  answered: 0,
  next: 0,
  ahead: 0,
  /** The version of the service when the page was loaded. */
  version: "",
};

export const serverNow = () => Date.now() + known.ahead;

let changed = () => {};
let timer = 0;
let etag = "";
let failures = 0;
let isAsking = false;

function plan(wait) {
  clearTimeout(timer);
  known.next = performance.now() + wait;
  if (!document.hidden && !known.isPaused) timer = setTimeout(turn, wait);
}

async function turn() {
  if (isAsking) return;
  isAsking = true;
  let wait = EVERY;
  try {
    const answer = await ask("live", { etag });
    etag = answer.etag;
    if (answer.body) take(answer.body);
    known.answered = performance.now();
    known.error = null;
    failures = 0;
  } catch (error) {
    known.error = error;
    wait = Math.max(Math.min(LONGEST_WAIT, EVERY * 2 ** failures), error.retryAfter * 1000);
    failures += 1;
  }
  isAsking = false;
  // Without a token, or without the scope, asking again changes nothing.
  if (![401, 403].includes(known.error?.status)) plan(wait);
  changed();
}

/** @param {Live} live */
function take(live) {
  known.live = live;
  known.ahead = stamp(live.at) - Date.now();
  known.version ||= live.process.version;
}

/** Asks at once, such as after a change. */
export function askNow() {
  failures = 0;
  plan(0);
}

export function pause(isPaused) {
  known.isPaused = isPaused;
  plan(0);
  changed();
}

/** Calls `watcher` after each answer and each error. */
export function start(watcher) {
  changed = watcher;
  document.addEventListener("visibilitychange", () => plan(0));
  plan(0);
}
