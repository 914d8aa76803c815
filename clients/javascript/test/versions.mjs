// The suites of the frameworks, with other versions of them: `node test/versions.mjs`, or with `--install` only.
//
// `versions/` has a folder for each set of versions, with its lock file. Build the package first.
import { spawnSync } from "node:child_process";
import { cpSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { installed } from "./installed.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const suites = ["middleware", "paths", "express-rate-limit", "nestjs"];
const failed = [];

for (const name of readdirSync(join(here, "versions"))) {
  const folder = installed(`versions/${name}`);
  if (process.argv.includes("--install")) continue;
  // Modules are looked for above the file that imports them.
  rmSync(join(folder, "test"), { recursive: true, force: true });
  for (const part of ["apps", "servers.mjs", ...suites.map((suite) => `${suite}.test.mjs`)]) {
    cpSync(join(here, part), join(folder, "test", part), { recursive: true });
  }
  console.log(`versions: ${name}`);
  const files = suites.map((suite) => join(folder, "test", `${suite}.test.mjs`));
  const { status } = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" });
  if (status !== 0) failed.push(name);
}
if (failed.length > 0) throw new Error(`these versions fail: ${failed.join(", ")}`);
