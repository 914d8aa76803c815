// How a project of CommonJS modules writes it. It is only compiled.
import type { RequestHandler } from "express";
import { Tollgate } from "tollgate-client";
import { rateLimit } from "tollgate-client/express";
import { TollgateStore } from "tollgate-client/express-rate-limit";
import { rateLimit as fastifyLimit } from "tollgate-client/fastify";
import { rateLimit as honoLimit } from "tollgate-client/hono";
import { TollgateThrottlerStorage } from "tollgate-client/nestjs";
import { FakeTollgate } from "tollgate-client/testing";

const tollgate: Tollgate = new FakeTollgate();
export const handler: RequestHandler = rateLimit(tollgate, { name: "search" });
export const others = [
  fastifyLimit(tollgate),
  honoLimit(tollgate, { by: () => "all" }),
  new TollgateStore(tollgate, { name: "api" }),
  new TollgateThrottlerStorage(tollgate, { name: "app" }),
];
