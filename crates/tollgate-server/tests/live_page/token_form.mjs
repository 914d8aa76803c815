// Types a token into the page's form.

/** Opens the page's data with a token; the form must be there, or come. */
export async function giveToken(page, text) {
  await page.locator("form.token").waitFor();
  await page.getByLabel("Token").fill(text);
  await page.getByRole("button", { name: "Open" }).click();
}

/** Forgets the token of the tab, and gives another one. */
export async function changeToken(page, text) {
  await page.getByRole("link", { name: "About" }).click();
  await page.getByRole("button", { name: "Forget it" }).click();
  await giveToken(page, text);
  await page.locator("form.token").waitFor({ state: "detached" });
}
