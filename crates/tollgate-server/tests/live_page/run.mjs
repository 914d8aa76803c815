// node run.mjs: tests the live page in Chromium, against services that the tests start. `cargo xtask prove page` runs it.
import { after, describe } from "node:test";
import { access } from "./access.mjs";
import { actions } from "./actions.mjs";
import { browser } from "./browser.mjs";
import { figures } from "./figures.mjs";
import { hostile } from "./hostile.mjs";
import { outage } from "./outage.mjs";
import { placement } from "./placement.mjs";
import { secrets } from "./secrets.mjs";
import { talkers } from "./talkers.mjs";
import { whatIf } from "./what_if.mjs";

// Each has a service of its own, and mostly waits for the next second.
describe("the live page", { concurrency: 3, timeout: 180_000 }, () => {
  outage();
  figures();
  placement();
  hostile();
  access();
  actions();
  secrets();
  talkers();
  whatIf();
});
after(() => browser.close());
