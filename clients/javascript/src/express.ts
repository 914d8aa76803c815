/**
 * Middleware for Express 5 and 4.
 *
 * Put it on a route, and its name is the route's template, whatever the case or the slash of the path that was sent.
 */
import type { Request, RequestHandler } from "express";

import { Limit, type LimitOptions } from "./limit.js";
import type { Tollgate } from "./tollgate.js";

export type { LimitOptions } from "./limit.js";

/**
 * Returns a middleware that checks each request, and answers those that are denied.
 *
 * The client is `req.ip`: set `trust proxy` if there is a proxy. Without a `name`, it must be on a route:
 * `app.post("/login", rateLimit(tollgate), login)`. Express keeps no template of the path of a mounted router, and none
 * of a list of paths or an expression, so these need a `name`. So does `app.use`: Express has no route then, or still
 * the last one that has passed the request on.
 */
export function rateLimit(tollgate: Tollgate, options: LimitOptions<Request> = {}): RequestHandler {
  const limit = new Limit(tollgate, options);
  return (request, response, next) => {
    const facts = { template: templateOf(request), address: request.ip, header: (name: string) => request.get(name) };
    limit.decide(request, facts).then(({ headers, denial }) => {
      response.set(headers);
      if (denial === undefined) next();
      else response.status(denial.status).type(denial.type).send(denial.body);
    }).catch(next);
  };
}

/** Returns the template of the matched route, if it is one text. `baseUrl` is a part of the path that was sent. */
function templateOf(request: Request): string | undefined {
  const path: unknown = request.route?.path;
  return typeof path === "string" && request.baseUrl === "" ? path : undefined;
}
