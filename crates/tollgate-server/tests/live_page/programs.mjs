// Starts what the page is tested with: the service that cargo has built, and a Redis of its own.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const DEBUG = fileURLToPath(new URL("../../../../target/debug/tollgate", import.meta.url));
const BINARY = process.env.TOLLGATE_BINARY ?? DEBUG;
const REDIS = process.env.TOLLGATE_REDIS_SERVER ?? "redis-server";
const NGINX = process.env.TOLLGATE_NGINX ?? "nginx";
/** Enough for a start on a busy machine. */
const PATIENCE = 20_000;

// The service warns of variables that it does not know.
const ENVIRONMENT = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("TOLLGATE_")));

const running = new Set();
const folders = new Set();
// Whatever ends this process, nothing that it has started stays.
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1));

/** A folder for these files, by name, which is gone at the end. */
export function folder(files) {
  const path = mkdtempSync(join(tmpdir(), "tollgate-page-"));
  folders.add(path);
  for (const [name, content] of Object.entries(files)) writeFileSync(join(path, name), content, { mode: 0o600 });
  return path;
}

/** Waits if a period of this length ends soon, such as a day of UTC: what follows lies in one. */
export async function awayFromEnds(length) {
  const left = length - (Date.now() % length);
  if (left < 12_000) await new Promise((resolve) => setTimeout(resolve, left + 50));
}

/** Starts the service on free ports, until the test is over. `log()` is all that it has written. */
export async function service(t, args, env = {}) {
  if (!existsSync(BINARY)) throw new Error(`${BINARY} is missing: cargo build --package tollgate-server`);
  const listen = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
  const program = await start(
    t,
    BINARY,
    ["serve", ...args, ...listen],
    env,
    /^checks +(\S+)\n(?:.*\n)*?admin +(\S+)$/m,
  );
  const [, checks, admin] = program.ready;
  return { ...program, checks, admin };
}

/** Starts a Redis on this port, or on a free one, until the test is over. */
export async function redis(t, port) {
  const on = port ?? (await freePort());
  const args = ["--port", String(on), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
  const program = await start(t, REDIS, args, {}, /Ready to accept connections/);
  return { ...program, port: on, url: `redis://127.0.0.1:${on}` };
}

/** Starts an nginx of one process that serves a listener below a path, and returns its origin. */
export async function behindNginx(t, url, path) {
  const port = await freePort();
  const here = folder({});
  const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${here}/${name};`,
  );
  writeFileSync(
    join(here, "nginx.conf"),
    `daemon off; master_process off; pid ${here}/pid; error_log stderr notice; events {}
http { access_log off; ${paths.join(" ")}
  server { listen 127.0.0.1:${port}; location ${path} { proxy_pass ${url}/; proxy_set_header Host $host; } } }
`,
  );
  await start(t, NGINX, ["-c", join(here, "nginx.conf"), "-e", "stderr", "-p", here], {}, /getrlimit/);
  return `http://127.0.0.1:${port}`;
}

/** Makes tokens with these scopes, by name: their texts, and the file for the service. */
export async function tokens(scopes) {
  const texts = {};
  let lines = "";
  for (const [name, scope] of Object.entries(scopes)) {
    const program = spawn(BINARY, ["token", "new", "--json", "--name", name, "--scope", scope]);
    let printed = "";
    program.stdout.on("data", (text) => (printed += text));
    await new Promise((resolve) => program.on("close", resolve));
    const { line, token } = JSON.parse(printed);
    lines += `${line}\n`;
    texts[name] = token;
  }
  return { texts, lines };
}

/** Starts a program, and waits until it writes what `ready` matches. */
async function start(t, path, args, env, ready) {
  const child = spawn(path, args, { env: { ...ENVIRONMENT, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  running.add(child);
  t.after(() => child.kill("SIGKILL"));
  let written = "";
  let isOver = false;
  const ended = new Promise((resolve) =>
    child.on("close", () => {
      isOver = true;
      running.delete(child);
      resolve();
    }),
  );
  const found = await new Promise((resolve, reject) => {
    const limit = setTimeout(() => reject(new Error(`${path} does not start:\n${written}`)), PATIENCE);
    const read = (text) => {
      written += text;
      const match = ready.exec(written);
      if (!match) return;
      clearTimeout(limit);
      resolve(match);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("error", (error) => reject(new Error(`${path} is missing (${error.message})`)));
    child.on("close", () => reject(new Error(`${path} has ended:\n${written}`)));
  });
  return {
    ready: found,
    log: () => written,
    signal: (name) => child.kill(name),
    /** Ends it, and waits for that. */
    async end(signal = "SIGTERM") {
      if (!isOver) child.kill(signal);
      await ended;
    },
  };
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
