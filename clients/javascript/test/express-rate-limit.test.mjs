// The store of express-rate-limit, with the service that was built.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Tollgate } from "tollgate-client";
import { TollgateStore } from "tollgate-client/express-rate-limit";
import { app, keptLines, reply, scripted, service } from "./servers.mjs";

const start = (t) => service(t, { args: ["--limit", "5/1m", "--caller-quotas"] });

function storeOf(t, url, { windowMs = 3_600_000, ...options } = {}) {
  const tollgate = new Tollgate({ url, timeout: 10_000, logger: keptLines() });
  t.after(() => tollgate.close());
  const store = new TollgateStore(tollgate, { name: "hits", ...options });
  store.init({ windowMs });
  return store;
}

test("increments, decrements, reads and resets each key by itself", async (t) => {
  const { url } = await start(t);
  const store = storeOf(t, url);
  const before = Date.now();
  const first = await store.increment("a");
  assert.equal(first.totalHits, 1);
  const left = first.resetTime.getTime() - before;
  assert.ok(left > 3_590_000 && left < 3_610_000, `${left}`);
  const second = await store.increment("a");
  assert.equal(second.totalHits, 2);
  assert.ok(Math.abs(second.resetTime - first.resetTime) < 1_000, "the window began with the first hit");
  await store.increment("b");
  await store.decrement("a");
  assert.equal((await store.get("a")).totalHits, 1);
  await store.decrement("a");
  await store.decrement("a");
  assert.equal(await store.get("a"), undefined);
  await store.increment("a");
  await store.resetKey("a");
  assert.equal(await store.get("a"), undefined);
  assert.equal((await store.get("b")).totalHits, 1);
});

test("counts in every process, and begins again after the window", async (t) => {
  const { url } = await start(t);
  const [one, two] = [storeOf(t, url, { windowMs: 1_000 }), storeOf(t, url, { windowMs: 1_000 })];
  const hits = await Promise.all([one, two, one, two].map((store) => store.increment("a")));
  assert.deepEqual(hits.map(({ totalHits }) => totalHits).sort(), [1, 2, 3, 4]);
  await sleep(hits[0].resetTime - Date.now() + 50);
  assert.equal((await two.increment("a")).totalHits, 1);
});

test("keys of any length and content are counted apart", async (t) => {
  const { url } = await start(t);
  const store = storeOf(t, url);
  const long = "x".repeat(5_000);
  for (const key of [long, `${long}y`, "\ud800", "ä\u0000\n", "a:b", "sha256:"]) {
    assert.equal((await store.increment(key)).totalHits, 1, JSON.stringify(key).slice(0, 20));
    assert.equal((await store.increment(key)).totalHits, 2);
  }
});

test("without an answer, a request is a first hit, or an error if it is closed", async (t) => {
  const { url } = await scripted(t, (socket) => socket.write(reply(503, { detail: "no", reason: "store_unavailable" })));
  const open = storeOf(t, url);
  for (let hit = 0; hit < 3; hit += 1) assert.equal((await open.increment("a")).totalHits, 1);
  assert.equal(await open.get("a"), undefined);
  await open.decrement("a");
  await open.resetKey("a");
  await assert.rejects(storeOf(t, url, { onFailure: "closed" }).increment("a"), { status: 503 });
});

test("an uncounted answer during an outage of the store is a first hit", async (t) => {
  const { url } = await scripted(t, (socket) => socket.write(reply(200, { policy: "hits:caller", series: "1h@first_hit", source: "fallback" })));
  const { totalHits, resetTime } = await storeOf(t, url).increment("a");
  assert.equal(totalHits, 1);
  assert.ok(resetTime > new Date());
});

test("refuses a second window, and to count without one", async (t) => {
  const { url } = await scripted(t, () => {});
  const store = storeOf(t, url);
  assert.throws(() => store.init({ windowMs: 1_000 }), /another windowMs/);
  assert.throws(() => new TollgateStore(new Tollgate({ url }), {}), TypeError);
  await assert.rejects(new TollgateStore(new Tollgate({ url }), { name: "hits" }).increment("a"), TypeError);
});

test("an app of express-rate-limit keeps its answers", async (t) => {
  const { url, child } = await start(t);
  const { url: base, output } = await app(t, "express-rate-limit.mjs", { TOLLGATE_URL: url });
  const get = (path, user) => fetch(base + path, { headers: { "x-user": user } });
  const first = await get("/search", "alice");
  assert.deepEqual([first.status, first.headers.get("ratelimit-limit"), first.headers.get("ratelimit-remaining")], [200, "2", "1"]);
  await get("/search", "alice");
  assert.equal((await get("/search", "alice")).status, 429);
  assert.equal((await get("/search", "bob")).status, 200);
  for (let request = 0; request < 3; request += 1) {
    assert.equal((await get("/successes", "alice")).status, 200);
    // The hit is given back after the response has ended.
    await sleep(100);
  }
  child.kill("SIGKILL");
  assert.equal((await get("/search", "alice")).status, 200);
  assert.equal((await get("/login", "alice")).status, 503);
  assert.doesNotMatch(output, /ERR_ERL/);
});
