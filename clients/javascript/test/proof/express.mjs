// The app on Express, with express-rate-limit on rate-limit-redis as the usual limiter.
import express from "express";
import { rateLimit as usual } from "express-rate-limit";
import { RedisStore } from "rate-limit-redis";
import { rateLimit } from "tollgate-client/express";
import { TollgateStore } from "tollgate-client/express-rate-limit";

import { bare, host, hour, limit, port, redis, tollgate, unlimited } from "./shared.mjs";

const app = express();
const user = (request) => request.get("x-user");
const ok = (_, response) => response.json({ ok: true });
const options = { windowMs: hour, keyGenerator: user, standardHeaders: false, legacyHeaders: false };
const inRedis = new RedisStore({ sendCommand: (...command) => redis.call(...command) });
const inTollgate = new TollgateStore(tollgate, { name: "adapter" });

app.get("/free", ok);
app.get("/limited", rateLimit(tollgate, { name: "search", by: (request) => ({ user: user(request) }), headers: true }), ok);
app.get("/bare", async (request, response) => {
  await bare(user(request));
  ok(request, response);
});
app.get("/usual", usual({ ...options, limit: unlimited, store: inRedis }), ok);
app.get("/adapter", usual({ ...options, limit, store: inTollgate }), ok);
app.get("/failures", (_, response) => response.json(tollgate.failures()));
app.listen(port, host);
