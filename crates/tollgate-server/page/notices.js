// @ts-check
// What keeps the page from showing the figures of now, and what to do about it.

import { token } from "./api.js";
import { button, command, el, input, renew, write } from "./dom.js";
import { length } from "./format.js";
import { askNow, known } from "./poll.js";

function setToken(text) {
  token.set(text);
  askNow();
}

function tokenForm() {
  const field = input("token", { type: "password", required: true });
  const submit = (event) => {
    event.preventDefault();
    setToken(field.value.trim());
  };
  return el(
    "form.token",
    { submit },
    el("h1", "This service asks for a token"),
    el(
      "p",
      token.get() ? "It does not know this one, or it has expired." : "The figures need a token with the scope `read`.",
    ),
    el("label", { for: "token" }, "Token"),
    el("div.fields", field, el("button.primary", "Open")),
    el("p.soft", "It stays in this tab until you close it. This makes one:"),
    command("tollgate token new --name me --scope read"),
  );
}

/** Forgets the token of this tab. */
export const forget = (name) => button(name, () => setToken(""));

/** @returns {[string, ...any]} */
function parts({ status, problem, words }, wait) {
  const next = ["Next try in ", wait, ". ", button("Try now", askNow)];
  if (status === 403 && problem.scope)
    return [
      "This token may not read the figures.",
      `It lacks the scope \`${problem.scope}\`. `,
      forget("Use another token"),
    ];
  if (status === 403 || status === 421)
    return ["The service does not show its figures here.", words, " ", token.get() && forget("Use another token")];
  if (status === 429) return ["Too many pages watch this process.", "Close one of them. ", next];
  return status
    ? ["The service has no figures for the page.", words, " ", next]
    : ["The service cannot be reached.", next];
}

export function notices() {
  const [node, wait] = [el("div"), el("span")];
  const notice = ([title, ...more]) => [
    !known.live && el("h1.hidden", "Tollgate"),
    el("div.notice", { role: "alert" }, el("p", el("strong", title), " ", more)),
  ];
  return {
    node,
    update() {
      const { error, live, version } = known;
      const isOther = live && live.process.version !== version;
      renew(node, [error?.status, error?.message, token.get(), isOther], () => {
        if (error?.status === 401) return tokenForm();
        if (error) return notice(parts(error, wait));
        return (
          isOther &&
          notice(["The service has another version now.", button("Reload the page", () => location.reload())])
        );
      });
    },
    tick: () => write(wait, length(Math.ceil((known.next - performance.now()) / 1000) * 1000)),
  };
}
