// node look.mjs PAGE [FOLDER]: opens a report in a real browser, and prints what is wrong with it as JSON, an empty list if
// nothing is. With a folder, it also writes pictures and a print there.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename, join, resolve } from "node:path";
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
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
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

const page = await open({});
const table = page.locator(".table", { has: page.locator("h3", { hasText: /^Policies$/ }) }).locator("table");
if (await table.locator("tbody tr").count() > 1) {
  await check("sorting", async () => {
    const column = () => table.locator("tbody tr td:nth-child(4)").allInnerTexts();
    const numbers = async () => (await column()).map((text) => Number(text.replaceAll(",", "")));
    const before = await numbers();
    await table.getByRole("button", { name: "denied", exact: true }).click();
    assert.deepEqual(await numbers(), [...before].sort((a, b) => b - a));
    assert.equal(await table.locator("th[aria-sort=descending]").innerText(), "denied");
    await table.getByRole("button", { name: "denied", exact: true }).press("Enter");
    assert.deepEqual(await numbers(), [...before].sort((a, b) => a - b));
  });
}

// Each chart reads its table out: by arrow keys, and where the pointer is, also after the table was sorted.
const figures = await page.locator("figure").all();
for (const [number, figure] of figures.entries()) {
  await check(`chart ${number}`, async () => {
    const heads = await figure.locator("thead th").evaluateAll((heads) => heads.map((head) => head.textContent));
    const rows = await figure.locator("tbody tr").evaluateAll((rows) =>
      rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
    const chart = figure.locator(".chart");
    const { at, columns, from, says } = await chart.evaluate((chart) => ({ ...chart.dataset }));
    const expected = (place) => {
      if (columns) {
        const [row, column] = [rows[Math.floor(place / columns)], place % columns + 1];
        return `${row[0]} ${heads[column]} h · ${row[column]}`;
      }
      const said = rows[Number(from) + place].reduce((said, cell, column) => said.replace(`{${column}}`, cell), says);
      return said.replace(/(^|[^\d,.])1 (request|client)s\b/g, (_, before, one) => `${before}1 ${one}`);
    };
    const last = columns ? columns * rows.length - 1 : at.split(" ").length - 1;
    await figure.locator("summary").click();
    await figure.locator("thead button").first().click();
    const said = () => figure.locator(".readout[aria-live=polite]").textContent();
    for (const [key, place] of [["Home", 0], ["ArrowLeft", 0], ["ArrowRight", 1], ["End", last], ["ArrowRight", last]]) {
      await chart.press(key);
      assert.equal(await said(), expected(place), key);
    }
    if (columns) {
      await chart.press("Home");
      await chart.press("ArrowDown");
      assert.equal(await said(), expected(24));
    }
    const box = await chart.locator(":scope > svg").first().boundingBox();
    await page.mouse.move(box.x + 1, box.y + 2);
    assert.equal(await said(), expected(0), "the pointer at the left");
    await page.mouse.move(box.x + box.width - 1, box.y + box.height - 2);
    assert.equal(await said(), expected(last), "the pointer at the right");
  });
}

// Rules of accessibility, before and after something was used.
for (const colorScheme of ["light", "dark"]) {
  const page = await open({ colorScheme, bypassCSP: true });
  await page.evaluate(axe);
  await page.locator("details").evaluateAll((all) => all.forEach((details) => (details.open = true)));
  for (const state of ["new", "used"]) {
    const { violations } = await page.evaluate("axe.run()");
    for (const { id, nodes } of violations) wrong.push(`${colorScheme}, ${state}: ${id} at ${nodes[0].html}`);
    for (const what of ["thead button", ".chart[tabindex]"]) {
      const first = page.locator(what).first();
      if (await first.count()) await first.press(what === "thead button" ? "Enter" : "ArrowRight");
    }
  }
}

// Whatever the width, nothing but tables scrolls sideways, no text of a chart is too small or on top of another, and
// addresses and digests are in one piece.
for (const width of [320, 390, 768, 1280, 1600]) {
  const page = await open({ viewport: { width, height: 900 } });
  const seen = await page.evaluate(() => {
    const wide = document.documentElement.scrollWidth - innerWidth;
    const texts = [...document.querySelectorAll("figure svg text, figure .unit")];
    const small = texts.filter((text) => {
      const scale = text.getCTM ? text.getCTM().a : 1;
      return parseFloat(getComputedStyle(text).fontSize) * scale < 11;
    });
    const overlapping = [];
    for (const figure of document.querySelectorAll("figure")) {
      const ticks = [...figure.querySelectorAll("svg text, .unit")].map((tick) => [tick, range(tick)]);
      for (const [place, [one, a]] of ticks.entries()) {
        for (const [other, b] of ticks.slice(place + 1)) {
          const overlaps = a.left < b.right && b.left < a.right && a.top < b.bottom - 2 && b.top < a.bottom - 2;
          if (overlaps) overlapping.push(`${one.textContent} and ${other.textContent}`);
        }
      }
    }
    const broken = [...document.querySelectorAll(".whole")].filter((whole) => whole.getClientRects().length > 1);
    return { wide, small: small.length, overlapping, broken: broken.map((whole) => whole.textContent) };
    function range(element) {
      const range = document.createRange();
      range.selectNodeContents(element);
      return range.getBoundingClientRect();
    }
  });
  await check(`${width} pixels`, () => assert.deepEqual(seen, { wide: 0, small: 0, overlapping: [], broken: [] }));
}

// A browser repeats the head of a table on each sheet only if no control is in it.
await check("on paper", async () => {
  const page = await open({});
  await page.emulateMedia({ media: "print" });
  const shown = await page.locator("thead button").evaluateAll((all) => all.map((one) => getComputedStyle(one).display));
  assert.deepEqual(shown.filter((display) => display !== "contents"), []);
});

// Without scripts the same is there, and nothing that does nothing.
const plain = await open({ javaScriptEnabled: false });
await check("without scripts", async () => {
  assert.equal(await plain.locator("button, input, output, .readout, .cursor, .chart[tabindex]").count(), 0);
  assert.equal(await plain.locator("table").count(), await page.locator("table").count());
});

if (pictures) {
  const name = basename(file, ".html");
  const shoot = (page, what) => page.screenshot({ path: join(pictures, `${name}-${what}.png`), fullPage: true });
  for (const width of [390, 768, 1280, 1600]) {
    for (const colorScheme of ["light", "dark"]) {
      await shoot(await open({ colorScheme, viewport: { width, height: 900 } }), `${width}-${colorScheme}`);
    }
  }
  await page.pdf({ path: join(pictures, `${name}-print.pdf`), format: "A4" });
}
await browser.close();
console.log(JSON.stringify(wrong));
