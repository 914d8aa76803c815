import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { keyText } from "../dist/key.js";
import * as web from "../dist/transport-fetch.js";

const digest = (bytes) => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

test("a key is sent as it is, or as its digest if it is long or no Unicode", async () => {
  for (const key of ["a", "x".repeat(256), "ä".repeat(128), "\u0000"]) assert.equal(await keyText(key), key);
  for (const key of ["x".repeat(257), "ä".repeat(129), "€".repeat(86), "😀".repeat(65)]) assert.equal(await keyText(key), digest(key));
  assert.equal(await keyText("a\ud800"), digest("a\ufffd"));
});

test("workers make the same digests", async () => {
  assert.equal(`sha256:${await web.digest("ä".repeat(200))}`, digest("ä".repeat(200)));
  assert.match(web.randomId(), /^[0-9a-f]{32}$/);
});
