/** Middleware for Hono 4.8 and later. */
import type { Context, MiddlewareHandler } from "hono";
import { routePath } from "hono/route";

import { Limit, type LimitOptions } from "./limit.js";
import type { Tollgate } from "./tollgate.js";

/** Options of the middleware. Hono itself does not know the client's address: give `by` or `connInfo`. */
export interface HonoLimitOptions extends LimitOptions<Context> {
  /** `getConnInfo` of the adapter, such as `@hono/node-server/conninfo`. The client is then its remote address. */
  connInfo?: ((context: Context) => { remote: { address?: string | undefined } }) | undefined;
}

/**
 * Returns a middleware that checks each request, and answers those that are denied.
 *
 * Put it on a route, `app.post("/login", rateLimit(tollgate, { connInfo: getConnInfo }), login)`, and its name is the
 * template of the route. With `app.use("*", ...)`, give it a `name`.
 */
export function rateLimit(tollgate: Tollgate, options: HonoLimitOptions): MiddlewareHandler {
  const limit = new Limit(tollgate, options, ["connInfo"]);
  const { by, connInfo } = options;
  if ((by === undefined) === (connInfo === undefined)) throw new TypeError("give either by or connInfo: Hono does not know the client's address");
  return async (context, next) => {
    const path = routePath(context);
    const facts = {
      template: path.includes("*") ? undefined : path,
      address: connInfo?.(context).remote.address,
      header: (name: string) => context.req.header(name),
    };
    const { headers, denial } = await limit.decide(context, facts);
    if (denial !== undefined) return context.newResponse(denial.body, denial.status as 429, { ...headers, "content-type": denial.type });
    await next();
    for (const [name, value] of Object.entries(headers)) context.res.headers.set(name, value);
    return undefined;
  };
}
