// Options of the router of Fastify.
import Fastify from "fastify";

/** Returns options of Fastify. Before 5.5, those of its router were not apart. */
export function routing(options) {
  const [major, minor] = Fastify().version.split(".").map(Number);
  return major > 5 || (major === 5 && minor >= 5) ? { routerOptions: options } : { ...options };
}
