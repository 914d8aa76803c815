// The Express app that bench/latency.mjs asks, with the limiter that LIMITER names.
import express from "express";
import { rateLimit } from "express-rate-limit";
import { RedisStore } from "rate-limit-redis";
import { createClient } from "redis";
import { Tollgate } from "tollgate-client";
import { rateLimit as check } from "tollgate-client/express";
import { TollgateStore } from "tollgate-client/express-rate-limit";

const window = { windowMs: 3_600_000, limit: 1_000_000_000, keyGenerator: () => "alice", standardHeaders: false, legacyHeaders: false };
const tollgate = new Tollgate({ timeout: 10_000 });

const limiters = {
  none: async () => (_request, _response, next) => next(),
  tollgate: async () => check(tollgate, { name: "search", by: () => ({ user: "alice" }) }),
  "express-rate-limit with tollgate": async () => rateLimit({ ...window, store: new TollgateStore(tollgate, { name: "bench" }) }),
  "express-rate-limit with rate-limit-redis": async () => {
    const client = createClient({ url: process.env.REDIS_URL });
    await client.connect();
    return rateLimit({ ...window, store: new RedisStore({ sendCommand: (...args) => client.sendCommand(args) }) });
  },
};

const app = express();
app.get("/", await limiters[process.env.LIMITER](), (_, response) => response.send("found"));
const server = app.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
