// Every change asks first, is refused without its scope, and does what it says.
import assert from "node:assert/strict";
import { test } from "node:test";
import { close, eventually, inspect, open, show } from "./browser.mjs";
import { Ledger } from "./ledger.mjs";
import { folder, service, tokens } from "./programs.mjs";
import { rows, strip } from "./reading.mjs";
import { changeToken, giveToken } from "./token_form.mjs";

const POLICIES = `
policies:
  - { name: search, match: { path: /search }, key: [user], quotas: [5/1d@first_hit] }
  - { name: everyone, match: { path: /search }, key: global, quotas: [1000/1d@first_hit] }
  - { name: hold, match: { path: /hold }, key: [user], quotas: [9/1d@first_hit, 3~in_flight] }
`;
/** The buttons of changes, the scopes that they need, and the paths that they ask. */
const CHANGES = [
  ["Reset", "change", "/v1/reset"],
  ["Set", "change", "/v1/set"],
  ["Refund", "change", "/v1/refund"],
  ["Override", "overrides", "/v1/overrides"],
];

export function actions() {
  test("a change asks first, is refused without its scope, and does what it says", async (t) => {
    const { texts, lines } = await tokens({ web: "check", reader: "read", ops: "read,change,overrides" });
    const files = folder({ "tollgate.yaml": POLICIES, "tokens.jsonl": lines });
    const server = await service(t, [
      ...["--config", `${files}/tollgate.yaml`],
      ...["--tokens", `${files}/tokens.jsonl`],
      ...["--state-dir", `${files}/state`],
    ]);
    const ledger = new Ledger(t, server.checks, texts.web);
    const alice = { path: "/search", user: "alice" };
    await ledger.checkAll(Array(7).fill(alice));

    /** What is used of the policies' quotas, as the service says it. */
    const used = async () => {
      const headers = { "Content-Type": "application/json", Authorization: `Bearer ${texts.ops}` };
      const body = JSON.stringify({ attributes: alice });
      const { applied } = await (await fetch(`${server.admin}/v1/inspect`, { method: "POST", headers, body })).json();
      return Object.fromEntries(
        applied.map(({ policy, quotas }) => [policy, `${quotas[0].used} of ${quotas[0].limit}`]),
      );
    };

    const seen = await open(t, `${server.admin}/`, { expected: ["401", "403"] });
    const { page } = seen;
    const changes = () => seen.requests.filter(({ method, url }) => method !== "GET" && !url.endsWith("/v1/inspect"));
    const button = (name, policy = "search") =>
      page.getByRole("group", { name: `Changes of ${policy}` }).getByRole("button", { name: `${name}…`, exact: true });
    const dialog = page.locator("dialog[open]");
    const before = { search: "5 of 5", everyone: "5 of 1000" };

    await t.test("without a token, it asks for one, and with an unknown one, again", async () => {
      await page.getByText("The figures need a token with the scope read.").waitFor();
      await giveToken(page, "tg_unknown");
      await page.getByText("It does not know this one, or it has expired.").waitFor();
      await giveToken(page, texts.web);
      await page.getByText("It lacks the scope read.").waitFor();
      await page.getByRole("button", { name: "Use another token" }).click();
      await giveToken(page, texts.reader);
      await page.locator(".strip").waitFor();
      const kept = await page.evaluate(() => [document.cookie, localStorage.length, location.href]);
      assert.deepEqual(kept, ["", 0, `${server.admin}/ui/`]);
      assert.equal(seen.requests.filter(({ url }) => /tg_/.test(url)).length, 0, "a token is in an address");
    });

    await t.test("Esc and Cancel make no change", async () => {
      await show(seen, "#/inspect");
      await inspect(page);
      assert.deepEqual(await used(), before);
      for (const [name] of CHANGES) {
        for (const cancel of ["Escape", "Cancel"]) {
          await button(name).click();
          await dialog.waitFor();
          if (cancel === "Escape") await page.keyboard.press("Escape");
          else await dialog.getByRole("button", { name: "Cancel" }).click();
          await dialog.waitFor({ state: "detached" });
          const focused = await page.evaluate(() => document.activeElement.textContent);
          assert.equal(focused, `${name}…`, "focus is back where it was");
        }
      }
      assert.deepEqual(changes(), []);
    });

    await t.test("a token without the scope is told its name", async () => {
      for (const [name, scope, path] of CHANGES) {
        const asked = changes().length;
        await button(name).click();
        await page.keyboard.press("Tab");
        assert.equal(
          await page.evaluate(() => Boolean(document.activeElement.closest("dialog"))),
          true,
          "focus leaves the dialog",
        );
        await dialog.locator("button.danger").click();
        await dialog
          .getByRole("alert")
          .filter({ hasText: `This token lacks the scope ${scope}. Nothing was done.` })
          .waitFor();
        const [request, ...more] = changes().slice(asked);
        assert.deepEqual([new URL(request.url).pathname, more], [path, []]);
        await page.keyboard.press("Escape");
      }
      assert.deepEqual(await used(), before);
    });

    await t.test("a token with the scope changes what the dialog says, and that alone", async () => {
      await changeToken(page, texts.ops);
      await show(seen, "#/inspect");
      await inspect(page);
      await change("Refund", [], ["5/1d@first_hit", "5", "4", "1"]);
      assert.deepEqual(await used(), { search: "4 of 5", everyone: "5 of 1000" });
      await change("Set", [["Used units", "3"]], ["5/1d@first_hit", "4", "3", "2"]);
      assert.deepEqual(await used(), { search: "3 of 5", everyone: "5 of 1000" });
      await change("Reset", [], ["5/1d@first_hit", "3", "0", "5"]);
      assert.deepEqual(await used(), { search: "0 of 5", everyone: "5 of 1000" });
      await change("Override", [["Limits", "9/1d@first_hit"]], ["limits", "5/1d@first_hit", "9/1d@first_hit"]);
      assert.deepEqual(await used(), { search: "0 of 9", everyone: "5 of 1000" });
      await show(seen, "#/");
      await eventually(async () => {
        const shown = await rows(page, "Policies");
        assert.match(shown.find((row) => row.policy.startsWith("search")).policy, /1 override/);
        assert.match(shown.find((row) => row.policy.startsWith("everyone")).policy, /^everyone(?!.*override)/);
        assert.equal((await strip(page)).Policies.words, "in step, 1 override");
      });
      await show(seen, "#/inspect");
      await inspect(page);
      await change("Remove override", [], ["limits", "9/1d@first_hit", "those of the policy"]);
      assert.deepEqual(await used(), { search: "0 of 5", everyone: "5 of 1000" });
    });

    await t.test("a change that concerns all clients asks twice", async () => {
      await button("Reset", "everyone").click();
      const reset = dialog.getByRole("button", { name: "Reset" });
      assert.equal(await reset.isDisabled(), true);
      await dialog.getByRole("checkbox").check();
      assert.equal(await reset.isDisabled(), false);
      await dialog.getByRole("checkbox").uncheck();
      assert.equal(await reset.isDisabled(), true);
      await dialog.getByRole("checkbox").check();
      await reset.click();
      await dialog.getByRole("heading", { name: "Done" }).waitFor();
      await dialog.getByRole("button", { name: "Close" }).click();
      assert.deepEqual(await used(), { search: "0 of 5", everyone: "0 of 1000" });
    });

    await t.test("changes where units are in flight leave none of the limits out", async () => {
      await ledger.post("/v1/reserve", { attributes: { path: "/hold", user: "alice" }, id: "1".repeat(32), cost: 1 });
      await show(seen, "#/inspect");
      await inspect(page);
      await page.getByLabel("Value").last().fill("/hold");
      await page.getByRole("button", { name: "Inspect", exact: true }).click();
      await button("Override", "hold").click();
      assert.equal(await dialog.getByLabel("Limits", { exact: true }).inputValue(), "9/1d@first_hit, 3~in_flight");
      await page.keyboard.press("Escape");
      await button("Set", "hold").click();
      await dialog.getByLabel("Used units").fill("4");
      await dialog.locator("button.danger").click();
      await dialog.getByRole("heading", { name: "Done" }).waitFor();
      await dialog.getByRole("button", { name: "Close" }).click();
      await page.getByRole("table", { name: "Counters of hold" }).getByText("4 of 9").waitFor();
      await button("Reset", "hold").click();
      assert.match(await dialog.locator(".says").textContent(), /the units in flight \(1 now\) are forgotten/);
      await dialog.locator("button.danger").click();
      await dialog.getByRole("heading", { name: "Done" }).waitFor();
      const changed = (await rows(page, "Before and after")).map((row) => Object.values(row));
      assert.deepEqual(changed, [
        ["9/1d@first_hit", "4", "0", "9"],
        ["3~in_flight", "1", "0", "–"],
      ]);
      await dialog.getByRole("button", { name: "Close" }).click();
      // The other tests inspect a search.
      await page.getByLabel("Value").last().fill("/search");
      await page.getByRole("button", { name: "Inspect", exact: true }).click();
      await button("Reset").waitFor();
    });

    await t.test("a talker leads by the keyboard to its counters, and to those of its policy alone", async () => {
      // In the period that runs.
      await ledger.checkAll([alice]);
      await show(seen, "#/policy/search");
      await page.locator("a[href^='#/inspect/search/k_']").first().focus();
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "One policy is known to apply" }).waitFor();
      assert.match(page.url(), /#\/inspect\/search\/k_[0-9a-f]{10}$/);
      assert.equal(await page.getByText("alice").count(), 0);
      assert.equal(await button("Override").count(), 0);
      await change("Set", [["Used units", "3"]], ["5/1d@first_hit", "1", "3", "2"]);
      assert.deepEqual(await used(), { search: "3 of 5", everyone: "1 of 1000" });
      await change("Reset", [], ["5/1d@first_hit", "3", "0", "5"]);
      await eventually(async () => assert.match(await page.locator(":focus").textContent(), /Reset/));
      await show(seen, "#/policy/search");
      await page.getByText("inspected", { exact: true }).first().waitFor();
    });

    await close(seen);

    /** Makes a change with these fields, and expects this row of before and after, and the new figures behind it. */
    async function change(name, fields, row) {
      await button(name).click();
      for (const [label, value] of fields) await dialog.getByLabel(label, { exact: true }).fill(value);
      await dialog.locator("button.danger").click();
      await dialog.getByRole("heading", { name: "Done" }).waitFor();
      const [shown, ...others] = await rows(page, "Before and after");
      assert.deepEqual([Object.values(shown), others], [row, []]);
      await dialog.getByRole("button", { name: "Close" }).click();
      const { search } = await used();
      await eventually(async () => assert.equal((await rows(page, "Counters of search"))[0].used, search));
    }
  });
}
