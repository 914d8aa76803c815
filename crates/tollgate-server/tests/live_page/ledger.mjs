// Asks the service as clients do, and keeps an account of what it answered. The page is judged by this account.
import { Agent, request } from "node:http";

/** Of checks at the same time, talkers may leave one out, so they come one after another. */
const AT_ONCE = 1;
/** A check whose answer takes so long counts as unanswered, and fails the test. */
const PATIENCE = 10_000;

export class Ledger {
  /** @param {string} url the listener of checks */
  constructor(t, url, token) {
    t.after(() => this.agent.destroy());
    this.url = url;
    this.token = token;
    this.agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });
    /** One entry for each answered check: its policy, client, verdict, source and trials. */
    this.entries = [];
    /** What came back, whole. */
    this.replies = [];
  }

  /** Checks once. */
  async check(attributes) {
    const { status, text } = await this.post("/v1/check", { attributes });
    const answer = JSON.parse(text);
    if (status !== 200 && status !== 429) throw new Error(`a check was answered ${status}: ${text}`);
    const { source, trials = [], ground } = answer;
    this.entries.push({ at: Date.now(), attributes, isAllowed: status === 200, source, ground, trials });
    return answer;
  }

  /** Checks all of these, some at a time. */
  async checkAll(list) {
    const waiting = [...list];
    const worker = async () => {
      while (waiting.length) await this.check(waiting.shift());
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  }

  /** Sends a body, and keeps the reply. */
  post(path, body) {
    return new Promise((resolve, reject) => {
      const headers = { "Content-Type": "application/json" };
      if (this.token) headers.Authorization = `Bearer ${this.token}`;
      const options = { method: "POST", agent: this.agent, headers, timeout: PATIENCE };
      const asked = request(this.url + path, options, (reply) => {
        let text = "";
        reply.setEncoding("utf8");
        reply.on("data", (part) => (text += part));
        reply.on("end", () => {
          this.replies.push(text);
          resolve({ status: reply.statusCode, text });
        });
      });
      asked.on("timeout", () => asked.destroy(new Error("a check was not answered")));
      asked.on("error", reject);
      asked.end(typeof body === "string" ? body : JSON.stringify(body));
    });
  }

  get checks() {
    return this.entries.length;
  }

  /** How many entries are so. */
  count(isSo) {
    return this.entries.filter(isSo).length;
  }

  /** Of the checks with this path: how many there were, were allowed, and were denied. */
  of(path) {
    const here = this.entries.filter(({ attributes }) => attributes.path === path);
    const allowed = here.filter(({ isAllowed }) => isAllowed).length;
    return { checks: here.length, allowed, denied: here.length - allowed };
  }

  /** How often each value of this attribute came with this path, the most frequent first. */
  talkers(path, name, isSo = () => true) {
    const counts = new Map();
    for (const entry of this.entries) {
      const { attributes } = entry;
      if (attributes.path === path && isSo(entry)) {
        counts.set(attributes[name], (counts.get(attributes[name]) ?? 0) + 1);
      }
    }
    return [...counts].map(([key, count]) => ({ key, count })).sort((a, b) => b.count - a.count);
  }

  /** How many trials of this policy would have denied, of the entries that are so. */
  deniedOnTrial(policy, isSo = () => true) {
    const denies = ({ trials }) => trials.some((trial) => trial.policy === policy && trial.answer === "denied");
    return this.count((entry) => isSo(entry) && denies(entry));
  }
}
