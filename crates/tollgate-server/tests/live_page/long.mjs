// node long.mjs: looks at every view of the live page in every width, and at what it costs to look at a thousand policies.
// `cargo xtask prove page` runs it.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { browser, close, eventually, open, show } from "./browser.mjs";
import { Ledger } from "./ledger.mjs";
import { behindNginx, folder, redis, service } from "./programs.mjs";
import { strip } from "./reading.mjs";

const WIDTHS = [320, 390, 768, 1280, 1600];
const VIEWS = [
  "#/",
  "#/policy/p-7",
  "#/policy/p-7?tier=5m",
  "#/inspect",
  "#/trials",
  "#/policies",
  "#/store",
  "#/about",
];
/** The most policies that the page shows. */
const MANY = 1000;
/** Milliseconds until rows have their places. */
const SETTLING = 25_000;
/** Seconds in which a page is watched. */
const WATCHED = 60;
/** Milliseconds of scripts a second with so many policies: a tenth of one processor. */
const MOST_SCRIPT = 100;
/** Bytes that the heap may grow in that time, after collections. */
const MOST_GROWTH = 2_000_000;

const policies = Array.from({ length: MANY }, (_, at) => {
  const name = at % 50 ? `p-${at}` : `a-long-name-of-a-policy.${at}-${"x".repeat(32)}`;
  const more = at % 7 ? "" : ", candidate: [1/1d]";
  const mode = at % 11 ? "" : ", mode: shadow";
  return `  - { name: ${name}, match: { path: /${at} }, key: [user], quotas: [2/1d]${more}${mode} }`;
});
const file = `${folder({ "tollgate.yaml": `policies:\n${policies.join("\n")}\n` })}/tollgate.yaml`;
const result = {};
let [parts, passed] = [0, 0];

test("the live page in every width, for long, and behind nginx", async (t) => {
  const store = await redis(t);
  const server = await service(t, ["--config", file, "--store", store.url, "--store-timeout", "5s"]);
  const ledger = new Ledger(t, server.checks);
  const some = Array.from({ length: 3 * MANY }, (_, at) => ({ path: `/${at % MANY}`, user: `user-${at % 5}` }));
  await ledger.checkAll(some);

  /** A part of the proof: one that does not pass is a violation. */
  const part = (name, run) =>
    t.test(name, async (t) => {
      parts += 1;
      await run(t);
      passed += 1;
    });

  await part("no view scrolls sideways, and none cuts a text", async (t) => {
    for (const colorScheme of ["light", "dark"]) {
      for (const width of WIDTHS) {
        const seen = await open(t, `${server.admin}/`, { viewport: { width, height: 900 }, colorScheme });
        const { page } = seen;
        await page.locator(".strip").waitFor();
        for (const view of VIEWS) {
          await show(seen, view);
          await page.locator("main h1").waitFor({ state: "attached" });
          if (view === "#/policy/p-7") await compute(page);
          if (view === "#/inspect") await inspect(page);
          await eventually(async () => assert.deepEqual(await page.evaluate(tooWide), [], `${view} at ${width}`));
        }
        await close(seen);
      }
    }
  });

  await part("with a thousand policies, scripts take little time and the heap stays flat", async (t) => {
    const seen = await open(t, `${server.admin}/`);
    const session = await seen.page.context().newCDPSession(seen.page);
    await session.send("Performance.enable");
    const measure = async () => {
      await session.send("HeapProfiler.collectGarbage");
      const { metrics } = await session.send("Performance.getMetrics");
      return Object.fromEntries(metrics.map(({ name, value }) => [name, value]));
    };
    await seen.page.locator("table tbody tr").first().waitFor();
    const load = setInterval(() => ledger.checkAll(some.slice(0, 50)), 500);
    // The policies that are asked come first, and their rows are made once.
    await new Promise((resolve) => setTimeout(resolve, SETTLING));
    const [before, first] = [await measure(), seen.answers.live.seq];
    await new Promise((resolve) => setTimeout(resolve, WATCHED * 1000));
    clearInterval(load);
    const now = await measure();
    result.seconds_shown = seen.answers.live.seq - first;
    result.script_ms_a_second = (((now.ScriptDuration - before.ScriptDuration) * 1000) / WATCHED).toFixed(1);
    result.task_ms_a_second = (((now.TaskDuration - before.TaskDuration) * 1000) / WATCHED).toFixed(1);
    result.heap_mb = (now.JSHeapUsedSize / 1e6).toFixed(1);
    result.heap_growth_kb = ((now.JSHeapUsedSize - before.JSHeapUsedSize) / 1e3).toFixed(0);
    result.more_nodes = now.Nodes - before.Nodes;
    assert.ok(result.seconds_shown >= 0.8 * WATCHED, `the page fell behind: ${JSON.stringify(result)}`);
    assert.ok(Number(result.script_ms_a_second) <= MOST_SCRIPT, JSON.stringify(result));
    assert.ok(now.JSHeapUsedSize - before.JSHeapUsedSize <= MOST_GROWTH, JSON.stringify(result));
    assert.ok(now.Nodes - before.Nodes <= 1000, JSON.stringify(result));
    await close(seen);
  });

  await part("behind nginx", async (t) => {
    const origin = await behindNginx(t, server.admin, "/ops/tollgate/");
    const seen = await open(t, `${origin}/ops/tollgate/`);
    await eventually(async () => assert.equal((await strip(seen.page)).Store.figure, "up"));
    await show(seen, "#/policy/p-7");
    await seen.page.locator("main figure").waitFor();
    await close(seen);
  });
});

after(async () => {
  await browser.close();
  const figures = Object.entries(result).map((pair) => `${pair.join("=")} `);
  console.log(`RESULT prove/page ${figures.join("")}violations=${parts ? parts - passed : 1}`);
});

async function compute(page) {
  await page.getByRole("button", { name: "Compute" }).click();
  await page.locator(".finding").waitFor();
}

async function inspect(page) {
  await page.getByLabel("Value").first().fill("user-1");
  await page.getByRole("button", { name: "Inspect", exact: true }).click();
  await page.locator(".verdict-box").waitFor();
}

/** What is wider than the page, except what scrolls by itself. */
function tooWide() {
  const wide = document.documentElement.clientWidth;
  const found =
    document.documentElement.scrollWidth > wide ? [`the page: ${document.documentElement.scrollWidth}`] : [];
  for (const node of document.querySelectorAll("main *, header *, .strip *, footer *")) {
    const { width, right } = node.getBoundingClientRect();
    if (width && right > wide + 1 && !node.closest(".scroll, svg, .places, pre")) {
      found.push(`${node.tagName}.${node.className}: ${Math.round(right)}`);
    }
  }
  return found.slice(0, 3);
}
