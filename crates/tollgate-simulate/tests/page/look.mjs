// node look.mjs PAGE [FOLDER]: opens a report in a real browser, and prints what is wrong with it as JSON, an empty list if
// nothing is. With a folder, it also writes pictures and a print there.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [file, pictures] = process.argv.slice(2);
const url = pathToFileURL(resolve(file)).href;
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
  page.on("request", (request) => request.url() === url || wrong.push(`request for ${request.url()}`));
  page.on("console", (message) => wrong.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
  await page.goto(url);
  return page;
}

async function check(name, what) {
  try {
    await what();
  } catch (error) {
    wrong.push(`${name}: ${error.message}`);
  }
}

// Sorting by a column, and sliding along a curve.
const page = await open({});
await check("sorting", async () => {
  const table = page.locator("table", { has: page.locator("caption", { hasText: /^Policies$/ }) });
  const column = () => table.locator("tbody tr td:nth-child(4)").allInnerTexts();
  const numbers = async () => (await column()).map((text) => Number(text.replaceAll(",", "")));
  const before = await numbers();
  assert.ok(before.length > 1);
  await table.getByRole("button", { name: "denied", exact: true }).click();
  assert.deepEqual(await numbers(), [...before].sort((a, b) => b - a));
  assert.equal(await table.locator("th[aria-sort=descending]").innerText(), "denied");
  await table.getByRole("button", { name: "denied", exact: true }).press("Enter");
  assert.deepEqual(await numbers(), [...before].sort((a, b) => a - b));
});
await check("sliding", async () => {
  const curve = page.locator(".curve").first();
  const range = curve.getByRole("slider");
  const rows = await curve.locator("tbody tr").evaluateAll((rows) =>
    rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
  const today = rows.findIndex((row) => row[5].includes("today"));
  for (const [key, place] of [["ArrowRight", today + 1], ["Home", 0], ["End", rows.length - 1]]) {
    await range.press(key);
    const [limit, denied, share, clients, ofClients] = rows[place];
    const said = await curve.locator("output").innerText();
    const expected = `Limit ${limit}: denied requests ${denied} (${share}), denied clients ${clients} (${ofClients})`;
    assert.equal(said, expected);
    assert.equal(await range.getAttribute("aria-valuetext"), limit);
  }
});

// Rules of accessibility, before and after something was used.
for (const colorScheme of ["light", "dark"]) {
  const page = await open({ colorScheme, bypassCSP: true });
  await page.evaluate(axe);
  await page.locator("details").evaluateAll((all) => all.forEach((details) => (details.open = true)));
  for (const state of ["new", "used"]) {
    const { violations } = await page.evaluate("axe.run()");
    for (const { id, nodes } of violations) wrong.push(`${colorScheme}, ${state}: ${id} at ${nodes[0].html}`);
    await page.locator("thead button").first().click();
    await page.getByRole("slider").first().press("ArrowRight");
  }
}

// Without scripts the same is there, and nothing that does nothing.
const plain = await open({ javaScriptEnabled: false });
await check("without scripts", async () => {
  assert.equal(await plain.locator("button, input, output").count(), 0);
  assert.equal(await plain.locator("table").count(), await page.locator("table").count());
});

if (pictures) {
  for (const colorScheme of ["light", "dark"]) {
    const page = await open({ colorScheme });
    await page.screenshot({ path: join(pictures, `${colorScheme}.png`), fullPage: true });
  }
  const narrow = await open({ viewport: { width: 320, height: 800 } });
  await narrow.screenshot({ path: join(pictures, "narrow.png"), fullPage: true });
  await plain.screenshot({ path: join(pictures, "plain.png"), fullPage: true });
  await page.pdf({ path: join(pictures, "print.pdf"), format: "A4" });
}
await browser.close();
console.log(JSON.stringify(wrong));
