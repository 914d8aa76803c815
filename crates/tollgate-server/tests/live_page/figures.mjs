// Every panel shows what the service answered, and what its clients were answered.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { close, eventually, open, pause, show } from "./browser.mjs";
import { Ledger } from "./ledger.mjs";
import { awayFromEnds, folder, redis, service } from "./programs.mjs";
import { facts, figure, isShare, number, rows, strip, verdict } from "./reading.mjs";

const POLICIES = `
policies:
  - { name: search, match: { path: /search }, key: [user], quotas: [5/1d@first_hit], candidate: [3/1d@first_hit] }
  - { name: login, match: { path: /login }, key: [user], quotas: [2/1d@first_hit] }
  - { name: watched, match: { path: /watched }, key: [user], quotas: [2/1d@first_hit], mode: shadow }
  - { name: quiet, match: { path: /quiet }, key: [user], quotas: [2/1d@first_hit] }
`;
/** The policies' names are the paths that they are about. */
const NAMES = ["search", "login", "watched", "quiet"];
const PERIOD = 300_000;

/** Users who ask 2, 4, 6 ... times; the last ones are above the limit, and one row of talkers is left out. */
const load = () => [
  ...Array.from({ length: 11 }, (_, at) => Array(2 * (at + 1)).fill({ path: "/search", user: `user-${at}` })).flat(),
  ...Array.from({ length: 5 }, () => ({ path: "/login", user: "user-1" })),
  ...Array.from({ length: 4 }, () => ({ path: "/watched", user: "user-1" })),
  { path: "/elsewhere", user: "user-1" },
];

export function figures() {
  test("every panel shows the figures of the service and of its clients", async (t) => {
    const store = await redis(t);
    const files = folder({ "tollgate.yaml": POLICIES });
    const file = join(files, "tollgate.yaml");
    // Talkers count by periods of five minutes: their load lies in one.
    await awayFromEnds(PERIOD);
    const server = await service(t, ["--config", file, "--store", store.url, "--store-timeout", "5s"]);
    const ledger = new Ledger(t, server.checks);
    const seen = await open(t, `${server.admin}/`);
    const { page } = seen;
    const live = async () => (await fetch(`${server.admin}/v1/live`)).json();

    await ledger.checkAll(load());
    const denied = ledger.count(({ isAllowed }) => !isAllowed);
    const trials = NAMES.reduce((sum, name) => sum + ledger.deniedOnTrial(name), 0);
    const counted = await eventually(async () => {
      const now = await live();
      assert.equal(now.totals.checks, ledger.checks);
      return now;
    });

    await t.test("the service counts what its clients were answered", () => {
      const { totals, sources, policies } = counted;
      assert.equal(totals.denied, denied);
      assert.equal(totals.trial_denied, trials);
      assert.equal(totals.by_fallback, 0);
      for (const [word, name] of [
        ["store", "store"],
        ["local", "local"],
      ]) {
        assert.equal(
          sources[word],
          ledger.count(({ source }) => source === name),
          word,
        );
      }
      for (const row of policies) {
        const { checks, allowed, denied } = ledger.of(`/${row.name}`);
        const sum = (list) => list.reduce((all, value) => all + value, 0);
        // A policy in shadow mode decides nothing; its trial says what it would do.
        const own = row.name === "watched" ? row.shadow : row;
        const isTrial = row.name === "watched";
        assert.equal(own.allowed + own.denied, checks, row.name);
        assert.equal(own.denied, isTrial ? ledger.deniedOnTrial(row.name) : denied, row.name);
        assert.equal(sum(row.checks), isTrial ? sum(row.checks) : allowed + denied, row.name);
        assert.equal(sum(row.denials), isTrial ? sum(row.denials) : denied, row.name);
      }
    });

    await t.test("the strip", async () => {
      await eventually(async () =>
        assert.match((await strip(page)).Denied.words, RegExp(`of ${figure(ledger.checks)}`)),
      );
      await pause(seen);
      const shown = await strip(page);
      const { live: answer } = seen.answers;
      const decided = ledger.count(({ source }) => source === "store" || source === "local");
      assert.equal(
        await verdict(page),
        `Protected. Redis decided ${figure(decided)} of ${figure(ledger.checks)} checks in the last ${answer.span_seconds} s.`,
      );
      assert.equal(shown["Checks a second"].figure, figure(answer.totals.checks_now));
      assert.ok(Math.abs(number(shown["Checks a second"].words) - ledger.checks / answer.span_seconds) <= 0.51);
      isShare(shown.Denied.figure, denied, ledger.checks);
      assert.equal(shown.Denied.words, `${figure(denied)} of ${figure(ledger.checks)}, ${figure(trials)} on trial`);
      const parts = shown["Decided by"].words.split(", ");
      assert.ok(parts.includes(shown["Decided by"].figure));
      const words = { store: "store", local: "known denials", policies: "policies alone" };
      const expected = Object.entries(answer.sources).filter(([, checks]) => checks);
      assert.equal(parts.length, expected.length);
      for (const [name, checks] of expected) {
        const part = parts.find((part) => part.endsWith(words[name]));
        isShare(part?.replace(` ${words[name]}`, ""), checks, ledger.checks);
      }
      assert.deepEqual([shown.Store.figure, shown.Store.level], ["up", "good"]);
      assert.deepEqual([shown.Policies.figure, shown.Policies.words], ["version 1", "in step"]);
      assert.equal(shown.Warnings.figure, figure(answer.warnings_count));
    });

    await t.test("the table of policies", async () => {
      const shown = await rows(page, "Policies");
      assert.equal(shown.length, NAMES.length);
      for (const row of shown) {
        const name = NAMES.find((name) => row.policy.startsWith(name));
        const { checks, denied } = ledger.of(`/${name}`);
        const trial = ledger.deniedOnTrial(name);
        if (name !== "watched") assert.equal(row.denied, figure(denied), name);
        if (name !== "watched") isShare(row["denied %"], denied, checks);
        isShare(row["on trial %"], trial, ["search", "watched"].includes(name) ? checks : 0);
        const average = checks / seen.answers.live.span_seconds;
        assert.ok(
          Math.abs(number(row["checks/s"]) - average) <= (average < 9.95 ? 0.051 : 0.51),
          `${name}: ${row["checks/s"]}`,
        );
      }
      await page.getByRole("button", { name: "denied %" }).click();
      const sorted = (await rows(page, "Policies")).map((row) => Number(/[\d.]*/.exec(row["denied %"])[0]));
      assert.deepEqual(
        sorted,
        [...sorted].sort((a, b) => b - a),
      );
    });
    await page.getByRole("button", { name: "Go on" }).click();

    await t.test("the view of a policy, its chart and its talkers", async () => {
      await show(seen, "#/policy/search");
      const { checks, allowed, denied } = ledger.of("/search");
      const chart = page.locator("main figure");
      const label = await eventually(async () => {
        const label = await chart.locator("[aria-label^='Last 10 minutes:']").getAttribute("aria-label");
        assert.match(label, RegExp(`^Last 10 minutes: ${figure(checks)} checks, `));
        return label;
      });
      isShare(/checks, (.*) denied/.exec(label)[1], denied, checks);
      const about = await facts(page, "main dl.facts");
      assert.equal(about["Allowed in the last minute"], figure(allowed));
      assert.equal(number(about.Denied), denied);
      isShare(/\((.*)\)/.exec(about.Denied)[1], denied, checks);
      assert.equal(number(about["Denied by the candidate"]), ledger.deniedOnTrial("search"));
      await chart.locator("summary").click();
      const sums = await rows(page, "Last 10 minutes, in sums");
      const total = (name) => sums.reduce((sum, row) => sum + number(row[name]), 0);
      assert.deepEqual(
        [total("allowed"), total("denied"), total("on trial")],
        [allowed, denied, ledger.deniedOnTrial("search")],
      );
      for (const [by, isSo] of [
        ["checks", () => true],
        ["denied", ({ isAllowed }) => !isAllowed],
      ]) {
        const expected = ledger.talkers("/search", "user", isSo);
        const all = expected.reduce((sum, { count }) => sum + count, 0);
        const shown = await eventually(async () => {
          const shown = await rows(page, `Talkers by ${by}`);
          assert.deepEqual(
            shown.map((row) => number(row[by])),
            expected.slice(0, 10).map(({ count }) => count),
          );
          return shown;
        });
        for (const row of shown) {
          assert.equal(row["too high by"], "0");
          isShare(row.share, number(row[by]), all);
          assert.match(row.key, /^k_[0-9a-f]{10}$/);
        }
        assert.equal(new Set(shown.map(({ key }) => key)).size, shown.length);
      }
    });

    await t.test("the inspector", async () => {
      await show(seen, "#/inspect");
      await page.getByLabel("Value").first().fill("user-3");
      await page.getByRole("button", { name: "Another attribute" }).click();
      await page.getByLabel("Attribute", { exact: true }).last().fill("path");
      await page.getByLabel("Value").last().fill("/search");
      await page.getByRole("button", { name: "Inspect", exact: true }).click();
      await page.locator(".verdict-box", { hasText: "Denied" }).waitFor();
      const [row] = await rows(page, "Counters of search");
      assert.deepEqual([row.quota, row.used, row.left], ["5/1d@first_hit", "5 of 5", "0"]);
      assert.match(row["resets in"], /^(23 h 59 min|1 d)$/);
      const others = await page.locator("dl.reasons dt").allTextContents();
      assert.deepEqual(others.sort(), ["login", "quiet", "watched"]);
      await page.getByLabel("Value").first().fill("user-0");
      await page.getByRole("button", { name: "Inspect", exact: true }).click();
      await page.locator(".verdict-box", { hasText: "Allowed" }).waitFor();
      const [other] = await rows(page, "Counters of search");
      assert.deepEqual([other.used, other.left], ["2 of 5", "3"]);
      assert.equal((await live()).totals.checks, ledger.checks, "an inspection was counted");
    });

    await t.test("trials", async () => {
      await show(seen, "#/trials");
      const shown = await eventually(async () => {
        const shown = await rows(page, "Trials");
        assert.equal(shown.length, 2);
        return shown;
      });
      for (const row of shown) {
        const name = NAMES.find((name) => row.policy.startsWith(name));
        const { checks, denied } = ledger.of(`/${name}`);
        const trial = ledger.deniedOnTrial(name);
        const both = ledger.deniedOnTrial(name, ({ isAllowed }) => !isAllowed);
        assert.equal(row.checks, figure(checks), name);
        isShare(row["on trial"], trial, checks);
        isShare(row["denied now"], denied, checks);
        assert.equal(row["by both"], figure(both), name);
        assert.equal(row["only on trial"], figure(trial - both), name);
        assert.equal(row["only now"], figure(denied - both), name);
        assert.equal(row["enough data?"], `not yet: ${figure(checks)} of 2,995 checks`);
      }
    });

    await t.test("the store", async () => {
      await show(seen, "#/store");
      await page.locator("main dl.facts").waitFor();
      await pause(seen);
      const shown = await facts(page, "main dl.facts");
      const { live: answer } = seen.answers;
      assert.equal(shown.Kind, "redis");
      assert.equal(Object.entries(shown).find(([name]) => name.startsWith("Steps in"))[1], figure(answer.store.steps));
      assert.ok(answer.store.steps > 0);
      assert.equal(shown.Errors, "none");
      const servers = await rows(page, "Servers");
      assert.deepEqual(
        servers.map(({ server, state }) => [server, state]),
        [[`127.0.0.1:${store.port}`, "connected"]],
      );
      await page.getByRole("button", { name: "Go on" }).click();
    });

    await t.test("the policies, after a good and a bad reload", async () => {
      await show(seen, "#/policies");
      await page.getByText("Nothing was reloaded since the start.").waitFor();
      writeFileSync(file, POLICIES.replace("[2/1d@first_hit] }", "[7/1d@first_hit] }"));
      server.signal("SIGHUP");
      const entries = page.locator("ol.entries > li");
      await entries.filter({ hasText: "version 2 is live" }).first().waitFor();
      const text = await entries.first().textContent();
      assert.match(text, /login/);
      assert.match(text, /7\/1d@first_hit/);
      assert.equal((await facts(page, "main dl.facts")).Version, "2");
      writeFileSync(file, "policies: [{ name: search, quotas: nonsense }]");
      server.signal("SIGHUP");
      await page.getByText("The file that was read last is not live.").first().waitFor();
      await eventually(async () =>
        assert.match(await entries.first().textContent(), /version 2 stays: the reload failed/),
      );
      assert.match(await page.locator("main .notice").textContent(), /nonsense|quotas/);
      await eventually(async () => {
        const { Policies: shown } = await strip(page);
        assert.deepEqual([shown.figure, shown.words, shown.level], ["version 2", "the file is not live", "watch"]);
      });
      writeFileSync(file, POLICIES);
      server.signal("SIGHUP");
      await eventually(async () => assert.deepEqual((await strip(page)).Policies.words, "in step"));
      await eventually(async () => assert.match(await entries.first().textContent(), /version 3 is live/));
    });

    await close(seen);
  });
}
