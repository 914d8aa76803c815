// A real browser, and pages that are watched: what goes wrong in them is kept, and so is what the service told them.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const PACKAGES = process.env.TOLLGATE_NODE_PACKAGES;
if (!PACKAGES) throw new Error("TOLLGATE_NODE_PACKAGES names no folder: run `cargo xtask page`");
const require = createRequire(join(PACKAGES, "package.json"));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
/** Rules that the page keeps: those of WCAG 2.2 AA, and the practices that axe-core calls best. */
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

const program = execFileSync("sh", ["-c", "command -v chromium-headless-shell || true"], { encoding: "utf8" }).trim();
if (!program) throw new Error("chromium-headless-shell is missing: sudo apt-get install chromium-headless-shell");
// As root there is no sandbox, and in a container little shared memory.
export const browser = await chromium.launch({
  executablePath: program,
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
});

/** Time in which a page shows what it will show, on a slow machine too. */
const PATIENCE = 15_000;

/** Tries until it throws no more; then the last error is the answer. */
export async function eventually(what, patience = PATIENCE) {
  const end = Date.now() + patience;
  for (;;) {
    try {
      return await what();
    } catch (error) {
      if (Date.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** Opens a page whose mistakes and requests are kept. `expected` are texts of errors in the console that belong to a test. */
export async function open(t, url, { expected = [], ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  t.after(() => context.close());
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const watched = { page, wrong: [], requests: [], answers: {}, rules: (name) => breaches(page, name) };
  const note = (text) => expected.some((part) => text.includes(part)) || watched.wrong.push(text);
  page.on(
    "console",
    (message) =>
      ["error", "warning"].includes(message.type()) && note(`console: ${message.text()} ${message.location().url}`),
  );
  page.on("pageerror", (error) => note(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    note(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) =>
    watched.requests.push({ method: request.method(), url: request.url(), body: request.postData() }),
  );
  page.on("response", async (response) => {
    const { pathname, search } = new URL(response.url());
    const path = pathname.replace(/^.*?\/v1\//, "") + search;
    if (!pathname.includes("/v1/") || response.status() !== 200) return;
    // A body is gone if the page was left meanwhile.
    const body = await response.json().catch(() => null);
    if (body) watched.answers[path] = body;
  });
  await page.exposeFunction("tollgateTestNotes", (text) => note(text));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) =>
      globalThis.tollgateTestNotes(`content security policy: ${violatedDirective} ${blockedURI}`),
    );
  });
  await page.goto(url);
  return watched;
}

/** Fails if anything in the page went wrong, or if it asked anyone but its own service. */
export async function close({ page, wrong, requests }) {
  const { origin } = new URL(page.url());
  const others = requests.filter(({ url }) => new URL(url).origin !== origin).map(({ url }) => url);
  await page.context().close();
  assert.deepEqual([...wrong, ...others], []);
}

/** Shows another view, in place. */
export async function show({ page }, fragment) {
  await page.evaluate((to) => (location.hash = to), fragment);
}

/** Asks the inspector about alice's search, until `answered` is shown. */
export async function inspect(page, answered = ".verdict-box") {
  await page.getByLabel("Value").first().fill("alice");
  if ((await page.getByLabel("Value").count()) < 2) {
    await page.getByRole("button", { name: "Another attribute" }).click();
    await page.getByLabel("Attribute", { exact: true }).last().fill("path");
    await page.getByLabel("Value").last().fill("/search");
  }
  await page.getByRole("button", { name: "Inspect", exact: true }).click();
  await page.locator(answered).first().waitFor();
}

/** Stops the page's questions, so that what it shows stays. */
export async function pause({ page }) {
  await page.getByRole("button", { name: "Pause" }).click();
  await page.locator(".pulse", { hasText: "paused" }).waitFor();
  // An answer that was under way is drawn.
  await page.waitForLoadState("networkidle");
}

/** The breaches of rules of accessibility, as texts; of one rule, or of all. */
async function breaches(page, rule) {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(AXE);
  const runOnly = rule ? { type: "rule", values: [rule] } : { type: "tag", values: RULES };
  const { violations } = await page.evaluate((options) => globalThis.axe.run(document, options), { runOnly });
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
}
