// @ts-check
// What a policy counts by, from the text of its key: `global`, `user`, `[tenant, user]`, `{ first_of: [user, ip] }`.

const NAMED = /\{ (?:attribute|address): ([^,}]+?)(?:, [^}]*)? \}/g;

/**
 * The attributes of a key, and how they make it: `each` of them, the `first` that is there, `all` that a request has, or
 * none (`global`).
 * @returns {{kind: "each" | "first" | "all" | "global", names: string[]}}
 */
export function keyParts(key = "global") {
  if (key === "global") return { kind: "global", names: [] };
  if (key === "all attributes") return { kind: "all", names: [] };
  const text = key.replace(NAMED, "$1").replace(/\{ first_of: |[[\]{}]/g, "");
  const names = text.split(",").map((name) => name.trim().replace(/^["'](.*)["']$/, "$1"));
  return { kind: key.includes("first_of") ? "first" : "each", names: names.filter(Boolean) };
}

/** Whom one counter is of, in words. */
export function keyWords(key) {
  const { kind, names } = keyParts(key);
  if (kind === "global") return "all together";
  return kind === "all" ? "each set of attributes" : `each ${names.join(kind === "first" ? " or " : ", ")}`;
}

/** The attributes of a request that make its key; absent if some are missing. */
export function keyOf(key, attributes) {
  const { kind, names } = keyParts(key);
  if (kind === "global") return undefined;
  if (kind === "all") return attributes;
  const here = names.filter((name) => name in attributes);
  const used = kind === "first" ? here.slice(0, 1) : here;
  if (!used.length || (kind === "each" && here.length < names.length)) return undefined;
  return Object.fromEntries(used.map((name) => [name, attributes[name]]));
}
