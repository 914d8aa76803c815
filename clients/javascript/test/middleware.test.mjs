// Apps of each framework, in processes of their own, with the service that was built.
import assert from "node:assert/strict";
import { test } from "node:test";

import { app, service } from "./servers.mjs";

const policies = `
policies:
  - { name: search, match: { action: search }, key: [user], quotas: [2/1h@first_hit], headers: [x-ratelimit] }
  - { name: login, match: { action: /login }, key: [ip], quotas: [1/1h@first_hit] }
  - { name: users, match: { action: "/users/:id" }, key: [key], quotas: [1/1h@first_hit] }
`;

const frameworks = [
  ["Express 5", "express.mjs", { EXPRESS: "express" }],
  ["Express 4", "express.mjs", { EXPRESS: "express4" }],
  ["Fastify", "fastify.mjs", {}],
  ["Hono", "hono.mjs", {}],
];

for (const [framework, file, env] of frameworks) {
  test(framework, async (t) => {
    const { url, child } = await service(t, { policies });
    const { url: base } = await app(t, file, { ...env, TOLLGATE_URL: url });
    const search = (user) => fetch(`${base}/search`, { headers: { "x-user": user } });

    await t.test("passes limit headers on, and answers a denial with a problem", async () => {
      const first = await search("alice");
      assert.equal(first.status, 200);
      assert.equal(first.headers.get("x-ratelimit-remaining"), "1");
      assert.deepEqual(await first.json(), { found: 1 });
      await search("alice");
      const denied = await search("alice");
      assert.equal(denied.status, 429);
      assert.match(denied.headers.get("content-type"), /^application\/problem\+json/);
      assert.equal(denied.headers.get("cache-control"), "no-store");
      assert.equal(denied.headers.get("x-ratelimit-remaining"), "0");
      const wait = denied.headers.get("retry-after");
      assert.deepEqual(await denied.json(), {
        type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
        title: "Quota exceeded",
        status: 429,
        detail: `retry in ${wait} s`,
        "violated-policies": ["search"],
      });
      assert.ok(Number(wait) > 3_500, wait);
      assert.equal((await search("bob")).status, 200);
    });

    await t.test("names a limit by the template of the route", async () => {
      assert.equal((await fetch(`${base}/users/1`)).status, 200);
      assert.equal((await fetch(`${base}/users/2`)).status, 429);
    });

    await t.test("another spelling of the path does not pass a used-up limit", async () => {
      const spellings = framework === "Hono" ? ["/login", "/login/", "/%6Cogin"] : ["/login", "/LOGIN/", "/Login", "/%6Cogin", "/login?a"];
      const statuses = [];
      for (const path of spellings) statuses.push((await fetch(base + path, { method: "POST" })).status);
      assert.equal(statuses[0], 200);
      assert.ok(statuses.slice(1).every((status) => status === 429 || status === 404), statuses.join());
      assert.ok(statuses.includes(429));
    });

    await t.test("a key that is nothing is an error of the app", async () => {
      const broken = await fetch(`${base}/broken`);
      assert.equal(broken.status, 500);
      assert.match(await broken.text(), /`by` returned nothing/);
    });

    if (framework.startsWith("Express")) {
      await t.test("a route in a mounted router needs a name", async () => {
        const mounted = await fetch(`${base}/mounted/inner`);
        assert.equal(mounted.status, 500);
        assert.match(await mounted.text(), /give the middleware a name/);
      });
    }

    await t.test("without the service, admits by default and denies what is closed", async () => {
      child.kill("SIGKILL");
      assert.equal((await search("alice")).status, 200);
      const login = await fetch(`${base}/login`, { method: "POST" });
      assert.equal(login.status, 503);
      assert.equal(login.headers.get("retry-after"), null);
      assert.equal(login.headers.get("cache-control"), "no-store");
      assert.match(login.headers.get("content-type"), /^application\/problem\+json/);
      assert.deepEqual(await login.json(), { title: "Rate limiter unavailable", status: 503 });
      assert.deepEqual(await (await fetch(`${base}/failures`)).json(), { connection: 2 });
    });
  });
}
