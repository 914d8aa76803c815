// A Nest app whose throttlers count in the service that was built.
import assert from "node:assert/strict";
import { test } from "node:test";

import { app, service } from "./servers.mjs";

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
  // The storage refuses a block that it cannot count, in place of another one.
  assert.equal((await get("blocking", "alice")).status, 500);
  child.kill("SIGKILL");
  assert.equal((await get("search", "alice")).status, 200);
  assert.deepEqual(await (await get("failures", "alice")).json(), { connection: 1 });
});

test("a Nest app that is closed answers 503 without the service", async (t) => {
  const { url, child } = await service(t, { args });
  const { url: base } = await app(t, "nestjs.mjs", { TOLLGATE_URL: url, TIMEOUT: "10000", ON_FAILURE: "closed" });
  assert.equal((await fetch(`${base}/search`)).status, 200);
  child.kill("SIGKILL");
  assert.equal((await fetch(`${base}/search`)).status, 503);
});
