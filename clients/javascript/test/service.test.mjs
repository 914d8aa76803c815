// The client against the service that was built.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Tollgate } from "tollgate-client";
import { service } from "./servers.mjs";

const policies = `
policies:
  - { name: search, match: { action: search }, key: [user], quotas: [2/1m@first_hit], headers: [x-ratelimit] }
  - { name: render, match: { action: render }, key: [user], quotas: [100/1m@first_hit, "2~in_flight:30s"] }
`;

async function clientOf(t, options = {}) {
  const { url } = await service(t, { policies, args: ["--caller-quotas"] });
  const client = new Tollgate({ url, timeout: 10_000, logger: { warn: (line) => t.diagnostic(line) }, ...options });
  t.after(() => client.close());
  return client;
}

test("checks and peeks until the limit is used up", async (t) => {
  const client = await clientOf(t);
  const user = "alice";
  assert.equal((await client.check("search", { user })).remaining, 1);
  assert.equal((await client.peek("search", { user }, { cost: 2 })).allowed, false);
  const last = await client.check("search", { user });
  assert.deepEqual([last.allowed, last.status, last.limit, last.used, last.policy, last.quota], [true, 200, 2, 2, "search", "2/1m@first_hit"]);
  const denied = await client.check("search", { user });
  assert.deepEqual([denied.allowed, denied.status, denied.reason, denied.source], [false, 429, "quota_exceeded", "store"]);
  assert.ok(denied.retryAfterMs > 0 && denied.retryAfterMs <= 60_000);
  assert.equal((await client.check("search", { user: "bob" })).allowed, true);
  assert.deepEqual(client.failures(), {});
});

test("reaches the service at a unix socket", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-js-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const { url } = await service(t, { args: ["--limit", "2/1h"], listen: `unix:${folder}/tollgate.sock` });
  assert.match(url, /^unix:/);
  const client = new Tollgate({ url, timeout: 10_000 });
  t.after(() => client.close());
  const decisions = await Promise.all([1, 2, 3].map(() => client.check("search", { user: "alice" })));
  assert.deepEqual(decisions.map(({ allowed }) => allowed).sort(), [false, true, true]);
});

test("a request that the policy cannot decide is a failure, with its detail in the log", async (t) => {
  const lines = [];
  const client = await clientOf(t, { logger: { warn: (line) => lines.push(line) } });
  assert.deepEqual(await client.check("search", {}), { allowed: true, source: "client", failure: "refused", headers: {} });
  assert.match(lines[0], /`user` is missing/);
});

test("holds limit what is in flight, and settle at the actual cost", async (t) => {
  const client = await clientOf(t);
  const user = "alice";
  const one = await client.hold("render", { user }, { cost: 10 });
  const two = await client.hold("render", { user }, { cost: 10 });
  const three = await client.hold("render", { user }, { cost: 10 });
  assert.deepEqual([one.allowed, two.allowed, three.allowed], [true, true, false]);
  assert.equal(three.decision.reason, "in_flight_exceeded");
  assert.equal((await one.renew()).status, "renewed");
  assert.deepEqual(await one.settle(4), { status: "settled" });
  assert.deepEqual(await two.release(), { status: "settled" });
  const four = await client.reserve("render", { user });
  assert.equal(four.decision.used, 5);
  await four.close();
});

test("counts past the limit, gives back, sets and resets", async (t) => {
  const client = await clientOf(t);
  const key = { key: "a" };
  const window = "1m@first_hit";
  for (let used = 1; used <= 3; used += 1) {
    const count = await client.count("downloads", key, { quotas: [`2/${window}`] });
    assert.deepEqual([count.allowed, count.used, count.policy, count.quota], [used <= 2, used, "downloads:caller", `2/${window}`]);
  }
  assert.equal((await client.count("downloads", key, { window, operation: "subtract", cost: 2 })).used, 1);
  assert.equal((await client.count("downloads", key, { window, operation: "set", used: 9 })).used, 9);
  const state = await client.count("downloads", key, { window, operation: "get" });
  assert.deepEqual([state.used, state.series, state.window.end - state.window.start], [9, window, 60_000]);
  await client.count("downloads", key, { window, operation: "reset" });
  assert.equal((await client.count("downloads", key, { window, operation: "get" })).used, 0);
});
