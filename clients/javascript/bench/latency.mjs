// npm --prefix clients/javascript/bench ci && TOLLGATE_BINARY=... node clients/javascript/bench/latency.mjs
//
// What a check adds to a request, beside the usual limiter on the same Redis, and beside a bare request to the service.
// All contestants run side by side, in turns, so that a busy machine slows all of them.
import { Agent, request } from "node:http";
import { fileURLToPath } from "node:url";

import { Tollgate } from "tollgate-client";
import { redis, service, started } from "../test/servers.mjs";

const turns = Number(process.env.TURNS ?? 10);
const perTurn = Number(process.env.REQUESTS ?? 500);
const ends = [];
const t = { after: (end) => ends.push(end) };

const { url: store } = await redis(t);
const policies = "policies: [{ name: search, match: { action: search }, key: [user], quotas: [1000000000/1h] }]\n";
const { url } = await service(t, { policies, args: ["--caller-quotas", "--store", store] });
const agent = new Agent({ keepAlive: true });

/** Sends a request, and resolves when its answer is whole. */
function send(url, method, body = "") {
  const headers = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) };
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, agent, headers }, (response) => {
      const chunks = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString();
        if (response.statusCode === 200) resolve(text);
        else reject(new Error(`${response.statusCode} ${text}`));
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

const tollgate = new Tollgate({ url, timeout: 10_000 });
const check = JSON.stringify({ attributes: { action: "search", user: "alice" } });
const calls = [
  ["a bare request to the service", async () => JSON.parse(await send(`${url}/v1/check`, "POST", check))],
  ["tollgate.check", () => tollgate.check("search", { user: "alice" })],
];
const apps = [];
for (const limiter of ["none", "tollgate", "express-rate-limit with tollgate", "express-rate-limit with rate-limit-redis"]) {
  const env = { LIMITER: limiter, TOLLGATE_URL: url, REDIS_URL: store };
  const { url: app } = await started(t, process.execPath, [fileURLToPath(new URL("app.mjs", import.meta.url))], env, { url: /listening on (\S+)/ });
  apps.push([`Express, ${limiter}`, () => send(app, "GET")]);
}

for (const group of [calls, apps]) {
  for (const callers of [1, 16]) await compare(group, callers);
}
tollgate.close();
agent.destroy();
for (const end of ends.reverse()) await end();

async function compare(group, callers) {
  const times = group.map(() => []);
  const spent = group.map(() => 0);
  for (let turn = -1; turn < turns; turn += 1) {
    for (const [index, [, call]] of group.entries()) {
      const begun = performance.now();
      await Promise.all(Array.from({ length: callers }, async () => {
        for (let each = 0; each < perTurn / callers; each += 1) {
          const started = performance.now();
          await call();
          if (turn >= 0) times[index].push(performance.now() - started);
        }
      }));
      // The first turn only warms up.
      if (turn >= 0) spent[index] += performance.now() - begun;
    }
  }
  console.log(`${callers} at once, ${times[0].length} requests each`);
  for (const [index, [name]] of group.entries()) {
    const sorted = times[index].sort((one, other) => one - other);
    const micros = (share) => Math.round(sorted[Math.floor(share * (sorted.length - 1))] * 1000);
    const rate = Math.round((sorted.length / spent[index]) * 1000);
    console.log(`  ${name.padEnd(50)} p50 ${micros(0.5)} us, p99 ${micros(0.99)} us, ${rate} a second`);
  }
}
