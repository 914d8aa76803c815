// A store that hangs, and one that ends: the page says so within 3 s, and says when it is over.
import assert from "node:assert/strict";
import { test } from "node:test";
import { close, eventually, open, show } from "./browser.mjs";
import { Ledger } from "./ledger.mjs";
import { folder, redis, service } from "./programs.mjs";
import { facts, figure, number, strip, verdict } from "./reading.mjs";

const POLICIES = `
policies:
  - { name: search, match: { path: /search }, key: [user], quotas: [1000000/1d] }
`;
/** From the first answer without the store, or with it again, to the page. */
const LIMIT = 3000;
/** Between two checks. The service notices an outage only if somebody asks. */
const PACE = 25;

export function outage() {
  test("an outage of the store is shown within 3 s, and so is its end", async (t) => {
    let store = await redis(t);
    const { port } = store;
    const file = `${folder({ "tollgate.yaml": POLICIES })}/tollgate.yaml`;
    const server = await service(t, ["--config", file, "--store", store.url]);
    const load = new Load(t, server.checks);
    const seen = await open(t, `${server.admin}/ui/#/store`);
    const other = await open(t, `${server.admin}/`);
    await eventually(async () => assert.equal((await strip(seen.page)).Store.figure, "up"));

    const outages = [
      ["hangs", () => store.signal("SIGSTOP"), () => store.signal("SIGCONT")],
      ["ends", () => store.end(), async () => (store = await redis(t, port))],
    ];
    for (const [name, begin, end] of outages) {
      await t.test(`a store that ${name}`, async () => {
        await begin();
        const down = [
          within(seen, load.next("fallback"), async () => {
            assert.match((await strip(seen.page)).Store.figure, /^down/);
            assert.match(await seen.page.locator("main .notice").textContent(), /^The store does not answer/);
          }),
          within(other, load.next("fallback"), async () => {
            assert.match((await strip(other.page)).Store.figure, /^down/);
            assert.match(await verdict(other.page), /^Not protected\. The store has not answered/);
          }),
        ];
        // A server that hangs could not be ended either.
        await Promise.all(down).finally(end);
        const up = [
          within(seen, load.next("store"), async () => {
            assert.equal((await strip(seen.page)).Store.figure, "up");
            assert.equal(await seen.page.locator("main .notice").count(), 0);
          }),
          within(other, load.next("store"), async () => {
            assert.equal((await strip(other.page)).Store.figure, "up");
            assert.match(await verdict(other.page), /^Gaps\. .* passed without a count of the store\.$/);
          }),
        ];
        await Promise.all(up);
      });
    }

    await t.test("what passed without the store is counted", async () => {
      await load.end();
      const { ledger } = load;
      const uncounted = ledger.count(({ source }) => source === "fallback");
      assert.ok(uncounted > 0);
      await show(other, "#/policy/search");
      await eventually(async () => {
        const shown = await facts(other.page, "main dl.facts");
        assert.equal(shown["Allowed in the last minute"], figure(ledger.checks));
        assert.equal(number(shown["Without the store"]), uncounted);
      });
      await eventually(async () => {
        const { events } = other.answers.live;
        const kinds = events.map(({ kind }) => kind).filter((kind) => kind.startsWith("store"));
        assert.deepEqual(kinds, ["store_up", "store_down", "store_up", "store_down"]);
        const newest = events.slice(0, 4).map(({ text }) => text);
        assert.deepEqual(await other.page.locator("main ol.marks li bdi").allTextContents(), newest);
      });
    });

    await close(seen);
    await close(other);
  });
}

/** Fails unless it holds within the limit after `since` has happened. Time in which this process stood still is no time. */
async function within({ page }, since, holds) {
  await since;
  const watch = new Watch();
  for (;;) {
    try {
      await holds();
      return;
    } catch (error) {
      if (watch.elapsed() > LIMIT) throw new Error(`not within ${LIMIT} ms at ${page.url()}: ${error.message}`);
    }
    await watch.wait(20);
  }
}

class Watch {
  #begin = performance.now();
  #stood = 0;

  async wait(ms) {
    const before = performance.now();
    await new Promise((resolve) => setTimeout(resolve, ms));
    this.#stood += Math.max(0, performance.now() - before - 2 * ms);
  }

  elapsed() {
    return performance.now() - this.#begin - this.#stood;
  }
}

/** One client who asks all the time. */
class Load {
  #isOver = false;
  #waiting = [];

  constructor(t, url) {
    t.after(() => this.end());
    this.ledger = new Ledger(t, url);
    this.done = this.#run();
  }

  async #run() {
    while (!this.#isOver) {
      const { source } = await this.ledger.check({ path: "/search", user: "alice" });
      const met = this.#waiting.filter((one) => one.source === source);
      this.#waiting = this.#waiting.filter((one) => one.source !== source);
      met.forEach(({ resolve }) => resolve());
      await new Promise((resolve) => setTimeout(resolve, PACE));
    }
  }

  /** Waits for an answer with this source. */
  next(source) {
    return new Promise((resolve) => this.#waiting.push({ source, resolve }));
  }

  async end() {
    this.#isOver = true;
    await this.done;
  }
}
