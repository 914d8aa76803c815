// node look_at_burst.mjs CHOOSING.MD: opens the interactive picture of that page in a real browser, and prints what is
// wrong with it as JSON, an empty list if nothing is.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const source = resolve(process.argv[2]);
const base = pathToFileURL(dirname(source)).href + "/";
const markdown = await readFile(source, "utf8");
// The part of the page that has the picture, without anything else.
const [part] = markdown.match(/<picture>(?:(?!<picture>).)*<\/picture>\s*<script src="pictures\/burst\.js"><\/script>/s);
const folder = await mkdtemp(join(tmpdir(), "tollgate-burst-"));
const file = join(folder, "page.html");
await writeFile(file, `<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="color-scheme" content="light dark">
<base href="${base}"><title>Burst</title><main><h1>Burst</h1>${part}</main></html>`);
const url = pathToFileURL(file).href;
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const wrong = [];

const browser = await chromium.launch({
  executablePath: execFileSync("sh", ["-c", "command -v chromium-headless-shell"], { encoding: "utf8" }).trim(),
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});

async function open(options) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  // The page's own pictures and script, and nothing after it was loaded.
  let isLoaded = false;
  page.on("request", (request) => {
    const isOwn = request.url() === url || request.url().startsWith(`${base}pictures/`);
    if (isLoaded || !isOwn) wrong.push(`request for ${request.url()}`);
  });
  page.on("console", (message) => wrong.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
  await page.goto(url);
  isLoaded = true;
  return page;
}

async function check(name, what) {
  try {
    await what();
  } catch (error) {
    wrong.push(`${name}: ${error.message}`);
  }
}

const page = await open({});
const output = page.locator(".burst output");
const figure = page.locator(".burst svg text").last();
const dots = async () => [await page.locator(".burst .allowed").count(), await page.locator(".burst .denied").count()];
/** The sentence, the dots and the figure below them say the same. */
async function expect(requests, admitted, busiest) {
  const denied = requests - admitted;
  const sentence = `${requests} requests: ${admitted} admitted, ${denied} denied.`;
  assert.equal((await output.innerText()).slice(0, sentence.length), sentence);
  assert.deepEqual(await dots(), [admitted, denied]);
  if (busiest) assert.equal(await figure.textContent(), `busiest 60 seconds: ${busiest} admitted`);
}
await check("limits", async () => {
  await expect(10, 10, 10);
  await page.getByLabel("Limit").selectOption("5/1m, 2/10s");
  await expect(10, 4, 4);
  await page.getByLabel("Limit").selectOption("5/1m@first_hit");
  await expect(10, 5, 5);
});
await check("buttons", async () => {
  await page.getByRole("button", { name: "Clear" }).click();
  await expect(0, 0);
  await page.getByRole("button", { name: "Even traffic" }).press("Enter");
  await expect(15, 15, 5);
  await page.getByLabel("Limit").selectOption("5/1m");
  await page.getByRole("button", { name: "Ten at once" }).click();
  await expect(10, 5, 5);
});
await check("clicks", async () => {
  const { width, height } = await page.locator(".burst svg").boundingBox();
  await page.locator(".burst svg").click({ position: { x: width * 0.6, y: height / 2 } });
  await expect(11, 6);
});

// Rules of accessibility, before and after something was used.
for (const colorScheme of ["light", "dark"]) {
  const page = await open({ colorScheme, bypassCSP: true });
  await page.evaluate(axe);
  for (const state of ["new", "used"]) {
    const { violations } = await page.evaluate("axe.run()");
    for (const { id, nodes } of violations) wrong.push(`${colorScheme}, ${state}: ${id} at ${nodes[0].html}`);
    await page.getByRole("button", { name: "Ten at once" }).click();
  }
}

// Without scripts the still picture stays.
const plain = await open({ javaScriptEnabled: false });
await check("without scripts", async () => {
  assert.ok(await plain.getByRole("img", { name: /^Five requests/ }).isVisible());
  assert.equal(await plain.locator("button, select, output").count(), 0);
});

await browser.close();
await rm(folder, { recursive: true });
console.log(JSON.stringify(wrong));
