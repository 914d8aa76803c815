// A Nest app whose throttlers count in the service that was built.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import "reflect-metadata";
import { ThrottlerStorageService } from "@nestjs/throttler";
import { Tollgate } from "tollgate-client";
import { TollgateThrottlerStorage } from "tollgate-client/nestjs";
import { FakeTollgate } from "tollgate-client/testing";
import { app, freePort, keptLines, redis, service } from "./servers.mjs";

const args = ["--limit", "5/1m", "--caller-quotas"];

test("a Nest app keeps its answers", async (t) => {
  const { url, child } = await service(t, { args });
  const { url: base } = await app(t, "nestjs.mjs", { TOLLGATE_URL: url, TIMEOUT: "10000" });
  const get = (path, user) => fetch(`${base}/${path}`, { headers: { "x-user": user } });
  const first = await get("search", "alice");
  assert.deepEqual([first.status, first.headers.get("x-ratelimit-limit"), first.headers.get("x-ratelimit-remaining")], [200, "2", "1"]);
  await get("search", "alice");
  const denied = await get("search", "alice");
  assert.equal(denied.status, 429);
  assert.ok(Number(denied.headers.get("retry-after")) > 3_500);
  assert.equal((await get("search", "bob")).status, 200);
  assert.deepEqual([(await get("login", "alice")).status, (await get("login", "alice")).status], [200, 429]);
  assert.deepEqual([(await get("windowed", "alice")).status, (await get("windowed", "alice")).status], [200, 429]);
  assert.equal((await get("blocking", "alice")).status, 200);
  const blocked = await get("blocking", "alice");
  assert.deepEqual([blocked.status, blocked.headers.get("retry-after")], [429, "1"]);
  await sleep(1_050);
  const anew = await get("blocking", "alice");
  assert.deepEqual([anew.status, anew.headers.get("x-ratelimit-remaining")], [200, "0"]);
  assert.deepEqual(await (await get("failures", "alice")).json(), {});
  child.kill("SIGKILL");
  assert.equal((await get("search", "alice")).status, 200);
  assert.deepEqual(await (await get("failures", "alice")).json(), { connection: 1 });
});

test("a Nest app that is closed answers 503 without the service", async (t) => {
  const { url, child } = await service(t, { args });
  const { url: base } = await app(t, "nestjs.mjs", { TOLLGATE_URL: url, TIMEOUT: "10000", ON_FAILURE: "closed" });
  assert.equal((await fetch(`${base}/search`)).status, 200);
  child.kill("SIGKILL");
  const denial = await fetch(`${base}/search`);
  assert.equal(denial.status, 503);
  assert.deepEqual(await denial.json(), { statusCode: 503, message: "limits cannot be checked now" });
});

test("the error of a closed storage is one of Nest, which would log each other one with a stack", async () => {
  const { HttpException } = await import("@nestjs/common");
  const tollgate = new Tollgate({ url: `http://127.0.0.1:${await freePort()}`, logger: keptLines() });
  const storage = new TollgateThrottlerStorage(tollgate, { name: "nest", onFailure: "closed" });
  await assert.rejects(storage.increment("key", 60_000, 5, 0, "default"), (error) => error instanceof HttpException && error.getStatus() === 503);
  tollgate.close();
});

/** What the storage of @nestjs/throttler itself promises, with times in milliseconds. */
const promises = {
  async "the hit that exceeds the limit starts a block, in which hits are not counted"(storage) {
    const hit = () => storage.increment("key", 10_000, 2, 5_000, "default");
    assert.deepEqual(verdict(await hit()), [1, false]);
    assert.deepEqual(verdict(await hit()), [2, false]);
    for (let denied = 0; denied < 3; denied += 1) {
      const record = await hit();
      assert.deepEqual([...verdict(record), record.timeToBlockExpire], [3, true, 5]);
    }
  },
  async "after a block that is shorter than the window, counting starts over"(storage) {
    const hit = () => storage.increment("key", 60_000, 1, 400, "default");
    await hit();
    assert.deepEqual(verdict(await hit()), [2, true]);
    await sleep(200);
    assert.deepEqual(verdict(await hit()), [2, true]);
    await sleep(250);
    const record = await hit();
    assert.deepEqual([...verdict(record), record.timeToExpire], [1, false, 60]);
    assert.deepEqual(verdict(await hit()), [2, true]);
  },
  async "a block that is longer than the window lasts"(storage) {
    const hit = () => storage.increment("key", 100, 1, 1_000, "default");
    await hit();
    await hit();
    await sleep(400);
    // The storage in memory has forgotten the hits by now.
    assert.equal((await hit()).isBlocked, true);
    await sleep(650);
    assert.deepEqual(verdict(await hit()), [1, false]);
  },
  async "without a hit above the limit, the window ends"(storage) {
    const hit = () => storage.increment("key", 200, 1, 5_000, "default");
    await hit();
    await sleep(250);
    assert.deepEqual(verdict(await hit()), [1, false]);
  },
  async "keys are blocked apart"(storage) {
    const hit = (key) => storage.increment(key, 10_000, 1, 5_000, "default");
    await hit("one");
    assert.deepEqual(verdict(await hit("one")), [2, true]);
    assert.deepEqual(verdict(await hit("other")), [1, false]);
  },
  async "limits that are no whole numbers have their meaning"(storage) {
    const hit = (key, limit) => storage.increment(key, 10_000, limit, 5_000, "default");
    assert.deepEqual(verdict(await hit("none", 0)), [1, true]);
    assert.deepEqual(verdict(await hit("below", -1)), [1, true]);
    assert.deepEqual(verdict(await hit("half", 1.5)), [1, false]);
    assert.deepEqual(verdict(await hit("half", 1.5)), [2, true]);
    for (let used = 1; used < 4; used += 1) assert.deepEqual(verdict(await hit("all", Infinity)), [used, false]);
  },
};

function verdict({ totalHits, isBlocked }) {
  return [totalHits, isBlocked];
}

const storages = {
  "the storage of @nestjs/throttler"(t) {
    const storage = new ThrottlerStorageService();
    t.after(() => storage.onApplicationShutdown());
    return storage;
  },
  "this storage, in memory": (t) => storageOf(t, args),
  async "this storage, in Redis"(t) {
    return storageOf(t, [...args, "--store", (await redis(t)).url]);
  },
};

async function storageOf(t, args) {
  const { url } = await service(t, { args });
  const tollgate = new Tollgate({ url, timeout: 10_000, onFailure: "closed" });
  t.after(() => tollgate.close());
  return new TollgateThrottlerStorage(tollgate, { name: "nest" });
}

// 6.0.0 rounds a block down to whole seconds.
const { version } = createRequire(import.meta.url)("@nestjs/throttler/package.json");
if (version === "6.0.0") {
  delete storages["the storage of @nestjs/throttler"];
  test(`the storage of @nestjs/throttler ${version}`, { skip: "it rounds a block down to whole seconds" }, () => {});
}

for (const [storage, open] of Object.entries(storages)) {
  for (const [promise, play] of Object.entries(promises)) {
    test(`${storage}: ${promise}`, async (t) => play(await open(t)));
  }
}

test("throttlers are blocked apart, and with a blockDuration of 0 until the window ends", async (t) => {
  const storage = await storageOf(t, args);
  const hit = (throttler, block) => storage.increment("key", 2_000, 1, block, throttler);
  await hit("short", 5_000);
  assert.deepEqual(verdict(await hit("short", 5_000)), [2, true]);
  assert.deepEqual(verdict(await hit("long", 0)), [1, false]);
  const record = await hit("long", 0);
  assert.deepEqual([...verdict(record), record.timeToBlockExpire], [2, true, 2]);
  await sleep(2_050);
  assert.deepEqual(verdict(await hit("long", -1)), [1, false]);
});

test("times that no window has are errors", async (t) => {
  const storage = await storageOf(t, args);
  for (const [ttl, block] of [[0, 1], [1.5, 1], [60_000, 0.5], [4e11, 1], [1, 4e11]]) {
    await assert.rejects(storage.increment("key", ttl, 1, block, "default"), /(ttl|blockDuration) of the throttler default must be/);
  }
});

test("a fake denies throttlers", async () => {
  const tollgate = new FakeTollgate();
  const storage = new TollgateThrottlerStorage(tollgate, { name: "nest" });
  const hit = (block) => storage.increment("key", 60_000, 5, block, "default");
  assert.deepEqual(verdict(await hit(60_000)), [1, false]);
  tollgate.deny("nest", { used: 6, retryAfterMs: 1_500 });
  assert.deepEqual(await hit(60_000), { totalHits: 6, timeToExpire: 60, isBlocked: true, timeToBlockExpire: 2 });
  assert.deepEqual(verdict(await hit(0)), [6, true]);
  tollgate.admit("nest");
  tollgate.deny("nest");
  assert.deepEqual([(await hit(0)).isBlocked, (await hit(60_000)).isBlocked], [true, true]);
  const closed = new TollgateThrottlerStorage(new FakeTollgate(), { name: "nest", onFailure: "closed" });
  assert.equal((await closed.increment("key", 60_000, 5, 0, "default")).isBlocked, false);
});
