// What the apps of `cargo xtask prove clients` share. xtask/src/prove_clients/apps.rs says what an app answers.
import { Agent, request } from "node:http";

import { Redis } from "ioredis";
import { Tollgate } from "tollgate-client";

export const [host, port] = [process.env.LISTEN.split(":")[0], Number(process.env.LISTEN.split(":")[1])];
export const tollgate = new Tollgate({ timeout: Number(process.env.TIMEOUT) * 1000 });
/** A client of the Redis that the service counts in. */
export const redis = new Redis(process.env.REDIS_URL);
export const hour = 3_600_000;
/** The limit of the adapter. */
export const limit = Number(process.env.LIMIT);
/** The limit of what is only measured. */
export const unlimited = 1_000_000_000;

const agent = new Agent({ keepAlive: true });
const check = new URL("/v1/check", process.env.TOLLGATE_URL);

/**
 * Makes a plain request to the service: what the client is measured against. It has no bound and no answer for failures.
 * It keeps connections alive and parses the answer's JSON.
 */
export function bare(user) {
  const body = JSON.stringify({ attributes: { user, action: "search" } });
  const headers = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) };
  return new Promise((resolve, reject) => {
    const sent = request(check, { method: "POST", agent, headers }, (response) => {
      const chunks = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString();
        if (JSON.parse(text).allowed) resolve();
        else reject(new Error(text));
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
