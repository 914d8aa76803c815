// @ts-check
// Sets another limit for the inspected client, or removes the one that was set.

import { ask } from "../api.js";
import { confirmChange, field, select } from "../dialog.js";
import { button, input } from "../dom.js";
import { moment, stamp } from "../format.js";
import { serverNow } from "../poll.js";

const LENGTHS = [
  ["15m", "15 minutes"],
  ["1h", "1 hour"],
  ["4h", "4 hours"],
  ["24h", "1 day"],
  ["168h", "7 days"],
  ["", "until it is removed"],
];
const KINDS = [
  ["limits", "other limits"],
  ["unlimited", "no limit"],
  ["denied", "everything denied"],
];
const HEADS = ["<", "<before", "<now"];
const SCOPE = "at once and in all processes. It needs the scope `overrides`.";

const WHO = "the client with these attributes";

/**
 * @param {AppliedPolicy} applied
 * @param {Record<string, string> | undefined} attributes those of its key; absent if they are not known, as of a talker
 */
export function overrideButtons({ policy, quotas = [], in_flight: flight, override }, attributes, done) {
  if (!attributes) return null;
  // An override takes the place of all limits, so it begins with all of them.
  const now = [...quotas.map(({ quota }) => quota), flight?.written].filter(Boolean).join(", ");

  const set = () => {
    const kind = select("kind", KINDS, { change: () => (limits.disabled = kind.value !== "limits") });
    const limits = input("limits", { value: now });
    const lasts = select("lasts", LENGTHS);
    const label = input("label", { maxlength: 64, pattern: "[A-Za-z0-9._\\-]*", placeholder: "ticket-7" });
    const reason = input("note", { maxlength: 200 });
    const quotas = () =>
      kind.value === "limits"
        ? limits.value
            .split(",")
            .map((part) => part.trim())
            .filter(Boolean)
        : kind.value;
    lasts.value = "1h";
    confirmChange(
      {
        title: `Override ${policy}`,
        button: "Set the override",
        fields: [
          field("It gets", kind),
          field("Limits", limits, "As in a file of policies: `500/1m, 20000/1d`"),
          field("For", lasts),
          field("Label", label, "Optional. Stored and logged as it is."),
          field("Note", reason, "Optional. Stored and listed as it is: write no secret."),
        ],
        says: () =>
          `Under ${policy}, ${WHO} gets \`${[quotas()].flat().join(", ")}\` in place of \`${now || "nothing"}\`, ${lasts.value && "for "}${lasts.selectedOptions[0].text}, ${SCOPE} What is used stays counted.`,
        run: async () => {
          const body = {
            policy,
            attributes,
            quotas: quotas(),
            for: lasts.value || undefined,
            label: label.value || undefined,
            note: reason.value || undefined,
          };
          const { body: answer } = await ask("overrides", { method: "PUT", body });
          const until = answer.until ? moment(stamp(answer.until), serverNow()).textContent : "it is removed";
          return {
            says: `The override is live until ${until}.${answer.replaced ? " It has replaced an earlier one." : ""}`,
            heads: HEADS,
            rows: [["limits", now || "none", [answer.quotas].flat().join(", ")]],
          };
        },
      },
      done,
    );
  };

  const remove = () =>
    confirmChange(
      {
        title: `Remove the override of ${policy}`,
        button: "Remove",
        says: () => `The policy's own limits apply to ${WHO} again, ${SCOPE}`,
        run: async () => {
          const { body } = await ask("overrides/delete", { body: { policy, attributes } });
          return {
            says: "The override is gone.",
            heads: HEADS,
            rows: [["limits", [body.deleted?.quotas].flat().join(", "), "those of the policy"]],
          };
        },
      },
      done,
    );

  return [
    button("Override…", set, "plain"),
    (override || quotas.some((quota) => quota.override)) && button("Remove override…", remove, "plain"),
  ];
}
