// What a middleware counts a request by.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Limit } from "../dist/limit.js";
import { FakeTollgate } from "tollgate-client/testing";

const facts = (address) => ({ template: "/", address, header: () => undefined });

async function counted(by, address) {
  const tollgate = new FakeTollgate();
  await new Limit(tollgate, { by }).decide({}, facts(address));
  return tollgate.calls[0].attributes;
}

test("a key that is empty or too long a list is an error of the app", async () => {
  const wrong = ["", {}, { user: "" }, { user: "a", team: "" }, { groups: [] }, { groups: [""] }, { groups: Array(65).fill("a") }, { "": "a" }, ["a"], 5];
  for (const key of wrong) await assert.rejects(counted(() => key), TypeError, JSON.stringify(key));
});

test("a long text of any attribute is sent as its digest", async () => {
  const { user, groups } = await counted(() => ({ user: "x".repeat(2_000), groups: ["a", "\ud800"] }));
  assert.match(user, /^sha256:[0-9a-f]{64}$/);
  assert.equal(groups[0], "a");
  assert.match(groups[1], /^sha256:/);
});

test("an ip must be an address, from the server and from the app", async () => {
  for (const wrong of ["1.2.3.4, 5.6.7.8", "unknown", "1.2.3.4:80", "1.2.3", "01.2.3.4", "1.2.3.256", "[::1]", ":::", "1.2.3.4%eth0", "::1]/a[", "", true]) {
    await assert.rejects(counted(() => ({ ip: wrong })), TypeError, String(wrong));
    if (typeof wrong === "string") await assert.rejects(counted(undefined, wrong), TypeError, wrong);
  }
  for (const right of ["1.2.3.4", "255.0.0.1", "::", "2001:db8::1", "::ffff:1.2.3.4"]) {
    assert.deepEqual(await counted(() => ({ ip: right })), { ip: right });
    assert.deepEqual(await counted(undefined, right), { ip: right });
  }
  assert.deepEqual(await counted(undefined, "fe80::1%eth0"), { ip: "fe80::1" });
});
