// An Express app, in the version that EXPRESS names: `express` (5) or `express4`.
import { Tollgate } from "tollgate-client";
import { rateLimit } from "tollgate-client/express";

const { default: express } = await import(process.env.EXPRESS ?? "express");

const tollgate = new Tollgate({ timeout: Number(process.env.TIMEOUT ?? 250), names: { "/login": "closed" } });
const app = express();
const router = express.Router();

app.get("/search", rateLimit(tollgate, { name: "search", by: (request) => ({ user: request.get("x-user") }), headers: true }), (_, response) => {
  response.json({ found: 1 });
});
app.post("/login", rateLimit(tollgate), (_, response) => response.send("welcome"));
app.get("/users/:id", rateLimit(tollgate, { by: () => "all" }), (_, response) => response.send("user"));
app.get("/broken", rateLimit(tollgate, { by: () => undefined }), (_, response) => response.send("not reached"));
router.get("/inner", rateLimit(tollgate), (_, response) => response.send("not reached"));
app.use("/mounted", router);
app.get("/failures", (_, response) => response.json(tollgate.failures()));
app.use((error, _request, response, _next) => response.status(500).send(error.message));

const server = app.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
