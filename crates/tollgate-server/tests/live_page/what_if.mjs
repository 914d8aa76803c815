// What another limit would have done, against counts of the ledger.
import assert from "node:assert/strict";
import { test } from "node:test";
import { close, eventually, open } from "./browser.mjs";
import { Ledger } from "./ledger.mjs";
import { awayFromEnds, folder, service } from "./programs.mjs";
import { figure, isShare, rows } from "./reading.mjs";

const POLICIES = `
policies:
  - { name: search, match: { path: /search }, key: [user], quotas: [9/1d] }
`;
const DAY = 86_400_000;

export function whatIf() {
  test("the curve of another limit has the counts that its clients' requests give", async (t) => {
    // The windows are days: all requests lie in one.
    await awayFromEnds(DAY);
    const server = await service(t, ["--config", `${folder({ "tollgate.yaml": POLICIES })}/tollgate.yaml`]);
    const ledger = new Ledger(t, server.checks);
    const users = Array.from({ length: 12 }, (_, at) => Array(at + 1).fill({ path: "/search", user: `user-${at}` }));
    await ledger.checkAll(users.flat());
    const asked = ledger.talkers("/search", "user").map(({ count }) => count);
    // What is no quota is an error of the service, which a browser lists too.
    const seen = await open(t, `${server.admin}/ui/#/policy/search`, { expected: ["400"] });
    const { page } = seen;
    const compute = async (quota) => {
      await page.getByLabel("Quota", { exact: true }).fill(quota);
      await page.getByRole("button", { name: "Compute" }).click();
    };

    await compute("4/1d");
    const details = page.locator("details", { has: page.locator("caption", { hasText: "Denied at each limit" }) });
    await details.locator("summary").click();
    const shown = await rows(page, "Denied at each limit");
    assert.ok(shown.length > 5);
    assert.ok(shown.some(({ quota }) => quota === "4/1d"));
    for (const row of shown) {
      const limit = Number(row.quota.split("/")[0]);
      const requests = asked.reduce((sum, count) => sum + Math.max(0, count - limit), 0);
      const clients = asked.filter((count) => count > limit).length;
      assert.equal(row["requests denied"], figure(requests), row.quota);
      assert.equal(row["clients denied"], figure(clients), row.quota);
      assert.equal(row.quota, `${limit}/1d`);
    }
    await page.getByText("The counts are exact for these requests.").waitFor();

    // The slider is at the limit that was asked for, and goes on by the keyboard.
    const sentence = page.locator(".finding");
    const says = async (limit) => {
      const text = await sentence.textContent();
      const requests = asked.reduce((sum, count) => sum + Math.max(0, count - limit), 0);
      const [, quota, ofRequests, ofClients] = /^With (\S+), (.*) of the requests .*, and (.*) of the clients/.exec(
        text,
      );
      assert.equal(quota, `${limit}/1d`);
      isShare(ofRequests, requests, ledger.checks);
      isShare(ofClients.replace(/ \(.*/, ""), asked.filter((count) => count > limit).length, asked.length);
    };
    await says(4);
    await page.getByLabel("Limit", { exact: true }).press("ArrowRight");
    await says(5);
    await page.locator("code", { hasText: "candidate: [5/1d]" }).waitFor();

    await compute("nonsense");
    await eventually(async () => assert.match(await page.locator("main .problem").textContent(), /nonsense|quota/));
    // Figures are those of the last second that has ended.
    await eventually(async () => {
      const { totals } = await (await fetch(`${server.admin}/v1/live`)).json();
      assert.equal(totals.checks, ledger.checks, "a question was counted");
    });
    await close(seen);
  });
}
