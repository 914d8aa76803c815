// How users write it in TypeScript. It is only compiled.
import { getConnInfo } from "@hono/node-server/conninfo";
import { Module } from "@nestjs/common";
import { APP_GUARD } from "@nestjs/core";
import { ThrottlerGuard, ThrottlerModule } from "@nestjs/throttler";
import express from "express";
import { rateLimit as expressRateLimit } from "express-rate-limit";
import Fastify from "fastify";
import { Hono } from "hono";
import { Tollgate, type Count, type Decision } from "tollgate-client";
import { rateLimit } from "tollgate-client/express";
import { TollgateStore } from "tollgate-client/express-rate-limit";
import { rateLimit as fastifyLimit } from "tollgate-client/fastify";
import { rateLimit as honoLimit } from "tollgate-client/hono";
import { TollgateThrottlerStorage } from "tollgate-client/nestjs";
import { Tollgate as NodeTollgate } from "tollgate-client/node";
import { FakeTollgate } from "tollgate-client/testing";

const tollgate = new Tollgate({ url: "http://127.0.0.1:8080", names: { login: "closed" }, logger: console });

export async function plain(user: string): Promise<number> {
  const decision: Decision = await tollgate.check("search", { user, paid: true, groups: ["a"] }, { cost: 2 });
  if (!decision.allowed) return decision.retryAfterMs ?? 0;
  await using hold = await tollgate.hold("render", { user }, { cost: 3 });
  const response = await fetch("http://127.0.0.1", { signal: hold.signal });
  const settlement = await hold.settle(response.status);
  const count: Count = await tollgate.count("api", { user }, { window: "1m@first_hit" });
  const blocked: Count = await tollgate.count("api", { user }, { quotas: ["5/1m@first_hit"], block: "30s" });
  if (blocked.blocked) return blocked.blockAfterMs ?? 0;
  const length: number = await tollgate.hold("render", { user }, { releaseOnError: true }, (each) => (each.allowed ? 1 : 0));
  return settlement.status === "settled" ? (count.used ?? 0) : length;
}

// @ts-expect-error: an attribute is no number.
export const wrongAttribute = () => tollgate.check("search", { user: 5 });
// @ts-expect-error: a misspelt option.
export const wrongOption = () => new Tollgate({ time_out: 5 });

const app = express();
app.get("/users/:id", rateLimit(tollgate, { by: (request) => ({ user: request.params["id"] as string }), headers: true }), (_, response) => {
  response.send("found");
});
app.use(expressRateLimit({ windowMs: 60_000, limit: 100, store: new TollgateStore(tollgate, { name: "api" }) }));

const fastify = Fastify();
fastify.get("/search", { onRequest: fastifyLimit(tollgate, { by: (request) => request.ip }) }, async () => "found");
fastify.addHook("preHandler", fastifyLimit(tollgate, { name: "all" }));

const hono = new Hono();
hono.post("/login", honoLimit(tollgate, { connInfo: getConnInfo }), (context) => context.text("welcome"));
hono.use("*", honoLimit(tollgate, { name: "all", by: (context) => context.req.header("x-user") ?? "nobody" }));

@Module({
  imports: [
    ThrottlerModule.forRoot({
      throttlers: [{ ttl: 60_000, limit: 10 }, { name: "burst", ttl: 1_000, limit: 3, blockDuration: 30_000 }],
      storage: new TollgateThrottlerStorage(tollgate, { name: "app" }),
    }),
  ],
  providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
})
export class AppModule {}

export const others: Tollgate[] = [new NodeTollgate({ url: "unix:/run/tollgate.sock" }), new FakeTollgate({ onFailure: "closed" })];
