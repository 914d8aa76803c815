// What goes over the wire, against a server that answers what a test says.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Tollgate } from "tollgate-client";
import { keptLines, reply, scripted } from "./servers.mjs";

const admitted = { allowed: true, policy: "p", quota: "5/1m", limit: 5, used: 1, remaining: 4, reset_after_ms: 30_000, source: "store", version: 1 };

function clientOf(t, url, options = {}) {
  const client = new Tollgate({ url, timeout: 5_000, logger: keptLines(), ...options });
  t.after(() => client.close());
  return client;
}

test("sends a check with its name, and nothing that has its default", async (t) => {
  const { url, seen } = await scripted(t, (socket) => socket.write(reply(200, admitted)));
  const client = clientOf(t, url, { token: "secret" });
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const decision = await client.check("search", { user: "ä\n", paid: true, groups: ["a", "b"] }, { traceparent });
  assert.deepEqual(decision, {
    allowed: true, status: 200, limit: 5, used: 1, remaining: 4, resetAfterMs: 30_000, policy: "p", quota: "5/1m", source: "store", headers: {},
  });
  const [{ head, json }] = seen.requests;
  assert.deepEqual(json, { attributes: { action: "search", user: "ä\n", paid: true, groups: ["a", "b"] } });
  assert.match(head, /^POST \/v1\/check HTTP\/1\.1\r\n/);
  assert.match(head, /\r\nAuthorization: Bearer secret(\r\n|$)/);
  assert.match(head, /\r\nContent-Type: application\/json(\r\n|$)/);
  assert.match(head, /\r\nUser-Agent: tollgate-javascript\/\d+\.\d+\.\d+(\r\n|$)/);
  assert.match(head, new RegExp(`\r\ntraceparent: ${traceparent}(\r\n|$)`));
  assert.doesNotMatch(head, /idempotency|tracestate|transfer-encoding/i);
});

test("a body with a verdict is a decision, whatever the status", async (t) => {
  const { url } = await scripted(t, (socket) => {
    const headers = "RateLimit: \"p\";r=0\r\nRetry-After: 7\r\nX-RateLimit-Limit: 5\r\nSet-Cookie: a=b\r\n";
    socket.write(reply(503, { ...admitted, allowed: false, reason: "quota_exceeded", retry_after_ms: 6_500 }, headers));
  });
  const decision = await clientOf(t, url).check("search");
  assert.equal(decision.allowed, false);
  assert.equal(decision.status, 503);
  assert.equal(decision.retryAfterMs, 6_500);
  assert.deepEqual(decision.headers, { ratelimit: "\"p\";r=0", "retry-after": "7", "x-ratelimit-limit": "5" });
});

for (const [kind, name, answer] of [
  ["refused", "a problem of 400", reply(400, { detail: "no" })],
  ["refused", "a redirect", reply(307, "", "Location: http://127.0.0.1:9/\r\n")],
  ["unavailable", "a problem of 503", reply(503, { detail: "no" })],
  ["unavailable", "a page of 502", reply(502, "<html>")],
  ["invalid", "a page", reply(200, "<html>")],
  ["invalid", "a list", reply(200, "[true]")],
  ["invalid", "a verdict that is a text", reply(200, { allowed: "true" })],
  ["invalid", "no HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n"],
  ["invalid", "an answer of 2 MiB", reply(200, JSON.stringify({ allowed: true, filler: "x".repeat(2 << 20) }))],
]) {
  test(`${name} is a failure of the kind ${kind}`, async (t) => {
    const { url, seen } = await scripted(t, (socket) => socket.write(answer));
    const client = clientOf(t, url, { names: { login: "closed" } });
    assert.deepEqual(await client.check("search"), { allowed: true, source: "client", failure: kind, headers: {} });
    assert.deepEqual(await client.check("login"), { allowed: false, source: "client", failure: kind, headers: {} });
    assert.deepEqual(client.failures(), { [kind]: 2 });
    assert.equal(seen.requests.length, 2);
  });
}

for (const reason of ["store_unavailable", "outcome_unknown", "store_full"]) {
  test(`denies after ${reason}, also if the caller said open`, async (t) => {
    const { url } = await scripted(t, (socket) => socket.write(reply(503, { detail: "no", reason })));
    const client = clientOf(t, url, { onFailure: "open" });
    assert.deepEqual(await client.check("search"), { allowed: false, source: "client", failure: "unavailable", headers: {} });
    assert.equal((await client.reserve("search")).allowed, false);
  });
}

test("a request that was read is never sent again, also not on a kept connection", async (t) => {
  const { url, seen } = await scripted(t, (socket, _, index) => (index === 0 ? socket.write(reply(200, admitted)) : socket.destroy()));
  const client = clientOf(t, url);
  assert.equal((await client.check("search")).source, "store");
  assert.equal((await client.check("search")).failure, "connection");
  assert.equal((await client.check("search")).failure, "connection");
  assert.equal(seen.requests.length, 3);
});

test("a broken connection in the middle of an answer is a failure", async (t) => {
  const { url, seen } = await scripted(t, (socket) => socket.end(reply(200, admitted).slice(0, -5)));
  assert.equal((await clientOf(t, url).check("search")).failure, "connection");
  assert.equal(seen.requests.length, 1);
});

test("connections that the service closes while they are idle fail no check", async (t) => {
  const { url, seen } = await scripted(t, (socket) => socket.end(reply(200, admitted)));
  const client = clientOf(t, url);
  for (let round = 0; round < 300; round += 1) {
    assert.equal((await client.check("search")).source, "store", `round ${round}`);
    // Idle, or busy while the connection closes.
    if (round % 2 === 0) await sleep(2);
    else for (const end = performance.now() + 2; performance.now() < end;);
  }
  assert.equal(seen.requests.length, 300);
});

test("calls share kept connections, at most as many as the caller says", async (t) => {
  const { url, seen } = await scripted(t, (socket) => setTimeout(() => socket.write(reply(200, admitted)), 5));
  const client = clientOf(t, url, { maxConnections: 8 });
  for (let round = 0; round < 2; round += 1) {
    const decisions = await Promise.all(Array.from({ length: 100 }, () => client.check("search")));
    assert.ok(decisions.every(({ source }) => source === "store"));
  }
  assert.equal(seen.connections, 8);
});

test("no answer is a failure within the timeout, also for calls that wait for a connection", async (t) => {
  const { url, seen } = await scripted(t, () => {});
  const client = clientOf(t, url, { timeout: 100, maxConnections: 2 });
  const decisions = await Promise.all(Array.from({ length: 10 }, () => client.check("search")));
  assert.ok(decisions.every(({ failure }) => failure === "timeout"));
  assert.ok(seen.requests.length <= 4);
  assert.deepEqual(client.failures(), { timeout: 10 });
});

test("an answer that trickles ends with the timeout", async (t) => {
  const { url } = await scripted(t, (socket) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
    const drip = setInterval(() => socket.write("x"), 10);
    socket.on("close", () => clearInterval(drip));
  });
  assert.equal((await clientOf(t, url, { timeout: 150 }).check("search")).failure, "timeout");
});

test("a reservation is repeated with the same id, at most twice", async (t) => {
  const { url, seen } = await scripted(t, (socket, _, index) => (index === 1 ? socket.write(reply(200, { ...admitted, hold: "h" })) : socket.destroy()));
  const client = clientOf(t, url);
  const hold = await client.reserve("render", { user: "a" }, { cost: 3, units: 2, expiresAfter: 20_000 });
  assert.equal(hold.allowed, true);
  const { id, ...sent } = seen.requests[0].json;
  assert.match(id, /^[0-9a-f]{32}$/);
  assert.deepEqual(sent, { attributes: { action: "render", user: "a" }, cost: 3, units: 2, expires_after: "20000ms" });
  assert.equal(seen.requests[1].json.id, id);
  assert.deepEqual(await hold.settle(1), { failure: "connection" });
  assert.equal(seen.requests.length, 5);
  assert.deepEqual(seen.requests[4].json, { hold: "h", cost: 1 });
  await hold.close();
  assert.deepEqual(seen.requests[5].json, { hold: "h", cost: 1 });
});

test("a hold that failed with open settles to gone, and sends nothing", async (t) => {
  const { url, seen } = await scripted(t, (socket) => socket.write(reply(503, {})));
  const hold = await clientOf(t, url).reserve("render");
  assert.equal(hold.allowed, true);
  assert.deepEqual(await hold.settle(1), { status: "gone" });
  assert.deepEqual(await hold.renew(), { status: "gone" });
  assert.equal(seen.requests.length, 1);
});

test("a hold is renewed at a third of its life until it is lost", async (t) => {
  const paths = [];
  const { url } = await scripted(t, (socket, { path }) => {
    paths.push(path);
    const renewals = paths.filter((each) => each === "/v1/renew").length;
    if (path === "/v1/reserve") socket.write(reply(200, { ...admitted, hold: "h", expires_after_ms: 60 }));
    else if (path === "/v1/renew") socket.write(reply(200, { status: renewals < 3 ? "renewed" : "lost", expires_after_ms: 60 }));
    else socket.write(reply(200, { status: "settled", quotas: [] }));
  });
  const client = clientOf(t, url);
  const hold = await client.hold("render", { user: "a" });
  await new Promise((resolve) => hold.signal.addEventListener("abort", resolve));
  assert.equal(hold.lost, true);
  await hold.close();
  await hold.close();
  assert.deepEqual(paths, ["/v1/reserve", "/v1/renew", "/v1/renew", "/v1/renew", "/v1/settle"]);
});

test("a hold that was settled is renewed no more", async (t) => {
  const paths = [];
  const { url } = await scripted(t, (socket, { path }) => {
    paths.push(path);
    const answers = { "/v1/reserve": { ...admitted, hold: "h", expires_after_ms: 60 }, "/v1/settle": { status: "settled", quotas: [] } };
    socket.write(reply(200, answers[path] ?? { status: "ended" }));
  });
  const hold = await clientOf(t, url).hold("render");
  await hold.settle(1);
  const settled = paths.length;
  await sleep(100);
  assert.equal(paths.length, settled);
  assert.equal(hold.lost, false);
});

test("a scope settles at its estimate, or releases after an error if it is told to", async (t) => {
  const settled = [];
  const { url } = await scripted(t, (socket, { path, json }) => {
    if (path === "/v1/settle") settled.push(json.cost);
    socket.write(reply(200, path === "/v1/reserve" ? { ...admitted, hold: "h", expires_after_ms: 60_000 } : { status: "settled", quotas: [] }));
  });
  const client = clientOf(t, url);
  const fail = () => Promise.reject(new Error("work"));
  assert.equal(await client.hold("render", {}, { cost: 7 }, (hold) => hold.allowed), true);
  await client.hold("render", {}, { cost: 7 }, (hold) => hold.settle(3));
  await assert.rejects(client.hold("render", {}, { cost: 7 }, fail), /work/);
  await assert.rejects(client.hold("render", {}, { cost: 7, releaseOnError: true }, fail), /work/);
  await assert.rejects(client.hold("render", {}, { cost: 7, releaseOnError: true }, async (hold) => { await hold.settle(2); await fail(); }), /work/);
  const hold = await client.hold("render", {}, { cost: 7 });
  await hold[Symbol.asyncDispose]();
  assert.deepEqual(settled, [7, 3, 7, 0, 2, 7]);
});

test("logs the first failure, and the others when the client closes, without values", async (t) => {
  const { url } = await scripted(t, (socket) => socket.write(reply(400, { detail: "policy `p`: no key\nforged" })));
  const logger = keptLines();
  const client = clientOf(t, url, { logger, token: "canary-token" });
  for (let call = 0; call < 500; call += 1) await client.check("search", { user: "canary-user" });
  assert.deepEqual(logger.lines, ["tollgate: 1 call had no decision of the service (1 refused); the last one: refused: policy `p`: no key forged"]);
  client.close();
  assert.match(logger.lines[1], /^tollgate: 499 calls had no decision of the service \(499 refused\)/);
  assert.doesNotMatch(logger.lines.join(), /canary/);
  assert.equal((await client.check("search")).failure, "connection");
});

test("logs what is refused as an error, and what heals as a warning", async (t) => {
  const { url } = await scripted(t, (socket) => socket.write(reply(401, { detail: "the token is unknown" })));
  for (const [address, level] of [[url, "error"], ["http://127.0.0.1:1", "warn"]]) {
    const levels = [];
    const logger = { warn: () => levels.push("warn"), error: () => levels.push("error") };
    await clientOf(t, address, { logger }).check("search");
    assert.deepEqual(levels, [level]);
  }
});

test("a logger that throws takes no decision down", async (t) => {
  const { url } = await scripted(t, (socket) => socket.destroy());
  const client = clientOf(t, url, { logger: { warn: () => { throw new Error("disk full"); } } });
  assert.equal((await client.check("search")).allowed, true);
});

test("waits exactly as long as a denial says, and not at all if that would be too late", async (t) => {
  const times = [];
  const { url } = await scripted(t, (socket, _, index) => {
    times.push(performance.now());
    const denied = { ...admitted, allowed: false, reason: "quota_exceeded", retry_after_ms: 80 };
    socket.write(index === 1 ? reply(200, admitted) : reply(429, denied));
  });
  const client = clientOf(t, url);
  assert.equal((await client.wait("crm", {}, { timeout: 5_000 })).allowed, true);
  assert.ok(times[1] - times[0] >= 80);
  assert.equal((await client.wait("crm", {}, { timeout: 79 })).allowed, false);
  assert.equal(times.length, 3);
  const signal = AbortSignal.timeout(10);
  await assert.rejects(client.wait("crm", {}, { signal }), { name: "TimeoutError" });
});

test("counts under limits of the caller, and answers itself during an outage", async (t) => {
  const counted = { policy: "p:caller", series: "1m@first_hit", used: 7, reset_after_ms: 100, window: { start: 1, end: 60_001 }, source: "store" };
  const { url, seen } = await scripted(t, (socket, _, index) => socket.write(index === 0 ? reply(200, counted) : reply(503, {})));
  const client = clientOf(t, url);
  assert.deepEqual(await client.count("p", { key: "a" }, { window: "1m@first_hit", operation: "set", used: 7, onStoreFailure: "closed" }), {
    policy: "p:caller", series: "1m@first_hit", used: 7, resetAfterMs: 100, window: { start: 1, end: 60_001 }, source: "store",
  });
  assert.deepEqual(seen.requests[0].json, {
    policy: "p", attributes: { key: "a" }, window: "1m@first_hit", operation: "set", used: 7, on_store_failure: "closed",
  });
  assert.deepEqual(await client.count("q", { key: "a" }, { quotas: ["5/1m"], onStoreFailure: "closed" }), { allowed: false, source: "client", failure: "unavailable" });
  assert.deepEqual(await client.count("q", { key: "a" }, { quotas: ["5/1m"] }), { allowed: true, source: "client", failure: "unavailable" });
  assert.deepEqual(await client.count("q", { key: "a" }, { window: "1m" }), { source: "client", failure: "unavailable" });
});

test("a count can block a key that is above its limit", async (t) => {
  const answer = { allowed: false, policy: "p:caller", quota: "5/1m@first_hit", limit: 5, used: 6, remaining: 0, source: "store" };
  const state = { ...answer, blocked: true, block_after_ms: 29_500, reset_after_ms: 29_500, retry_after_ms: 29_500 };
  const { url, seen } = await scripted(t, (socket) => socket.write(reply(200, state)));
  const count = await clientOf(t, url).count("p", { key: "a" }, { quotas: ["5/1m@first_hit"], block: "30s" });
  assert.deepEqual(count, { ...answer, blocked: true, blockAfterMs: 29_500, resetAfterMs: 29_500, retryAfterMs: 29_500 });
  assert.deepEqual(seen.requests[0].json, { policy: "p", attributes: { key: "a" }, quotas: ["5/1m@first_hit"], block: "30s" });
});

test("a fetch of the caller carries the calls", async (t) => {
  const seen = [];
  const own = async (url, init) => {
    seen.push([url, init.method, init.redirect, JSON.parse(init.body)]);
    return Response.json(admitted, { headers: { ratelimit: "a" } });
  };
  const client = clientOf(t, "http://tollgate", { fetch: own });
  assert.deepEqual((await client.check("search")).headers, { ratelimit: "a" });
  assert.deepEqual(seen, [["http://tollgate/v1/check", "POST", "manual", { attributes: { action: "search" } }]]);
  const hanging = clientOf(t, "http://tollgate", { fetch: () => new Promise(() => {}), timeout: 50 });
  assert.equal((await hanging.check("search")).failure, "timeout");
  const failing = clientOf(t, "http://tollgate", { fetch: () => Promise.reject(new TypeError("fetch failed")) });
  assert.equal((await failing.check("search")).failure, "connection");
  const long = clientOf(t, "http://tollgate", { fetch: async () => new Response("x".repeat(2 << 20)) });
  assert.equal((await long.check("search")).failure, "invalid");
});

test("a switch of protocols is a failure at once", async (t) => {
  for (const status of [101, 103]) {
    const { url, seen } = await scripted(t, (socket) => {
      socket.write(`HTTP/1.1 ${status} Status\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nbytes`);
    });
    const start = performance.now();
    assert.equal((await clientOf(t, url).check("search")).failure, "invalid");
    assert.ok(performance.now() - start < 2_000);
    for (let wait = 0; seen.open > 0 && wait < 100; wait += 1) await sleep(10);
    assert.equal(seen.open, 0);
  }
});

test("what the service would refuse is an error before it is sent", async (t) => {
  const { url, seen } = await scripted(t, (socket) => socket.write(reply(200, admitted)));
  const client = clientOf(t, url);
  const many = (count) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`a${index}`, "x"]));
  const list = (length, text = "x") => Array.from({ length }, () => text);
  const large = Object.fromEntries(Array.from({ length: 2 }, (_, index) => [`a${index}`, list(40, "x".repeat(1_000))]));
  for (const attributes of [{ "": "x" }, { ["x".repeat(129)]: "x" }, many(64), { groups: list(65) }, large]) {
    await assert.rejects(client.check("search", attributes), TypeError);
  }
  await assert.rejects(client.check("x".repeat(1_025)), TypeError);
  await assert.rejects(client.count("api", {}, { quotas: ["5/1m"] }), TypeError);
  assert.equal(seen.requests.length, 0);
  for (const attributes of [{ ["😀".repeat(128)]: "x" }, many(63), { groups: list(64) }]) await client.check("search", attributes);
  assert.equal(seen.requests.length, 3);
  assert.deepEqual(client.failures(), {});
});

test("without an answer, a count is what the client or its policy says", async (t) => {
  const { url, seen } = await scripted(t, (socket) => socket.write(reply(500, "")));
  const client = clientOf(t, url, { onFailure: "closed", names: { search: "open" } });
  const count = async (policy, more) => (await client.count(policy, { key: "a" }, { quotas: ["5/1m"], ...more })).allowed;
  assert.equal(await count("login"), false);
  assert.equal(await count("search"), true);
  assert.equal(await count("login", { onStoreFailure: "open" }), true);
  assert.equal(await count("login", { operation: "reset" }), undefined);
  assert.deepEqual(seen.requests.map(({ json }) => json.on_store_failure), ["closed", undefined, undefined, undefined]);
});

test("a detail that repeats its request is logged without the values of attributes and the token", async (t) => {
  const detail = "alice-1 (alice-11, tg_secret) of ab: abroad failed for a+b*c";
  const { url } = await scripted(t, (socket) => socket.write(reply(502, { detail })));
  const logger = keptLines();
  const client = clientOf(t, url, { logger, token: "tg_secret" });
  await client.check("failed", { user: "alice-1", groups: ["alice-11", "ab", "a+b*c"], empty: "" });
  assert.match(logger.lines[0], /unavailable: \*\*\* \(\*\*\*, \*\*\*\) of \*\*\*: abroad failed for \*\*\*$/);
});

test("a detail that repeats a count or a hold is logged without an attribute `action` and the hold", async (t) => {
  const { url } = await scripted(t, (socket, { path, body }, index) => {
    if (index === 1) socket.write(reply(200, { ...admitted, hold: "sealed", expires_after_ms: 60_000 }));
    else socket.write(reply(400, { detail: `${path} of ${body}` }));
  });
  const lineOf = async (call) => {
    const logger = keptLines();
    const client = clientOf(t, url, { logger });
    const result = await call(client);
    client.close();
    return [logger.lines, result];
  };
  const [[counted]] = await lineOf((client) => client.count("login", { action: 'alice "a"\n@example.com' }, { quotas: ["5/1m"] }));
  assert.match(counted, /"policy":"login","attributes":\{"action":"\*\*\*"\}/);
  const [[settled]] = await lineOf(async (client) => (await client.reserve("render", { user: "bob-secret" })).settle(1));
  assert.match(settled, /\{"hold":"\*\*\*","cost":1\}/);
  const [[reserved]] = await lineOf((client) => client.reserve("render", { user: "bob-secret" }));
  assert.match(reserved, /"attributes":\{"action":"render","user":"\*\*\*"\},"id":"\*\*\*"/);
});

test("a settlement without an answer is sent again at the end of the scope, at the same cost", async (t) => {
  const { url, seen } = await scripted(t, (socket, { path }, index) => {
    if (path === "/v1/reserve") socket.write(reply(200, { ...admitted, hold: "sealed", id: "a", expires_after_ms: 60_000 }));
    else socket.write(index === 1 ? reply(503, "") : reply(200, { status: "settled" }));
  });
  await clientOf(t, url).hold("render", {}, { cost: 9 }, (hold) => hold.settle(4));
  assert.deepEqual(seen.requests.slice(1).map(({ json }) => json), [{ hold: "sealed", cost: 4 }, { hold: "sealed", cost: 4 }]);
});
