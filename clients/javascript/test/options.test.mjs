import assert from "node:assert/strict";
import { test } from "node:test";

import { Tollgate } from "tollgate-client";

const quiet = { warn() {} };
const client = new Tollgate({ url: "http://127.0.0.1:1", logger: quiet });

for (const url of [
  "", "localhost:8080", "ftp://localhost", "http://", "http://user@host", "http://user:pass@host", "http://host/path", "http://host?",
  "http://host/?a", "http://host#", "http://host:0", "http://host:65536", "http://host:x", "http:\\\\host", " http://host",
  "http://host\n", "http://ho st", "http://[::1", "http://256.1.1.1", "http://a..b_-:1", "unix:/", "unix:", "unix:relative", "unix://host/path", "unix:/a?b",
  `unix:/${"a".repeat(107)}`, 8080, null,
]) {
  test(`refuses the url ${JSON.stringify(url)?.slice(0, 30)}`, () => {
    assert.throws(() => new Tollgate({ url }), { name: "TypeError", message: /^url .*write http:\/\/HOST:PORT/ });
  });
}

test("accepts hosts, addresses and paths of sockets", () => {
  for (const url of ["http://localhost", "https://tollgate.example:8443/", "http://[::1]:8080", "http://my_host.svc", "unix:/run/tollgate.sock"]) {
    new Tollgate({ url }).close();
  }
});

test("an error does not show a password", () => {
  assert.throws(() => new Tollgate({ url: "http://alice:canary@host" }), (error) => !error.message.includes("canary"));
});

for (const [options, named] of [
  [{ token: "" }, "token"], [{ token: "a b" }, "token"], [{ token: "a\n" }, "token"], [{ token: "ä" }, "token"], [{ token: 5 }, "token"],
  [{ timeout: 0 }, "timeout"], [{ timeout: 60_001 }, "timeout"], [{ timeout: NaN }, "timeout"], [{ timeout: "250" }, "timeout"],
  [{ onFailure: "Open" }, "onFailure"], [{ names: { login: true } }, "names.login"],
  [{ maxConnections: 0 }, "maxConnections"], [{ maxConnections: 1.5 }, "maxConnections"],
  [{ logger: {} }, "logger"], [{ time_out: 5 }, "time_out"],
]) {
  test(`refuses the option ${JSON.stringify(options)}`, () => {
    assert.throws(() => new Tollgate(options), (error) => error instanceof TypeError && error.message.includes(named));
  });
}

for (const [attributes, named] of [
  [{ user: 5 }, "user"], [{ user: null }, "user"], [{ user: undefined }, "user"], [{ user: {} }, "user"], [{ user: ["a", 1] }, "user"],
  [{ user: "\ud800" }, "user"], [{ user: "x".repeat(1025) }, "user"], [{ action: "search" }, "action"], [["user"], "attributes"], ["user", "attributes"], [null, "attributes"],
]) {
  test(`refuses the attributes ${JSON.stringify(attributes)}`, async () => {
    await assert.rejects(client.check("search", attributes), (error) => error instanceof TypeError && error.message.includes(named));
  });
}

test("refuses names, costs and options that are wrong", async () => {
  const wrong = [
    () => client.check(""), () => client.check(), () => client.check(5),
    () => client.check("a", {}, { cost: -1 }), () => client.check("a", {}, { cost: 1.5 }), () => client.check("a", {}, { cost: 2 ** 53 }),
    () => client.check("a", {}, { costs: 1 }), () => client.check("a", {}, null), () => client.wait("a", {}, { timeout: 0 }),
    () => client.reserve("a", {}, { units: -1 }), () => client.reserve("a", {}, { expiresAfter: 3_600_001 }),
    () => client.hold("a", {}, { releaseOnError: true }), () => client.hold("a", {}, {}, "work"),
    () => client.count("a", { key: "k" }, {}), () => client.count("a", { key: "k" }, { quotas: ["5/1m"], window: "1m" }),
    () => client.count("a", { key: "k" }, { window: "1m", used: 1 }), () => client.count("a", { key: "k" }, { window: "1m", operation: "set" }),
    () => client.count("a", { key: "k" }, { window: "1m", operation: "increment" }), () => client.count("a", { key: "k" }, { quotas: "5/1m" }),
    () => client.count("a", { key: "k" }, { window: "1m", block: "30s" }), () => client.count("a", { key: "k" }, { quotas: ["5/1m", "9/1h"], block: "30s" }),
    () => client.count("a", { key: "k" }, { quotas: ["5/1m"], block: "30s", operation: "subtract" }), () => client.count("a", { key: "k" }, { quotas: ["5/1m"], block: 30 }),
  ];
  for (const call of wrong) await assert.rejects(call, TypeError, call.toString());
  assert.deepEqual(client.failures(), {});
});
