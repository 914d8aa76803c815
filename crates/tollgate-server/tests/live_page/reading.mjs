// Reads what a page shows, as texts.
import assert from "node:assert/strict";

const squeeze = (text) => text.replace(/\s+/g, " ").trim();

/** The facts of a list, by their names. */
export async function facts(page, list) {
  const pairs = await page
    .locator(list)
    .first()
    .locator("div")
    .evaluateAll((all) =>
      all
        .filter((one) => one.querySelector("dt"))
        .map((one) => [one.querySelector("dt").textContent, one.querySelector("dd").textContent]),
    );
  return Object.fromEntries(pairs.map((pair) => pair.map(squeeze)));
}

/** The cells of the strip: a figure, and lines of words about it, by their names. */
export async function strip(page) {
  const cells = await page.locator(".strip .cell").evaluateAll((all) =>
    all.map((cell) => [
      cell.querySelector("dt").textContent,
      {
        figure: cell.querySelector(".value").textContent,
        words: [...cell.querySelectorAll(".more > span")].map((line) => line.textContent).join(", "),
        level: cell.dataset.level ?? "good",
      },
    ]),
  );
  return Object.fromEntries(cells);
}

/** The sentence of the strip on whether limits hold. */
export async function verdict(page) {
  const words = await page.locator(".strip .verdict > :not(svg)").allTextContents();
  return squeeze(words.join(" "));
}

/** The rows of a table, each by the heads of its columns. */
export async function rows(page, caption) {
  const table = page.locator("table", { has: page.locator("caption", { hasText: caption }) }).first();
  const found = await table.evaluate((table) => {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent);
    const names = heads.map((head, at) => head || String(at));
    const lines = [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
    return lines.map((cells) => cells.map((cell, at) => [names[at], cell]));
  });
  return found.map((row) => Object.fromEntries(row.map(([name, cell]) => [name, squeeze(cell)])));
}

/** A number as people write it. */
export const figure = (number) => String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, ",");

/** The number in a text such as "1,234 checks". */
export const number = (text) => Number(/[\d,.]+/.exec(text)?.[0].replaceAll(",", ""));

/** Fails unless the text is this part of the whole in percent, as exactly as it is written. */
export function isShare(text, part, whole) {
  if (!whole) return assert.equal(text, "–");
  const exact = (part / whole) * 100;
  if (part === 0 || part === whole) return assert.equal(text, part ? "100 %" : "0 %");
  const written = /^([\d.]+) %$/.exec(text)?.[1];
  assert.ok(written, `${text} is no share`);
  const half = 0.5 * 10 ** -(written.split(".")[1]?.length ?? 0);
  assert.ok(Math.abs(Number(written) - exact) <= half * 1.001, `${text} is not ${exact} %`);
}
