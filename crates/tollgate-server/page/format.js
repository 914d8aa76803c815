// @ts-check
// Writes figures, times and foreign texts for people.

import { el } from "./dom.js";

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact" });
const MINUTE = { hour: "2-digit", minute: "2-digit" };
const clock = (parts) => new Intl.DateTimeFormat("en-GB", parts).format;

export const count = (value) => WHOLE.format(value);

/** A count for an axis up to `most`. */
export const short = (value, most = value) => (most < 10_000 ? WHOLE : SHORT).format(value);

/** A count with its noun: "1 check", "2 checks". */
export const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

export const rate = (value) => (value > 0 && value < 9.95 ? value.toFixed(1) : count(value));

/** A share in percent that is 0 or 100 only if it is exactly that. */
export function share(part, whole = 1) {
  if (!(whole > 0)) return "–";
  const percent = (part / whole) * 100;
  if (percent <= 0 || percent >= 100) return percent > 0 ? "100 %" : "0 %";
  if (percent < 0.01) return "< 0.01 %";
  return percent > 99.9 ? "> 99.9 %" : `${percent.toFixed(percent < 0.995 ? 2 : 1)} %`;
}

export const millis = (value) => (value === undefined ? "–" : `${value.toFixed(value < 10 ? 2 : 0)} ms`);

/** A length of time, in its two largest units. */
export function length(ms) {
  if (ms > 0 && ms < 1000) return `${Math.round(ms)} ms`;
  const s = Math.max(0, Math.floor(ms / 1000));
  const parts = [
    [s / 86400, "d"],
    [(s / 3600) % 24, "h"],
    [(s / 60) % 60, "min"],
    [s % 60, "s"],
  ].map(([size, unit]) => [Math.floor(+size), unit]);
  const first = parts.findIndex(([size]) => size);
  return first < 0
    ? "0 s"
    : parts
        .slice(first, first + 2)
        .filter(([size]) => size)
        .map((part) => part.join(" "))
        .join(" ");
}

/** The span of the sums, in words. */
export const lately = (seconds) => (seconds === 60 ? "the last minute" : `the last ${length(seconds * 1000)}`);

export const hour = clock(MINUTE);
export const second = clock({ ...MINUTE, second: "2-digit" });
const day = clock({ day: "numeric", month: "short", ...MINUTE });

/** Unix milliseconds of a time in an answer: a text or a number. */
export const stamp = (time) => (typeof time === "number" ? time : Date.parse(time));

/** A moment in the zone of the reader, with its day unless it is near; UTC is in its title. */
export function moment(time, now) {
  const ms = stamp(time);
  return el("time", { title: new Date(ms).toISOString() }, Math.abs(now - ms) < 43_200_000 ? second(ms) : day(ms));
}

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Writes control and direction characters out, and cuts what is very long. */
export function clean(text, most = 200) {
  const letters = [...text];
  const more = letters.length > most ? `… (${count(letters.length)} characters)` : "";
  return (
    letters
      .slice(0, most)
      .join("")
      .replace(HIDDEN, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`) + more
  );
}

/** A text that clients chose, as it is. */
export function foreign(text, most = 200) {
  const node = el("bdi.foreign");
  node.textContent = clean(text, most);
  return node;
}

/** A sentence of the service, which may quote a text that others chose. */
export const told = (text) => el("bdi", clean(text, 2000));
