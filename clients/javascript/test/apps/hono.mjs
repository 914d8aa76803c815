// A Hono app.
import { serve } from "@hono/node-server";
import { getConnInfo } from "@hono/node-server/conninfo";
import { Hono } from "hono";
import { Tollgate } from "tollgate-client";
import { rateLimit } from "tollgate-client/hono";

const tollgate = new Tollgate({ timeout: Number(process.env.TIMEOUT ?? 250), names: { "/login": "closed" } });
const app = new Hono({ strict: false });
const search = { name: "search", by: (context) => ({ user: context.req.header("x-user") }), headers: true };

app.get("/search", rateLimit(tollgate, search), (context) => context.json({ found: 1 }));
app.post("/login", rateLimit(tollgate, { connInfo: getConnInfo }), (context) => context.text("welcome"));
app.get("/users/:id", rateLimit(tollgate, { by: () => "all" }), (context) => context.text("user"));
app.get("/broken", rateLimit(tollgate, { by: () => undefined }), (context) => context.text("not reached"));
app.get("/failures", (context) => context.json(tollgate.failures()));
app.onError((error, context) => context.text(error.message, 500));

serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, ({ port }) => console.log(`listening on http://127.0.0.1:${port}`));
