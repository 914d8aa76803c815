// The app on Hono, with hono-rate-limiter on Redis as the usual limiter.
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { RedisStore, rateLimiter } from "hono-rate-limiter";
import { rateLimit } from "tollgate-client/hono";

import { bare, host, hour, port, redis, tollgate, unlimited } from "./shared.mjs";

const app = new Hono();
const user = (context) => context.req.header("x-user");
const ok = (context) => context.json({ ok: true });
const client = {
  scriptLoad: (script) => redis.script("LOAD", script),
  evalsha: (digest, keys, args) => redis.evalsha(digest, keys.length, ...keys, ...args),
};

app.get("/free", ok);
app.get("/limited", rateLimit(tollgate, { name: "search", by: (context) => ({ user: user(context) }), headers: true }), ok);
app.get("/bare", async (context) => {
  await bare(user(context));
  return ok(context);
});
app.get("/usual", rateLimiter({ windowMs: hour, limit: unlimited, keyGenerator: user, store: new RedisStore({ client }) }), ok);
app.get("/failures", (context) => context.json(tollgate.failures()));
serve({ fetch: app.fetch, port, hostname: host });
