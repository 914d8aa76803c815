import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { version } from "../dist/version.js";

test("the version in requests is that of the package", () => {
  assert.equal(version, JSON.parse(readFileSync(new URL("../package.json", import.meta.url))).version);
});
