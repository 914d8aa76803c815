// Two processes of an app, the service that was built, and a Redis: exact, and up whatever happens to the service.
import assert from "node:assert/strict";
import { test } from "node:test";

import { app, redis, service, slowProxy } from "./servers.mjs";

const policies = `
policies:
  - { name: search, match: { action: search }, key: [user], quotas: [20/1h@first_hit] }
`;

const apps = [
  ["Express", "express.mjs"],
  ["Fastify", "fastify.mjs"],
  ["Hono", "hono.mjs"],
  ["express-rate-limit", "express-rate-limit.mjs"],
  ["Nest", "nestjs.mjs"],
];

for (const [framework, file] of apps) {
  test(`${framework}: two processes admit exactly 20 of 50 parallel requests`, async (t) => {
    const { url: store } = await redis(t);
    // No machine is so slow that a request passes without being counted.
    const args = ["--caller-quotas", "--store", store, "--store-timeout", "30s", "--store-connect-timeout", "30s"];
    const { url } = await service(t, { policies, args });
    const env = { TOLLGATE_URL: url, TIMEOUT: "60000", LIMIT: "20" };
    const [one, two] = await Promise.all([app(t, file, env), app(t, file, env)]);
    const calls = Array.from({ length: 50 }, (_, call) => fetch(`${[one, two][call % 2].url}/search`, { headers: { "x-user": "alice" } }));
    const statuses = (await Promise.all(calls)).map(({ status }) => status);
    assert.equal(statuses.filter((status) => status === 200).length, 20);
    assert.equal(statuses.filter((status) => status === 429).length, 30);
    for (const { url: base } of [one, two]) assert.deepEqual(await (await fetch(`${base}/failures`)).json(), {});
  });

  test(`${framework}: stays up while the service is slow, stopped and killed under load`, async (t) => {
    const { url: store } = await redis(t);
    const { url, child } = await service(t, { policies, args: ["--caller-quotas", "--store", store, "--store-timeout", "30s"] });
    const { url: proxied, delay } = await slowProxy(t, url);
    const { url: base } = await app(t, file, { TOLLGATE_URL: proxied, TIMEOUT: "300", LIMIT: "20" });
    const failures = async () => (await fetch(`${base}/failures`)).json();

    /** Sends requests from eight callers, and returns how many were admitted and the longest time. */
    async function load(requests) {
      let admitted = 0;
      let longest = 0;
      await Promise.all(Array.from({ length: 8 }, async () => {
        for (let request = 0; request < requests; request += 1) {
          const started = performance.now();
          const { status } = await fetch(`${base}/search`, { headers: { "x-user": "alice" } });
          longest = Math.max(longest, performance.now() - started);
          assert.ok(status === 200 || status === 429, `${status}`);
          if (status === 200) admitted += 1;
        }
      }));
      return { admitted, longest };
    }

    const passed = async () => Object.values(await failures()).reduce((sum, count) => sum + count, 0);
    const counted = await load(10);
    // A call that ran out of time may have been counted as well.
    assert.ok(counted.admitted - (await passed()) <= 20);

    for (const [fault, begin] of [
      ["slow", () => (delay.ms = 400)],
      ["stopped", () => { delay.ms = 0; child.kill("SIGSTOP"); }],
      ["killed", () => child.kill("SIGKILL")],
    ]) {
      const before = await passed();
      const running = load(10);
      begin();
      const { admitted, longest } = await running;
      // The limit is used up, so all that is admitted now had no answer, and is in the counts.
      assert.equal((await passed()) - before, admitted, fault);
      assert.ok(admitted > 0, fault);
      t.diagnostic(`${fault}: ${admitted} of 80 admitted without an answer, the slowest after ${Math.round(longest)} ms`);
      // Far above the timeout of 300 ms, for slow machines; without a timeout, a stopped service would hang for good.
      assert.ok(longest < 10_000, `${fault}: ${longest} ms`);
    }
    assert.deepEqual(Object.keys(await failures()).sort(), ["connection", "timeout"]);
  });
}
