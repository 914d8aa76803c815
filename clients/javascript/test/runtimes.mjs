// A program of checks with the service that was built, in every runtime: `node test/runtimes.mjs`, or with `--install`.
//
// `runtimes/` has the runtimes as packages of npm, with its lock file. Build the package first.
import { execFileSync, spawn } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { installed } from "./installed.mjs";
import { freePort, service } from "./servers.mjs";

const here = fileURLToPath(new URL("runtimes", import.meta.url));
const folder = installed("runtimes");
for (const file of ["program.mjs", "main.mjs", "main.cjs", "worker.mjs"]) cpSync(join(here, file), join(folder, file));

const modules = (path) => join(folder, "node_modules", path);
const nodes = [18, 22, 24, 26].map((version) => modules(`node-${version}/bin/node`));
const runtimes = [
  ...[process.execPath, ...nodes].flatMap((node) => [[node, "main.mjs"], [node, "main.cjs"]]),
  [modules("@oven/bun-linux-x64/bin/bun"), "main.mjs"],
  [modules("@oven/bun-linux-x64/bin/bun"), "main.cjs"],
  [modules("@deno/linux-x64-glibc/deno"), "run", "--allow-net", "--allow-env", "--allow-read", "--allow-write", "main.mjs"],
];
const workerd = modules("@cloudflare/workerd-linux-64/bin/workerd");

const failed = [];
const missing = new Set();
if (!process.argv.includes("--install")) {
  for (const [program, ...args] of runtimes) await play(program, args.at(-1), (env) => {
    return execFileSync(program, args, { cwd: folder, env: { ...process.env, ...env }, encoding: "utf8", timeout: 60_000 });
  });
  await play(workerd, "worker.mjs", playInWorker);
}
if (failed.length > 0) throw new Error(`these runtimes fail: ${failed.join(", ")}`);
if (missing.size > 0) {
  const line = `not played, because it is not installed: ${[...missing].join(", ")}`;
  // npm leaves optional packages out without an error. All of them are for this system: the next run installs them again.
  const hasAll = process.platform === "linux" && process.arch === "x64" && process.report.getReport().header.glibcVersionRuntime;
  if (!hasAll) console.log(line);
  else {
    rmSync(join(folder, "installed.json"), { force: true });
    throw new Error(line);
  }
}

/** Plays the program in a runtime, with services of its own, and prints what it says. */
async function play(program, file, run) {
  if (!existsSync(program)) return missing.add(program);
  const version = execFileSync(program, ["--version"], { encoding: "utf8" }).split("\n")[0];
  const name = `${/[^/]+$/.exec(program)} ${version}, ${file}`;
  const ends = [];
  const t = { after: (end) => ends.push(end) };
  const sockets = mkdtempSync(join(tmpdir(), "tollgate-js-"));
  try {
    const args = ["--limit", "20/1h", "--key", "user", "--caller-quotas"];
    const { url } = await service(t, { args });
    const unix = `unix:${join(sockets, "tollgate.sock")}`;
    await service(t, { args, listen: unix });
    const gone = `http://127.0.0.1:${await freePort()}`;
    console.log(`${name}: ${(await run({ URL_TCP: url, URL_UNIX: unix, URL_GONE: gone }, t)).trim()}`);
  } catch (error) {
    console.log(`${name}: FAILED\n${error.stack}\n${error.stdout ?? ""}`);
    failed.push(name);
  } finally {
    for (const end of ends.reverse()) await end();
    rmSync(sockets, { recursive: true, force: true });
  }
}

/** Bundles the worker as its tools do, and asks it for the result. */
async function playInWorker({ URL_TCP, URL_GONE }, t) {
  const bundle = ["worker.mjs", "--bundle", "--format=esm", "--conditions=workerd,worker,browser", "--outfile=bundle.mjs", "--log-level=error"];
  execFileSync(modules(".bin/esbuild"), bundle, { cwd: folder });
  const port = await freePort();
  const bindings = Object.entries({ URL_TCP, URL_GONE }).map(([name, text]) => `(name = "${name}", text = "${text}")`);
  writeFileSync(join(folder, "config.capnp"), `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .worker), (name = "internet", network = (allow = ["public", "private"]))],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  modules = [(name = "worker", esModule = embed "bundle.mjs")],
  compatibilityDate = "2026-01-01",
  bindings = [${bindings.join(", ")}],
);
`);
  const child = spawn(workerd, ["serve", join(folder, "config.capnp")], { stdio: "inherit" });
  t.after(() => child.kill("SIGKILL"));
  const response = await answerOf(`http://127.0.0.1:${port}/`);
  if (response.status !== 200) throw new Error(await response.text());
  return response.text();
}

/** Asks until something listens, at most for 20 s: workerd does not say that it is ready. */
async function answerOf(url) {
  const end = performance.now() + 20_000;
  for (;;) {
    try {
      return await fetch(url, { signal: AbortSignal.timeout(20_000) });
    } catch (error) {
      if (performance.now() > end) throw error;
      await sleep(50);
    }
  }
}
