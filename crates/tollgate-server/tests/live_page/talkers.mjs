// From a talker to the inspector by its id, and to its counters, without its key.
import assert from "node:assert/strict";
import { test } from "node:test";
import { close, eventually, open, show } from "./browser.mjs";
import { Ledger } from "./ledger.mjs";
import { awayFromEnds, folder, service } from "./programs.mjs";
import { rows } from "./reading.mjs";

const POLICIES = `
policies:
  - { name: search, match: { path: /search }, key: [user], quotas: [5/1d@first_hit] }
`;
const PERIOD = 300_000;

export function talkers() {
  test("a talker leads to its counters by its id, and a typed client is found among talkers", async (t) => {
    await awayFromEnds(PERIOD);
    const server = await service(t, ["--config", `${folder({ "tollgate.yaml": POLICIES })}/tollgate.yaml`]);
    const ledger = new Ledger(t, server.checks);
    const loads = [
      ["alice-key", 9],
      ["bob-key", 7],
      ["carol-key", 2],
    ];
    await ledger.checkAll(loads.flatMap(([user, times]) => Array(times).fill({ path: "/search", user })));
    const used = async (user) => {
      const body = JSON.stringify({ attributes: { path: "/search", user } });
      const headers = { "Content-Type": "application/json" };
      const reply = await fetch(`${server.admin}/v1/inspect`, { method: "POST", headers, body });
      return (await reply.json()).applied[0].quotas[0].used;
    };

    // An id that no period has is an error of the service, which a browser lists too.
    const seen = await open(t, `${server.admin}/ui/#/policy/search`, { expected: ["404"] });
    const { page } = seen;
    const talker = (by, at) =>
      page
        .locator("table", { has: page.locator("caption", { hasText: `Talkers by ${by}` }) })
        .locator("tbody tr")
        .nth(at);
    await talker("denied", 0).getByRole("link").press("Enter");
    await page.locator(".verdict-box", { hasText: "Denied" }).waitFor();
    assert.match(await page.evaluate(() => location.hash), /^#\/inspect\/search\/k_[0-9a-f]{10}$/);
    assert.equal((await rows(page, "Counters of search"))[0].used, "5 of 5");

    await page.getByRole("group", { name: "Changes of search" }).getByRole("button", { name: "Reset…" }).click();
    const dialog = page.locator("dialog[open]");
    assert.equal(await used("alice-key"), 5, "it did not ask");
    await dialog.locator("button.danger").click();
    await dialog.getByRole("heading", { name: "Done" }).waitFor();
    await dialog.getByRole("button", { name: "Close" }).click();
    assert.deepEqual([await used("alice-key"), await used("bob-key")], [0, 5]);
    await eventually(async () => assert.equal((await rows(page, "Counters of search"))[0].used, "0 of 5"));
    const asked = JSON.stringify([seen.requests, seen.answers, await page.content()]);
    assert.ok(!/alice-key|bob-key/.test(asked), "a key is in the page");

    // A question about one view is not asked over another one.
    await page.getByRole("button", { name: "Refund…" }).click();
    await dialog.waitFor();
    await page.goBack();
    await dialog.waitFor({ state: "detached" });

    // "Is it carol?" Her attributes are typed, and her row is marked.
    await show(seen, "#/inspect");
    await page.getByLabel("Value").first().fill("carol-key");
    await page.getByRole("button", { name: "Another attribute" }).click();
    await page.getByLabel("Attribute", { exact: true }).last().fill("path");
    await page.getByLabel("Value").last().fill("/search");
    await page.getByRole("button", { name: "Inspect", exact: true }).click();
    await page.locator(".verdict-box", { hasText: "Allowed" }).waitFor();
    await show(seen, "#/policy/search");
    await eventually(async () => {
      const marked = (await rows(page, "Talkers by checks")).map(({ key }) => key.endsWith("inspected"));
      assert.deepEqual(marked, [true, false, true]);
    });

    await show(seen, "#/inspect/search/k_0000000000");
    await eventually(async () =>
      assert.match(await page.locator("main .problem").textContent(), /no .*talker|period/i),
    );
    await close(seen);
  });
}
