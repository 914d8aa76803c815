// Everybody can use the page: rules of accessibility, and the keyboard alone, in every view.
import assert from "node:assert/strict";
import { test } from "node:test";
import { close, eventually, inspect, open, pause, show } from "./browser.mjs";
import { Ledger } from "./ledger.mjs";
import { folder, redis, service, tokens } from "./programs.mjs";

const POLICIES = `
policies:
  - { name: search, match: { path: /search }, key: [user], quotas: [2/1d], candidate: [1/1d] }
  - { name: all, match: { path: /search }, key: global, quotas: [1000/1d] }
  - { name: watched, match: { path: /watched }, key: [user], quotas: [2/1d], mode: shadow }
  - { name: staff, match: { user: root }, exempt: true }
`;
const DOMAINS = `
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 1 }
`;
/** Where no policy applies, there is no verdict. */
const ANSWERED = ".verdict-box, main .empty";
const VIEWS = ["#/", "#/policy/search", "#/policy/nobody", "#/inspect", "#/trials", "#/policies", "#/store", "#/about"];
/** What can be reached by the keyboard, in the order of the document. */
const CONTROLS = "a[href], button, input, select, textarea, summary, [tabindex]";
/** One rule depends on colours, which differ between the schemes. */
const OF_COLOURS = "color-contrast";

export function access() {
  test("every view keeps the rules of accessibility, in light and dark, and its controls come in reading order", async (t) => {
    const store = await redis(t);
    const file = `${folder({ "tollgate.yaml": POLICIES })}/tollgate.yaml`;
    const server = await service(t, ["--config", file, "--store", store.url, "--store-timeout", "5s"]);
    const ledger = new Ledger(t, server.checks);
    const [alice, bob] = ["alice", "bob"].map((user) => ({ path: "/search", user }));
    await ledger.checkAll([alice, alice, alice, bob, { path: "/watched", user: "alice" }]);
    const seen = await open(t, `${server.admin}/`, { bypassCSP: true });
    await seen.page.locator(".strip").waitFor();
    // What is drawn anew each second would not be there when its turn comes.
    await eventually(() => assert.ok(seen.answers.live.policies[0].checks.some((value) => value !== null)));
    await pause(seen);
    for (const view of VIEWS) {
      await show(seen, view);
      await seen.page.locator("main h1").waitFor({ state: "attached" });
      if (view === "#/policy/search") await seen.page.locator("main table tbody tr").first().waitFor();
      if (view === "#/policy/search") await compute(seen.page);
      if (view === "#/inspect") await inspect(seen.page, ANSWERED);
      const closed = seen.page.locator("main details:not([open]) > summary:visible");
      while (await closed.count()) await closed.first().click();
      await examine(seen, view);
      await walk(seen, view);
    }
    await seen.page.locator("a.brand").click();
    await show(seen, "#/inspect");
    await inspect(seen.page, ANSWERED);
    for (const name of ["Reset…", "Set…", "Refund…"]) {
      await seen.page.getByRole("button", { name, exact: true }).first().click();
      await examine(seen, name);
      await seen.page.keyboard.press("Escape");
    }
    await close(seen);
  });

  test("views of a service without policies, of domains, and without a token keep them too", async (t) => {
    const { lines } = await tokens({ ops: "read" });
    const files = folder({ "tokens.jsonl": lines, "empty.yaml": "policies: []\n" });
    const empty = await service(t, ["--config", `${files}/empty.yaml`]);
    const guarded = await service(t, ["--limit", "5/1m", "--tokens", `${files}/tokens.jsonl`]);
    const domains = await service(t, ["--import", "envoy-ratelimit", folder({ "shop.yaml": DOMAINS })]);
    const descriptors = [{ entries: [{ key: "user", value: "alice" }] }];
    await fetch(`${domains.checks}/json`, { method: "POST", body: JSON.stringify({ domain: "shop", descriptors }) });
    const places = [
      [empty, ["#/", "#/trials", "#/store", "#/inspect"], ".strip"],
      [guarded, ["#/"], "form.token"],
      [domains, ["#/", "#/domains", "#/domain/shop"], ".strip"],
    ];
    for (const [server, views, ready] of places) {
      const seen = await open(t, `${server.admin}/`, { bypassCSP: true, expected: ["401"] });
      await seen.page.locator(ready).waitFor();
      for (const view of views) {
        await show(seen, view);
        await seen.page.locator("h1").first().waitFor({ state: "attached" });
        await examine(seen, view);
        await walk(seen, view);
      }
      await close(seen);
    }
  });
}

async function compute(page) {
  await page.getByRole("button", { name: "Compute" }).click();
  await page.locator(".finding").waitFor();
}

async function examine({ page, rules }, where) {
  await page.emulateMedia({ colorScheme: "light" });
  assert.deepEqual(await rules(), [], `${where}, light`);
  await page.emulateMedia({ colorScheme: "dark" });
  assert.deepEqual(await rules(OF_COLOURS), [], `${where}, dark`);
}

/** Presses Tab through the page: each control has its turn, in the order of the document, and shows that it has it. */
async function walk({ page }, where) {
  await eventually(async () => {
    const names = await page.evaluate((controls) => {
      getSelection()?.removeAllRanges();
      document.activeElement?.blur();
      const isSeen = (node) => node.checkVisibility?.({ visibilityProperty: true }) ?? node.getClientRects().length > 0;
      globalThis.walk = [...document.querySelectorAll(controls)].filter(
        (node) => node.tabIndex >= 0 && !node.disabled && isSeen(node),
      );
      return globalThis.walk.map((node) =>
        (node.getAttribute("aria-label") || node.textContent || node.id).slice(0, 40),
      );
    }, CONTROLS);
    assert.ok(names.length > 0);
    // From the start of the document: focus may have been in the middle of it.
    await page.evaluate(() => {
      document.body.tabIndex = -1;
      document.body.focus();
      document.body.removeAttribute("tabindex");
    });
    for (const [at, name] of names.entries()) {
      await page.keyboard.press("Tab");
      const found = await page.evaluate((at) => {
        const { activeElement: now } = document;
        const style = getComputedStyle(now);
        return {
          is: now === globalThis.walk[at],
          shows: now.matches(":focus-visible") && (style.outlineStyle !== "none" || style.boxShadow !== "none"),
          name: (now.getAttribute("aria-label") || now.textContent || now.id).slice(0, 40),
          positive: now.tabIndex > 0,
        };
      }, at);
      assert.deepEqual(
        { ...found, name: undefined },
        { is: true, shows: true, name: undefined, positive: false },
        `${where}: ${found.name} in place of ${name}`,
      );
    }
  });
}
