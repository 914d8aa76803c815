// The app on Fastify, with @fastify/rate-limit on Redis as the usual limiter.
import usual from "@fastify/rate-limit";
import Fastify from "fastify";
import { rateLimit } from "tollgate-client/fastify";

import { bare, host, hour, port, redis, tollgate, unlimited } from "./shared.mjs";

const app = Fastify();
const user = (request) => request.headers["x-user"];
const ok = async () => ({ ok: true });
await app.register(usual, { global: false, redis, keyGenerator: user, timeWindow: hour, max: unlimited });

app.get("/free", ok);
app.get("/limited", { onRequest: rateLimit(tollgate, { name: "search", by: (request) => ({ user: user(request) }), headers: true }) }, ok);
app.get("/bare", async (request) => {
  await bare(user(request));
  return ok();
});
app.get("/usual", { config: { rateLimit: {} } }, ok);
app.get("/failures", async () => tollgate.failures());
await app.listen({ port, host });
