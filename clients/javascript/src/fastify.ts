/** A hook for Fastify 5 and 4. */
import type { FastifyReply, FastifyRequest } from "fastify";

import { Limit, type LimitOptions } from "./limit.js";
import type { Tollgate } from "./tollgate.js";

export type { LimitOptions } from "./limit.js";

/**
 * Returns a hook that checks each request, and answers those that are denied.
 *
 * Use it for a route, `{ onRequest: rateLimit(tollgate) }`, or for all, `app.addHook("onRequest", rateLimit(tollgate))`;
 * with `preHandler`, `by` sees the parsed body. The name is the template of the route with its prefixes. A request that
 * no route matches has none: it is only checked if you give a `name`. The client is `request.ip`: set `trustProxy` if
 * there is a proxy.
 */
export function rateLimit(tollgate: Tollgate, options: LimitOptions<FastifyRequest> = {}) {
  const limit = new Limit(tollgate, options);
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> => {
    const template = templateOf(request);
    if (options.name === undefined && template === undefined) return undefined;
    const header = (name: string) => {
      const value = request.headers[name];
      return Array.isArray(value) ? undefined : value;
    };
    const { headers, denial } = await limit.decide(request, { template, address: request.ip, header });
    reply.headers(headers);
    if (denial === undefined) return undefined;
    return reply.code(denial.status).type(denial.type).send(denial.body);
  };
}

/**
 * Returns the template of the matched route, if there is one.
 *
 * The root of a prefix also answers under a final slash. That is the same route, but Fastify gives its HEAD the template
 * with the slash, and older versions its other methods too.
 */
function templateOf({ routeOptions, server }: FastifyRequest): string | undefined {
  const { url, prefixTrailingSlash = "both" } = routeOptions;
  const isRoot = prefixTrailingSlash === "both" && server.prefix !== "" && url === `${server.prefix}/`;
  return isRoot ? server.prefix : url;
}
