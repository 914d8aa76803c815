// Packages that a suite needs apart from those of the lock file of this package.
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/**
 * Installs what the lock file of a folder names, unless it is there, and this package as it was built.
 *
 * Returns the folder. It is below `node_modules`, so that nothing is installed among the sources.
 */
export function installed(folder) {
  const source = join(root, "test", folder);
  const target = join(root, "node_modules/.suites", folder);
  const lock = readFileSync(join(source, "package-lock.json"), "utf8");
  const done = join(target, "installed.json");
  mkdirSync(target, { recursive: true });
  if (!existsSync(done) || readFileSync(done, "utf8") !== lock) {
    for (const file of ["package.json", "package-lock.json"]) cpSync(join(source, file), join(target, file));
    const options = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"];
    execFileSync("npm", ["ci", ...options], { cwd: target, stdio: ["ignore", "ignore", "inherit"] });
    writeFileSync(done, lock);
  }
  const client = join(target, "node_modules/tollgate-client");
  rmSync(client, { recursive: true, force: true });
  for (const part of ["dist", "package.json"]) cpSync(join(root, part), join(client, part), { recursive: true });
  return target;
}
