// A key of a client is nowhere: not in the page, not in any answer, not in the log. `/v1/talkers` is the one exception, for
// those who may see keys. A second load shows that the error bounds of talkers hold.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { close, eventually, open, show } from "./browser.mjs";
import { Ledger } from "./ledger.mjs";
import { folder, service, tokens } from "./programs.mjs";
import { number, rows } from "./reading.mjs";
import { changeToken, giveToken } from "./token_form.mjs";

const POLICIES = `
policies:
  - { name: search, match: { path: /search }, key: [user], quotas: [3/1d], candidate: [1/1d] }
  - { name: crowd, match: { path: /crowd }, key: [user], quotas: [1000/1d] }
`;
const VIEWS = ["#/", "#/policy/search", "#/inspect", "#/trials", "#/policies", "#/store", "#/about"];
/** Everything that the service and its libraries can log. */
const EVERY_LINE = ["trace", ...["h2", "hyper", "hyper_util", "tokio", "tower"].map((name) => `${name}=trace`)].join();
/** More clients than a policy has rows. */
const CROWD = 300;

export function secrets() {
  test("a key of a client is nowhere but in talkers, for those who may see it", async (t) => {
    const canary = `canary-${randomBytes(8).toString("hex")}`;
    const { texts, lines } = await tokens({ web: "check,peek", reader: "read,change,overrides", keys: "read,keys" });
    const files = folder({ "tollgate.yaml": POLICIES, "tokens.jsonl": lines });
    const server = await service(
      t,
      [
        ...["--config", `${files}/tollgate.yaml`],
        ...["--tokens", `${files}/tokens.jsonl`],
        ...["--state-dir", `${files}/state`],
        ...["--talkers", "plain"],
      ],
      { RUST_LOG: EVERY_LINE },
    );
    const ledger = new Ledger(t, server.checks, texts.web);
    const attributes = { path: "/search", user: canary };
    await ledger.checkAll(Array(6).fill(attributes));
    await ledger.post("/v1/peek", { attributes });
    await ledger.post("/v1/reserve", { attributes, id: randomBytes(16).toString("hex"), cost: 1 });
    await ledger.post("/v1/check/batch", {
      requests: [{ attributes }, { attributes: { ...attributes, user: [canary, 1] } }],
    });
    await ledger.post("/v1/check", `{"attributes": {"user": "${canary}"`);
    const ask = (path, who, options) =>
      fetch(server.admin + path, {
        ...options,
        headers: { Authorization: `Bearer ${texts[who]}`, "Content-Type": "application/json" },
      });
    for (const [path, more] of [
      ["/v1/reset", {}],
      ["/v1/set", { used: 2 }],
    ]) {
      const body = JSON.stringify({ attributes, ...more });
      const reply = await ask(path, "reader", { method: "POST", body });
      const text = await reply.text();
      assert.equal(reply.status, 200, text);
      ledger.replies.push(text);
    }
    assert.deepEqual(
      ledger.replies.filter((text) => text.includes(canary)),
      [],
      "an answer to a client",
    );

    const { paths } = await (await ask("/openapi.json", "reader")).json();
    const reads = Object.keys(paths).filter((path) => paths[path].get);
    assert.ok(reads.length > 8, `${reads}`);
    for (const path of reads) {
      const query = path === "/v1/talkers" ? "?policy=search" : "";
      const reply = await ask(path + query, "reader");
      const text = `${[...reply.headers].join()} ${await reply.text()}`;
      assert.ok(!text.includes(canary), path);
    }
    const talkers = await (await ask("/v1/talkers?policy=search", "keys")).text();
    assert.ok(talkers.includes(canary), "the exception");

    const seen = await open(t, `${server.admin}/`, { expected: ["401", "429"] });
    const { page } = seen;
    await giveToken(page, texts.reader);
    await page.locator(".strip").waitFor();
    for (const view of VIEWS) {
      await show(seen, view);
      await page.locator("main h1").waitFor({ state: "attached" });
      if (view.includes("policy/")) await page.locator("main table code", { hasText: "k_" }).first().waitFor();
      assert.ok(!(await page.content()).includes(canary), view);
    }
    await changeToken(page, texts.keys);
    await show(seen, "#/policy/search");
    await page
      .locator("main table bdi", { hasText: `user=${canary}` })
      .first()
      .waitFor();
    for (const view of VIEWS.filter((view) => !view.includes("policy/"))) {
      await show(seen, view);
      await page.locator("main h1").waitFor({ state: "attached" });
      assert.ok(!(await page.content()).includes(canary), view);
    }

    await t.test("counts of a crowd are within the errors that are shown", async () => {
      const crowd = Array.from({ length: CROWD }, (_, at) => ({ path: "/crowd", user: `user-${at}` }));
      const loud = ["a", "b", "c"].flatMap((user, at) => Array(30 * (at + 1)).fill({ path: "/crowd", user }));
      // One after the other, so that the loud ones push others out and come back.
      await ledger.checkAll([...crowd, ...loud, ...crowd]);
      const truth = new Map(ledger.talkers("/crowd", "user").map(({ key, count }) => [`user=${key}`, count]));
      await show(seen, "#/policy/crowd");
      const shown = await eventually(async () => {
        const shown = await rows(page, "Talkers by checks");
        assert.deepEqual(
          shown.slice(0, 3).map(({ key }) => key),
          ["user=c", "user=b", "user=a"],
        );
        return shown;
      });
      const errors = shown.map((row) => {
        const [count, error] = [number(row.checks), number(row["too high by"])];
        const exact = truth.get(row.key);
        assert.ok(
          exact <= count && exact >= count - error,
          `${row.key}: ${exact} is not within ${error} below ${count}`,
        );
        return error;
      });
      assert.ok(Math.max(...errors) > 0, "no error is shown, so this shows nothing");
    });

    assert.match(server.log(), /first denial/, "the log has no line about the client");
    const line = server
      .log()
      .split("\n")
      .find((line) => line.includes(canary));
    assert.equal(line, undefined, "the log");
    await close(seen);
  });
}
