// Spellings of a path: each that reaches a handler takes from the same counter, in every framework.
import assert from "node:assert/strict";
import { request } from "node:http";
import { test } from "node:test";

import { serve } from "@hono/node-server";
import Fastify from "fastify";
import { Hono } from "hono";
import { Tollgate } from "tollgate-client";
import { rateLimit as expressLimit } from "tollgate-client/express";
import { rateLimit as fastifyLimit } from "tollgate-client/fastify";
import { rateLimit as honoLimit } from "tollgate-client/hono";
import { routing } from "./apps/routing.mjs";
import { service } from "./servers.mjs";

// Each name has a counter of its own, so a spelling with another name would be admitted.
const policies = "policies: [{ name: all, key: [action, key], quotas: [1/1h@first_hit] }]\n";

const spellings = [
  "/login", "/login/", "/LOGIN", "/LOGIN/", "/Login", "//login", "/login//", "/%6Cogin", "/%6cogin/", "/l%6Fgin?", "/login?a=1", "/login/?a",
  "/login;x=1", "/login;x=1/", "/login%2F", "/login%20", "/login%00", "/login.", "/login/.", "/./login", "/x/../login", "/login#a", "\\login",
  "http://other.example/login", "http://other.example/LOGIN/",
];

/** Sends a path as it is written, and returns the status of the answer. */
function statusOf(port, path, method = "GET") {
  return new Promise((resolve, reject) => {
    const sent = request({ port, host: "127.0.0.1", path, method, agent: false }, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode));
    });
    // Fastify answers 400 to what it does not take for HTTP, and not always as HTTP.
    sent.on("error", (error) => (error.code?.startsWith("HPE_") ? resolve(400) : reject(error)));
    sent.end();
  });
}

/** Takes the only unit by the first path, and returns the paths that are denied then. No other may reach the handler. */
async function deniedAfter(port, [first, ...paths]) {
  assert.equal(await statusOf(port, first), 200);
  const denied = [];
  for (const path of [first, ...paths]) {
    for (const method of ["GET", "HEAD"]) {
      const status = await statusOf(port, path, method);
      assert.ok([400, 404, 405, 429].includes(status), `${method} ${path} after ${first}: ${status}`);
      if (status === 429 && method === "GET") denied.push(path);
    }
  }
  return denied;
}

async function client(t) {
  const { url } = await service(t, { policies });
  const tollgate = new Tollgate({ url, timeout: 10_000, onFailure: "closed" });
  t.after(() => tollgate.close());
  return tollgate;
}

const by = () => "all";

/** Listens, and returns the port. */
async function listening(t, app) {
  const server = await new Promise((resolve) => {
    const made = app.listen(0, "127.0.0.1", () => resolve(made));
  });
  t.after(() => server.close());
  return server.address().port;
}

for (const [version, module] of [[5, "express"], [4, "express4"]]) {
  const { default: express } = await import(module);
  const handler = (_, response) => response.send("reached");
  const played = async (t, build, settings = {}) => {
    const tollgate = await client(t);
    const app = express();
    for (const [name, value] of Object.entries(settings)) app.set(name, value);
    build(app, (options) => expressLimit(tollgate, { by, ...options }), tollgate);
    app.use((error, _request, response, _next) => response.status(500).send(error.message));
    return listening(t, app);
  };
  const on = (path) => (app, limit) => app.get(path, limit(), handler);

  test(`Express ${version}: a route`, async (t) => {
    const denied = await deniedAfter(await played(t, on("/login")), spellings);
    for (const path of ["/login/", "/LOGIN/", "/login/?a", "http://other.example/LOGIN/"]) assert.ok(denied.includes(path), path);
  });

  test(`Express ${version}: a route whose case and slash count`, async (t) => {
    const port = await played(t, on("/login"), { "case sensitive routing": true, "strict routing": true });
    assert.ok(!(await deniedAfter(port, spellings)).includes("/LOGIN"));
  });

  const templates = version === 5
    ? [["/login{/:step}", "/login/2"], ["/log{in}", "/log"], ["/*any", "/x/y"], ["/:page", "/signup"]]
    : [["/login/:step?", "/login/2"], ["/log(in)?", "/log"], ["/lo*gin", "/lo/x/gin"], ["*", "/x/y"], ["/:page", "/signup"], ["/:page(\\w+)", "/signup"]];
  for (const [template, other] of templates) {
    test(`Express ${version}: the route ${template}`, async (t) => {
      assert.ok((await deniedAfter(await played(t, on(template)), [...spellings, other])).includes(other));
    });
  }

  test(`Express ${version}: a router without a path, and chained methods`, async (t) => {
    const port = await played(t, (app, limit) => {
      const router = express.Router();
      router.route("/login").all(limit()).get(handler);
      app.use(router);
    });
    assert.ok((await deniedAfter(port, spellings)).includes("/LOGIN/"));
  });

  test(`Express ${version}: a route after one that passes on`, async (t) => {
    const port = await played(t, (app, limit) => {
      app.get("/login", (_request, _response, next) => next("route"), handler);
      app.get("/:page", (_request, _response, next) => next());
      app.get("/:any", limit(), handler);
    });
    assert.ok((await deniedAfter(port, [...spellings, "/signup"])).includes("/signup"));
  });

  const named = [
    ["app.use", (app, limit) => app.use("/login", limit({ name: "login" }), handler), "/login/deep"],
    ["a mounted router", (app, limit) => app.use("/:area", express.Router().get("/login", limit({ name: "login" }), handler)), "/b/LOGIN/"],
    ["a list of paths", (app, limit) => app.get(["/login", "/signup"], limit({ name: "login" }), handler), "/signup"],
    ["an expression", (app, limit) => app.get(/^\/(login|signup)/i, limit({ name: "login" }), handler), "/SIGNUP/x"],
  ];
  for (const [what, build, other] of named) {
    const first = what === "a mounted router" ? "/a/login" : "/login";
    test(`Express ${version}: ${what} has one counter under its name`, async (t) => {
      assert.ok((await deniedAfter(await played(t, build), [first, ...spellings, other])).includes(other));
    });
    test(`Express ${version}: ${what} without a name is an error of the app`, async (t) => {
      const port = await played(t, (app, limit) => build(app, () => limit()));
      for (const path of [first, other]) assert.equal(await statusOf(port, path), 500, path);
    });
  }
}

async function onFastify(t, routerOptions, build) {
  const tollgate = await client(t);
  const app = Fastify(routing(routerOptions));
  build(app, () => ({ onRequest: fastifyLimit(tollgate, { by }) }));
  await app.listen({ port: 0, host: "127.0.0.1" });
  t.after(() => app.close());
  return app.server.address().port;
}

const lenient = { caseSensitive: false, ignoreTrailingSlash: true, ignoreDuplicateSlashes: true, useSemicolonDelimiter: true };

test("Fastify: a route", async (t) => {
  const denied = await deniedAfter(await onFastify(t, {}, (app, limit) => app.get("/login", limit(), async () => "reached")), spellings);
  assert.ok(denied.includes("/%6Cogin"));
});

test("Fastify: a route whose case, slashes and semicolons do not count", async (t) => {
  const port = await onFastify(t, lenient, (app, limit) => app.get("/login", limit(), async () => "reached"));
  const denied = await deniedAfter(port, spellings);
  for (const path of ["/LOGIN/", "//login", "/login;x=1", "/%6cogin/"]) assert.ok(denied.includes(path), path);
});

for (const routerOptions of [{}, lenient]) {
  test(`Fastify: the root of a prefix, with ${JSON.stringify(routerOptions)}`, async (t) => {
    const port = await onFastify(t, routerOptions, (app, limit) => {
      app.register(async (part) => part.get("/", limit(), async () => "reached"), { prefix: "/login" });
    });
    assert.ok((await deniedAfter(port, spellings)).includes("/login/"));
  });
}

test("Fastify: the root of a prefix that wants its slash keeps it in the template", async (t) => {
  const port = await onFastify(t, {}, (app, limit) => {
    const options = { ...limit(), prefixTrailingSlash: "slash" };
    app.register(async (part) => part.get("/", options, async () => "reached"), { prefix: "/login" });
    app.get("/login", limit(), async () => "another route");
  });
  await deniedAfter(port, ["/login/"]);
  assert.equal(await statusOf(port, "/login"), 200);
});

for (const [template, other] of [["/login/:step?", "/login/2"], ["/*", "/x/y"], ["/:page", "/signup"], ["/:page(^\\w+$)", "/signup"]]) {
  test(`Fastify: the route ${template}`, async (t) => {
    const first = template.startsWith("/login") ? "/login/1" : "/login";
    const port = await onFastify(t, lenient, (app, limit) => app.get(template, limit(), async () => "reached"));
    assert.ok((await deniedAfter(port, [first, ...spellings, other])).includes(other));
  });
}

test("Fastify: a hook for all routes", async (t) => {
  const port = await onFastify(t, lenient, (app, limit) => {
    app.addHook("onRequest", limit().onRequest);
    app.get("/login", async () => "reached");
  });
  assert.ok((await deniedAfter(port, spellings)).includes("/LOGIN/"));
});

async function onHono(t, options, build) {
  const tollgate = await client(t);
  const app = new Hono(options);
  build(app, honoLimit(tollgate, { by }), (context) => context.text("reached"));
  app.onError((error, context) => context.text(error.message, 500));
  const server = await new Promise((resolve) => {
    const made = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, () => resolve(made));
  });
  t.after(() => server.close());
  return server.address().port;
}

for (const strict of [true, false]) {
  const part = (limit, handler) => new Hono({ strict }).get("/login", limit, handler).onError((_, context) => context.text("failed", 500));
  const builds = [
    ["a route", "/login", (app, limit, handler) => app.get("/login", limit, handler)],
    ["a mounted app", "/area/login", (app, limit, handler) => app.route("/area", part(limit, handler))],
    ["app.use with a path", "/login", (app, limit, handler) => app.use("/login", limit).get("/login", handler)],
    ["an optional part", "/login/2", (app, limit, handler) => app.get("/login/:step?", limit, handler)],
    ["a parameter", "/signup", (app, limit, handler) => app.get("/:page", limit, handler)],
    ["an expression", "/signup", (app, limit, handler) => app.get("/:page{[a-z%0-9]+}", limit, handler)],
  ];
  for (const [what, other, build] of builds) {
    test(`Hono, ${strict ? "strict" : "not strict"}: ${what}`, async (t) => {
      const port = await onHono(t, { strict }, build);
      const first = what === "a mounted app" ? "/area/login" : "/login";
      const paths = [first, ...spellings, other, ...spellings.map((path) => `/area${path}`)];
      const denied = await deniedAfter(port, paths);
      assert.ok(denied.includes(other));
      assert.equal(denied.includes(`${first}/`), !strict);
    });
  }
}

test("Hono: a wildcard without a name is an error of the app", async (t) => {
  const port = await onHono(t, {}, (app, limit, handler) => app.use("/login/*", limit).get("/login/:step", handler));
  assert.equal(await statusOf(port, "/login/1"), 500);
});
