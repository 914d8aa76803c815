// Clients choose the texts that an administrator reads here. Whatever they choose, it stays a text.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { test } from "node:test";
import { close, eventually, open, show } from "./browser.mjs";
import { Ledger } from "./ledger.mjs";
import { folder, service, tokens } from "./programs.mjs";

const IMAGE = `<img src=x onerror="globalThis.hit = 1">`;
const KEYS = [
  IMAGE,
  `</td><script>globalThis.hit = 1</script>`,
  `<svg/onload=globalThis.hit=1>`,
  `"><iframe src="https://evil.example/">`,
  "\u202etxt.exe\u202c\u2066\u200f",
  "\u0000\u0001\u001b[2J\u007f\u0085",
  "a\u2028b\r\nc\td",
  `<a href="javascript:globalThis.hit=1">x</a>`,
  "`code` ${globalThis.hit = 1} {{hit}}",
  "k".repeat(1024),
  "\ud83d\udc69\u200d\ud83d\udc67 \u0644\u0627",
];
const POLICIES = `
policies:
  - { name: search, match: { path: /search }, key: [user], quotas: [1/1d] }
  - { name: "long.name-${"n".repeat(40)}", match: { path: /long }, key: [user], quotas: [1/1d] }
`;
const DOMAIN = `${IMAGE}\u202e`;
const DOMAINS = `
domain: ${JSON.stringify(DOMAIN)}
descriptors:
  - key: "<b>user</b>\\u202e"
    rate_limit: { unit: day, requests_per_unit: 1 }
`;
/** Letters that no view may write as they are. */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/;
const VIEWS = ["#/", "#/policy/search", "#/inspect", "#/trials", "#/policies", "#/store", "#/domains", "#/about"];

export function hostile() {
  test("keys that look like HTML stay texts, in every view", async (t) => {
    const { texts, lines } = await tokens({ web: "check", ops: "read,keys" });
    const files = folder({ "tollgate.yaml": POLICIES, "tokens.jsonl": lines });
    const server = await service(t, [
      ...["--config", `${files}/tollgate.yaml`],
      ...["--tokens", `${files}/tokens.jsonl`],
      ...["--talkers", "plain"],
    ]);
    const ledger = new Ledger(t, server.checks, texts.web);
    for (const user of KEYS) await ledger.checkAll(Array(3).fill({ path: "/search", user }));
    // What is no request is counted nowhere.
    const bad = await fetch(`${server.checks}/v1/check?user=%ff%fe%c0%80`, {
      headers: { Authorization: `Bearer ${texts.web}` },
    });
    assert.equal(bad.status, 400);
    writeFileSync(
      `${files}/tollgate.yaml`,
      `policies: [{ name: ${JSON.stringify(`${IMAGE}\u202e`)}, quotas: [1/1d] }]`,
    );
    server.signal("SIGHUP");

    const seen = await open(t, `${server.admin}/`, { expected: ["401"] });
    const { page } = seen;
    await page.getByLabel("Token").fill(texts.ops);
    await page.getByRole("button", { name: "Open" }).click();
    await page.locator(".strip").waitFor();
    for (const view of VIEWS) {
      await show(seen, view);
      await page.locator("main h1").waitFor({ state: "attached" });
      if (view === "#/policy/search") await readsTalkers(page);
      if (view === "#/inspect") await inspects(page);
      if (view === "#/policies") await page.locator("ol.entries li.failed").waitFor();
      await changedNothing(page, view);
    }
    for (const name of [IMAGE, "\u202e%00", "constructor", "__proto__"]) {
      await show(
        seen,
        `#/policy/${encodeURIComponent(name)}?tier=${encodeURIComponent(IMAGE)}&period=${encodeURIComponent(IMAGE)}`,
      );
      await page.getByText("There is no policy of this name now.").waitFor();
      await changedNothing(page, name);
    }
    for (const fragment of [
      "#/policy/%ff%c0",
      "#/%E0%A4%A",
      "#/toString",
      `#/?find=${encodeURIComponent(IMAGE)}&sort=constructor&page=1e9`,
    ]) {
      await show(seen, fragment);
      await page.locator("main h1").waitFor({ state: "attached" });
      await changedNothing(page, fragment);
    }
    expectOwnRequests(seen, server.admin);
    await close(seen);
  });

  test("domains and rules that look like HTML stay texts", async (t) => {
    const server = await service(t, ["--import", "envoy-ratelimit", folder({ "shop.yaml": DOMAINS })]);
    const descriptors = [{ entries: [{ key: "<b>user</b>\u202e", value: IMAGE }] }];
    for (let at = 0; at < 3; at += 1) {
      await fetch(`${server.checks}/json`, { method: "POST", body: JSON.stringify({ domain: DOMAIN, descriptors }) });
    }
    const seen = await open(t, `${server.admin}/ui/#/domains`);
    const { page } = seen;
    await page.getByRole("link", { name: IMAGE }).click();
    await page.locator("main h1", { hasText: IMAGE }).waitFor();
    await eventually(async () => assert.match(await page.locator("main dl.facts").textContent(), /Over2 \(66\.7 %\)/));
    await page.locator("table", { has: page.locator("caption", { hasText: "Talkers by checks" }) }).waitFor();
    await changedNothing(page, "domain");
    await show(seen, "#/domains");
    await page.getByRole("link", { name: IMAGE }).waitFor();
    await changedNothing(page, "domains");
    expectOwnRequests(seen, server.admin);
    await close(seen);
  });
}

/** That keys are there, and as texts, is what makes the rest of the test worth something. */
async function readsTalkers(page) {
  const shown = await eventually(async () => {
    const shown = (await page.locator("main table bdi").allTextContents()).join("\n");
    assert.ok(shown.includes(`user=${IMAGE}`), shown);
    return shown;
  });
  assert.ok(shown.includes("\\u202etxt.exe\\u202c"), "a direction character is written out");
  assert.ok(shown.includes("\\u0000\\u0001\\u001b[2J"), "a control character is written out");
}

async function inspects(page) {
  for (const key of KEYS) {
    await page.getByLabel("Value").first().fill(key);
    await page.getByRole("button", { name: "Inspect", exact: true }).click();
    await page.locator(".verdict-box").waitFor();
  }
  await page.getByLabel("Attribute", { exact: true }).first().fill(IMAGE);
  await page.getByRole("button", { name: "Inspect", exact: true }).click();
  await page.getByRole("button", { name: "Inspect", exact: true, disabled: false }).waitFor();
}

async function changedNothing(page, where) {
  const found = await page.evaluate(() => ({
    hit: globalThis.hit,
    tags: document.querySelectorAll("main :is(img, script, iframe, b, [onload], [onerror]), main a:not([href^='#/'])")
      .length,
    text: document.body.textContent,
    title: document.title,
    wide: document.documentElement.scrollWidth - innerWidth,
  }));
  assert.deepEqual([found.hit, found.tags], [undefined, 0], where);
  const written = found.text.replace(/\n/g, " ");
  assert.equal(
    HIDDEN.exec(written)?.[0].codePointAt(0),
    undefined,
    `${where}: ${written.match(RegExp(`.{0,20}${HIDDEN.source}`))?.[0]}`,
  );
  assert.ok(found.wide <= 0, `${where} scrolls sideways by ${found.wide}`);
}

function expectOwnRequests({ requests }, origin) {
  const known = RegExp(
    `^${origin}/(ui/[a-z_./]*|v1/(live|live/series|talkers|inspect|policies/history|whatif)(\\?.*)?|)$`,
  );
  assert.deepEqual(
    requests.filter(({ url }) => !known.test(url)).map(({ url }) => url),
    [],
  );
}
