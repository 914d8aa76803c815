// What the package has, and that all of it loads as ES modules and as CommonJS.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";

import { version } from "../dist/version.js";
import { service } from "./servers.mjs";

const require = createRequire(import.meta.url);
const described = JSON.parse(readFileSync(new URL("../package.json", import.meta.url)));
const entries = Object.keys(described.exports).map((entry) => entry.replace(".", described.name));

test("the version in requests is that of the package", () => {
  assert.equal(version, described.version);
});

for (const entry of entries) {
  test(`${entry} loads in both kinds of modules`, async () => {
    const required = require(entry);
    assert.ok(require.resolve(entry).includes("/dist/cjs/"));
    assert.deepEqual(Object.keys(required).sort(), Object.keys(await import(entry)).sort());
    assert.ok(Object.keys(required).length > 0);
  });
}

test("both kinds of modules resolve the same transports", () => {
  const { imports } = JSON.parse(readFileSync(new URL("../dist/cjs/package.json", import.meta.url)));
  const modules = Object.fromEntries(Object.entries(described.imports["#transport"]).map(([name, file]) => [name, file.replace("/dist/", "/")]));
  assert.deepEqual(imports, { "#transport": modules });
});

test("a client of CommonJS asks the service, and serves middleware of ES modules", async (t) => {
  const { url } = await service(t, { args: ["--limit", "1/1h", "--key", "user"] });
  const { Tollgate } = require("tollgate-client");
  const { rateLimit } = await import("tollgate-client/express");
  const tollgate = new Tollgate({ url, timeout: 10_000 });
  t.after(() => tollgate.close());
  assert.equal((await tollgate.check("search", { user: "alice" })).source, "store");
  const decided = (user) => new Promise((resolve) => {
    const request = { get: () => undefined, ip: "127.0.0.1", baseUrl: "" };
    const response = { set() {}, status: (status) => ({ type: () => ({ send: () => resolve(status) }) }) };
    rateLimit(tollgate, { name: "search", by: () => ({ user }) })(request, response, (error) => resolve(error ?? "next"));
  });
  assert.equal(await decided("alice"), 429);
  assert.equal(await decided("bob"), "next");
});
