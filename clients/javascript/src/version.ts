/** The version of this package; `test/package.test.mjs` compares it with package.json. */
export const version = "0.1.0";
