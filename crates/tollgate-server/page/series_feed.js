// @ts-check
// The figures of one policy, or of all, over time: read once, and then only what is new.

import { ask, query } from "./api.js";

const FIGURES = ["allowed", "denied", "trial_denied", "by_fallback", "failed"];
export const TIERS = {
  "1s": { most: 600, every: 800, lengths: [1, 600] },
  "5m": { most: 288, every: 15_000, lengths: [300, 86_400] },
};

/** A feed. An empty name stands for all policies together. */
export class SeriesFeed {
  constructor(policy, tier) {
    this.tier = tier;
    this.policy = policy;
    this.points = none();
    /** @type {Mark[]} */
    this.marks = [];
    this.seq = 0;
    this.started = "";
    this.asked = -Infinity;
  }

  /**
   * Reads what is new, if it is time; everything if the process has started anew. Says whether it has read.
   * @param {Live} live
   */
  async read(live) {
    const { started } = live.process;
    this.marks = live.events;
    if (this.policy && !isRecorded(live, this.policy)) return false;
    const { most, every } = TIERS[this.tier];
    if (performance.now() - this.asked < every) return false;
    this.asked = Infinity;
    try {
      // The last one of the points of five minutes still grows: all are read again.
      const since = this.tier === "1s" && started === this.started && this.seq;
      const { body } = await ask(query("live/series", { policy: this.policy, tier: this.tier, since }));
      this.take(body, since ? this.points : none(), most);
      this.started = started;
      return true;
    } catch {
      // The strip says what is wrong.
      return false;
    } finally {
      this.asked = performance.now();
    }
  }

  /** @param {Series} answer @param {Points} points */
  take(answer, points, most) {
    const last = points.times.at(-1) ?? 0;
    answer.times.forEach((time, at) => {
      if (time <= last) return;
      points.times.push(time);
      for (const name of FIGURES) points[name].push(answer.series[0]?.[name][at] ?? null);
    });
    const over = Math.max(0, points.times.length - most);
    for (const name of ["times", ...FIGURES]) points[name].splice(0, over);
    Object.assign(this, { points, seq: answer.seq });
  }
}

/** Whether anything is recorded yet of this policy or domain: a new one has no series in its first second. @param {Live} live */
function isRecorded({ policies, envoy }, name) {
  const row = envoy ? envoy.domains.find(({ domain }) => domain === name) : policies.find((row) => row.name === name);
  return row?.checks.some((value) => value !== null) ?? false;
}

/** @returns {Points} */
const none = () => ({ times: [], allowed: [], denied: [], trial_denied: [], by_fallback: [], failed: [] });

/** The sums over groups of so many points. @param {Points} points */
export function groups(points, size) {
  const list = [];
  for (let from = 0; from < points.times.length; from += size) {
    const [allowed, denied, trial, fallback, failed] = FIGURES.map((name) =>
      points[name].slice(from, from + size).reduce((all, value) => all + value, 0),
    );
    list.push({ from: points.times[from] * 1000, allowed, denied, trial, fallback, failed, all: allowed + denied });
  }
  return list;
}
