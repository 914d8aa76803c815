// A Fastify app.
import Fastify from "fastify";
import { Tollgate } from "tollgate-client";
import { rateLimit } from "tollgate-client/fastify";

import { routing } from "./routing.mjs";

const tollgate = new Tollgate({ timeout: Number(process.env.TIMEOUT ?? 250), names: { "/login": "closed" } });
const app = Fastify(routing({ caseSensitive: false, ignoreTrailingSlash: true }));
const search = { name: "search", by: (request) => ({ user: request.headers["x-user"] }), headers: true };

app.get("/search", { onRequest: rateLimit(tollgate, search) }, async () => ({ found: 1 }));
app.post("/login", { onRequest: rateLimit(tollgate) }, async () => "welcome");
app.get("/users/:id", { onRequest: rateLimit(tollgate, { by: () => "all" }) }, async () => "user");
app.get("/broken", { onRequest: rateLimit(tollgate, { by: () => undefined }) }, async () => "not reached");
app.get("/failures", async () => tollgate.failures());

console.log(`listening on ${await app.listen({ port: 0, host: "127.0.0.1" })}`);
