// An Express app with express-rate-limit, whose counters are in the service.
import express from "express";
import { rateLimit } from "express-rate-limit";
import { Tollgate } from "tollgate-client";
import { TollgateStore } from "tollgate-client/express-rate-limit";

const tollgate = new Tollgate({ timeout: Number(process.env.TIMEOUT ?? 250) });
const app = express();

function limiter(options, store) {
  return rateLimit({
    windowMs: 3_600_000,
    standardHeaders: "draft-6",
    legacyHeaders: false,
    keyGenerator: (request) => request.get("x-user") ?? "nobody",
    store: new TollgateStore(tollgate, store),
    ...options,
  });
}

app.get("/search", limiter({ limit: Number(process.env.LIMIT ?? 2) }, { name: "search" }), (_, response) => response.json({ found: 1 }));
app.get("/login", limiter({ limit: 1 }, { name: "login", onFailure: "closed" }), (_, response) => response.send("welcome"));
app.get("/successes", limiter({ limit: 1, skipSuccessfulRequests: true }, { name: "successes" }), (_, response) => response.send("fine"));
app.get("/failures", (_, response) => response.json(tollgate.failures()));
app.use((error, _request, response, _next) => response.status(error.status ?? 500).send(error.message));

const server = app.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
