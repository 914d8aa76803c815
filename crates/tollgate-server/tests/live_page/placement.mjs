// Where the page is: behind a path of a proxy, nowhere at all, and silent while nobody looks.
import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { test } from "node:test";
import { close, eventually, open } from "./browser.mjs";
import { service } from "./programs.mjs";
import { strip } from "./reading.mjs";

const BASE = "/ops/tollgate";
/** Longer than the page waits between two questions. */
const SILENCE = 2500;

export function placement() {
  test("the page works behind a path of a proxy", async (t) => {
    const server = await service(t, ["--limit", "5/1m"]);
    const { origin, foreign } = await proxy(t, server.admin);
    await fetch(`${server.checks}/v1/check?user=alice`);
    const seen = await open(t, `${origin}${BASE}/`);
    await eventually(async () => assert.match((await strip(seen.page)).Denied.words, /^0 of 1/));
    assert.equal(new URL(seen.page.url()).pathname, `${BASE}/ui/`);
    await seen.page.getByRole("link", { name: "default" }).click();
    await seen.page.locator("main figure").waitFor();
    await seen.page.reload();
    await seen.page.locator("main h1", { hasText: "default" }).waitFor();
    assert.deepEqual(foreign, [], "requests outside of its path");
    await close(seen);
  });

  test("without the page, none of its paths is there", async (t) => {
    const server = await service(t, ["--limit", "5/1m", "--dashboard", "off"]);
    const paths = ["/", "/ui/", "/ui/main.js", "/ui/index.html", "/v1/live", "/v1/live/series", "/v1/policies/history"];
    for (const path of [...paths, "/v1/talkers?policy=default"]) {
      const reply = await fetch(server.admin + path, { redirect: "manual" });
      assert.equal(reply.status, 404, path);
      assert.match(await reply.text(), /--dashboard/, path);
    }
    const headers = { "Content-Type": "application/json" };
    const inspected = await fetch(`${server.admin}/v1/inspect`, {
      method: "POST",
      headers,
      body: '{"attributes": {}}',
    });
    assert.equal(inspected.status, 404);
    assert.equal((await fetch(`${server.admin}/v1/policies`)).status, 200);
  });

  test("a hidden page asks nothing, and neither does a paused one", async (t) => {
    const server = await service(t, ["--limit", "5/1m"]);
    const seen = await open(t, `${server.admin}/ui/#/policy/default`);
    const { page, requests } = seen;
    const asks = async () => {
      const before = requests.length;
      await eventually(async () => assert.ok(requests.length > before + 1, "it does not ask"));
    };
    const isSilent = async () => {
      // What was under way may end.
      await new Promise((resolve) => setTimeout(resolve, 300));
      const before = requests.length;
      await new Promise((resolve) => setTimeout(resolve, SILENCE));
      assert.equal(requests.length, before);
    };
    // A browser without a window shows every page, so this is what it would say.
    const hide = (isHidden) =>
      page.evaluate((isHidden) => {
        Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, isHidden);
    await asks();
    await hide(true);
    await isSilent();
    await hide(false);
    await asks();
    await page.getByRole("button", { name: "Pause" }).click();
    await isSilent();
    assert.match(await page.locator(".pulse").textContent(), /^paused, .* old$/);
    await page.getByRole("button", { name: "Go on" }).click();
    await asks();
    await close(seen);
  });
}

/** A proxy that serves the admin listener below a path, and keeps what was asked elsewhere. */
async function proxy(t, admin) {
  const foreign = [];
  const server = createServer((asked, reply) => {
    if (!asked.url.startsWith(`${BASE}/`)) {
      foreign.push(asked.url);
      reply.writeHead(404).end();
      return;
    }
    const { method, headers } = asked;
    const passed = request(admin + asked.url.slice(BASE.length), { method, headers }, (answer) => {
      reply.writeHead(answer.statusCode, answer.headers);
      answer.pipe(reply);
    });
    passed.on("error", () => reply.destroy());
    asked.pipe(passed);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { origin: `http://127.0.0.1:${server.address().port}`, foreign };
}
