// Servers for tests: the service that was built, a Redis, and a server that answers what a test says.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** Starts the service, and returns its addresses and how to stop it. */
export async function service(t, { args = [], policies, listen = "127.0.0.1:0", env = {} }) {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-js-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const all = ["serve", "--listen", listen, "--admin-listen", "127.0.0.1:0", ...args];
  if (policies !== undefined) {
    writeFileSync(join(folder, "tollgate.yaml"), policies);
    all.push("--config", join(folder, "tollgate.yaml"));
  }
  return started(t, binary(), all, env, {
    url: /^checks +(\S+)/,
    admin: /^admin +(http\S+)/,
  });
}

/** Starts a Redis on a free port, and returns its URL and process. */
export async function redis(t) {
  const port = await freePort();
  const args = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
  const server = await started(t, "redis-server", args, {}, { ready: /(Ready to accept connections)/ });
  return { ...server, url: `redis://127.0.0.1:${port}`, port };
}

/** Starts a server on raw sockets: `play(socket, request, index)` gets each whole request. */
export async function scripted(t, play) {
  const seen = { requests: [], connections: 0, open: 0 };
  const sockets = new Set();
  const server = createServer((socket) => {
    seen.connections += 1;
    seen.open += 1;
    sockets.add(socket);
    socket.on("close", () => (seen.open -= 1));
    socket.on("error", () => {});
    let bytes = "";
    socket.on("data", (chunk) => {
      bytes += chunk.toString("latin1");
      const end = bytes.indexOf("\r\n\r\n");
      if (end < 0) return;
      const length = Number(/content-length: (\d+)/i.exec(bytes)?.[1] ?? 0);
      if (bytes.length < end + 4 + length) return;
      const [head, body] = [bytes.slice(0, end), Buffer.from(bytes.slice(end + 4, end + 4 + length), "latin1").toString()];
      bytes = bytes.slice(end + 4 + length);
      const request = { head, body, json: JSON.parse(body), path: head.split(" ")[1] };
      seen.requests.push(request);
      play(socket, request, seen.requests.length - 1);
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, seen, server };
}

/** Returns a whole HTTP answer. */
export function reply(status, body, headers = "") {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return `HTTP/1.1 ${status} Status\r\nContent-Length: ${Buffer.byteLength(text)}\r\n${headers}\r\n${text}`;
}

/** Starts a proxy in front of a service. `delay.ms` is how much later each byte arrives. */
export async function slowProxy(t, url) {
  const target = new URL(url);
  const delay = { ms: 0 };
  const sockets = new Set();
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    for (const [from, to] of [[client, upstream], [upstream, client]]) {
      sockets.add(from);
      from.on("error", () => to.destroy());
      from.on("close", () => to.destroy());
      from.on("data", (chunk) => setTimeout(() => to.writable && to.write(chunk), delay.ms));
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, delay };
}

/** Starts a program of `test/apps` in a process of its own, and returns its address. */
export async function app(t, file, env) {
  const path = fileURLToPath(new URL(`apps/${file}`, import.meta.url));
  return started(t, process.execPath, [path], env, { url: /listening on (\S+)/ });
}

/** A logger that keeps its lines. */
export function keptLines() {
  const lines = [];
  return { lines, warn: (line) => lines.push(line) };
}

function binary() {
  const debug = fileURLToPath(new URL("../../../target/debug/tollgate", import.meta.url));
  const path = process.env.TOLLGATE_BINARY ?? debug;
  if (!existsSync(path)) throw new Error(`${path} is missing: cargo build --package tollgate-server, or set TOLLGATE_BINARY`);
  return path;
}

/** Returns a port that is free now. */
export async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Starts a program, and resolves when its output has matched each pattern: the first group is then under its name. */
export function started(t, command, args, env, patterns) {
  const child = spawn(command, args, { env: { PATH: process.env.PATH, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  t.after(() => new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once("exit", resolve);
    child.kill("SIGKILL");
  }));
  return new Promise((resolve, reject) => {
    const found = { child, output: "" };
    child.on("error", (error) => reject(new Error(`${command} does not start (${error.message}): install it`)));
    child.on("exit", (code) => reject(new Error(`${command} ended with ${code}:\n${found.output}`)));
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => {
        found.output += `${line}\n`;
        for (const [name, pattern] of Object.entries(patterns)) found[name] ??= pattern.exec(line)?.[1];
        if (Object.keys(patterns).every((name) => found[name] !== undefined)) resolve(found);
      });
    }
  });
}
