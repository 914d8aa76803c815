import assert from "node:assert/strict";
import { test } from "node:test";

import { FakeTollgate } from "tollgate-client/testing";

test("admits until it is told otherwise, and keeps the calls", async () => {
  const tollgate = new FakeTollgate();
  assert.equal((await tollgate.check("search", { user: "alice" }, { cost: 2 })).allowed, true);
  tollgate.deny("search", { retryAfterMs: 30_000, limit: 5, times: 1 });
  const denied = await tollgate.check("search", { user: "alice" });
  assert.deepEqual([denied.allowed, denied.status, denied.reason, denied.retryAfterMs, denied.limit], [false, 429, "quota_exceeded", 30_000, 5]);
  assert.equal((await tollgate.check("search")).allowed, true);
  assert.deepEqual(tollgate.calls[0], { operation: "check", name: "search", attributes: { user: "alice" }, cost: 2 });
  assert.equal(tollgate.calls.length, 3);
});

test("answers by itself after a failure, as the client does", async () => {
  const tollgate = new FakeTollgate({ names: { login: "closed" } });
  for (const name of ["search", "login"]) tollgate.fail(name, "timeout");
  assert.equal((await tollgate.check("search")).allowed, true);
  assert.deepEqual(await tollgate.check("login"), { allowed: false, source: "client", failure: "timeout", headers: {} });
  tollgate.admit("login");
  assert.equal((await tollgate.check("login")).source, "store");
  assert.deepEqual(tollgate.failures(), { timeout: 2 });
});

test("a wait takes no time, and ends", async () => {
  const tollgate = new FakeTollgate();
  tollgate.deny("crm", { retryAfterMs: 10_000, times: 2 });
  assert.equal((await tollgate.wait("crm", {}, { timeout: 60_000 })).allowed, true);
  assert.equal(tollgate.skippedMs, 20_000);
  const before = tollgate.calls.length;
  tollgate.deny("crm", { retryAfterMs: 10_000 });
  assert.equal((await tollgate.wait("crm", {}, { timeout: 55_000 })).allowed, false);
  assert.equal(tollgate.calls.length - before, 6);
});

test("plays holds and counts", async () => {
  const tollgate = new FakeTollgate();
  const hold = await tollgate.hold("render", { user: "alice" }, { cost: 9 });
  assert.deepEqual(await hold.settle(4), { status: "settled" });
  assert.deepEqual(tollgate.calls.map(({ operation, cost }) => [operation, cost]), [["reserve", 9], ["settle", 4]]);
  assert.equal((await tollgate.count("api", { key: "a" }, { quotas: ["5/1m"] })).allowed, true);
  assert.equal((await tollgate.count("api", { key: "a" }, { window: "1m" })).allowed, undefined);
  await assert.rejects(tollgate.check("search", { user: 5 }), TypeError);
});

test("denies counts as the service does", async () => {
  const tollgate = new FakeTollgate();
  tollgate.deny("api", { used: 6, limit: 5, retryAfterMs: 1_500 });
  assert.deepEqual(await tollgate.count("api", { key: "a" }, { quotas: ["5/1m"] }), {
    allowed: false, limit: 5, used: 6, retryAfterMs: 1_500, source: "store",
  });
  assert.deepEqual(await tollgate.count("api", { key: "a" }, { window: "1m" }), { limit: 5, used: 6, retryAfterMs: 1_500, source: "store" });
  const blocked = await tollgate.count("api", { key: "a" }, { quotas: ["5/1m@first_hit"], block: "1m" });
  assert.deepEqual([blocked.allowed, blocked.blocked, blocked.blockAfterMs], [false, true, 1_500]);
  assert.deepEqual(tollgate.failures(), {});
});

test("answers counts as the service does, by their operation and block", async () => {
  const tollgate = new FakeTollgate();
  const one = { quotas: ["5/1m@first_hit"] };
  const count = (options) => tollgate.count("api", { key: "a" }, options);
  assert.deepEqual(await count({ ...one, block: "1m" }), { allowed: true, blocked: false, used: 1, source: "store" });
  assert.deepEqual(await count({ window: "1m", operation: "get" }), { used: 0, source: "store" });
  tollgate.deny("api", { times: 3 });
  for (const options of [{ operation: "reset" }, { operation: "subtract" }, { operation: "set", used: 0 }]) {
    assert.deepEqual(await count({ ...one, ...options }), { used: 0, source: "store" });
  }
  assert.deepEqual(await count({ ...one, block: "1m", operation: "reset" }), { blocked: false, used: 0, source: "store" });
  const denied = await count({ ...one, block: "1m", operation: "get" });
  assert.deepEqual([denied.allowed, denied.blocked], [false, true]);
  // Stores of other limiters decide by this.
  assert.equal((await count({ window: "1m" })).used, 2 ** 40 - 1);
  assert.deepEqual([(await count(one)).allowed, (await count(one)).allowed], [false, true]);
});

test("a wait for 0 ms ends too", async () => {
  const tollgate = new FakeTollgate();
  tollgate.deny("crm", { retryAfterMs: 0 });
  assert.equal((await tollgate.wait("crm", {}, { timeout: 50 })).allowed, false);
  assert.ok(tollgate.calls.length <= 51, String(tollgate.calls.length));
});
