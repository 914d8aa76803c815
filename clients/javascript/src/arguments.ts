/** Checks of what a caller passes. Each throws a TypeError that names the argument. */

/** Attributes of a request. */
export type Attributes = Readonly<Record<string, string | boolean | readonly string[]>>;

/** An attribute that the client sets itself: the name of the check. */
const nameAttribute = "action";

/** A day: no call of a client waits longer. */
export const longestWait = 86_400_000;

/** Returns the attributes of a check: those of the caller, and its name. */
export function namedAttributes(name: unknown, attributes: unknown): Record<string, unknown> {
  checkName(name, "the name of a check");
  if (typeof attributes === "object" && attributes !== null && Object.hasOwn(attributes, nameAttribute)) {
    throw new TypeError(`the attribute ${nameAttribute} is the name of the check; give yours another name`);
  }
  return { [nameAttribute]: name, ...attributesOf(attributes, mostAttributes - 1) };
}

/** The most attributes that a request takes, and the most texts in a list. */
const mostAttributes = 64;

/** The longest name of an attribute, in characters. */
const longestName = 128;

/** Returns the attributes of the caller, checked. */
export function attributesOf(attributes: unknown, most = mostAttributes): Record<string, unknown> {
  if (typeof attributes !== "object" || attributes === null || Array.isArray(attributes)) {
    throw new TypeError("attributes must be an object, such as { user: \"alice\" }");
  }
  const entries = Object.entries(attributes);
  if (entries.length > most) throw new TypeError(`there are ${entries.length} attributes, and at most ${most} are possible`);
  for (const [key, value] of entries) {
    checkName(key, "the name of an attribute");
    if (key.length > longestName && [...key].length > longestName) {
      throw new TypeError(`the name of an attribute is longer than ${longestName} characters`);
    }
    if (Array.isArray(value)) {
      if (value.length > mostAttributes) throw new TypeError(`the attribute ${key} is a list of more than ${mostAttributes} strings`);
      for (const item of value) checkText(item, `an item of the attribute ${key}`);
    } else if (typeof value !== "boolean") {
      checkText(value, `the attribute ${key}`, "a string, a boolean or a list of strings");
    }
  }
  return { ...attributes };
}

/** Returns a name: a string that is not empty. */
export function checkName(value: unknown, what: string): string {
  if (checkText(value, what) === "") throw new TypeError(`${what} is empty`);
  return value as string;
}

/** The longest body that the service takes, in bytes. */
const longestBody = 64 * 1024;

/** Returns a body, if it is not too long. */
export function checkBody(body: string): string {
  if (body.length * 3 > longestBody && new TextEncoder().encode(body).length > longestBody) {
    throw new TypeError("the attributes make a request of more than 64 KiB");
  }
  return body;
}

/** The longest text that the service takes, in bytes of UTF-8. */
const longestText = 1024;

function isTooLong(text: string): boolean {
  // A unit of UTF-16 has at most three bytes in UTF-8.
  if (text.length * 3 <= longestText) return false;
  return text.length > longestText || new TextEncoder().encode(text).length > longestText;
}

/** The largest cost that the service takes. */
const largestCost = 2 ** 32 - 1;

/** Returns a number of units: a whole number within the bounds. */
export function checkUnits(value: unknown, what: string, least = 0, most = largestCost): number {
  if (!Number.isSafeInteger(value) || (value as number) < least || (value as number) > most) {
    throw new TypeError(`${what} must be a whole number from ${least} to ${most}`);
  }
  return value as number;
}

/** Returns a time in milliseconds, from 1 to `most`. */
export function checkTime(value: unknown, what: string, most: number): number {
  if (typeof value !== "number" || !(value >= 1 && value <= most)) {
    throw new TypeError(`${what} must be a number of milliseconds from 1 to ${most}`);
  }
  return value;
}

/** Returns one of the words. */
export function checkWord<Word extends string>(value: unknown, what: string, words: readonly Word[]): Word {
  if (!words.includes(value as Word)) throw new TypeError(`${what} must be ${words.map((word) => `"${word}"`).join(" or ")}`);
  return value as Word;
}

/** Refuses options that do not exist: a misspelt one would be ignored. */
export function checkOptions(options: unknown, known: readonly string[]): void {
  if (typeof options !== "object" || options === null) throw new TypeError("options must be an object");
  for (const name of Object.keys(options)) {
    if (!known.includes(name)) throw new TypeError(`there is no option ${name}; there are ${known.join(", ")}`);
  }
}

function checkText(value: unknown, what: string, type = "a string"): string {
  if (typeof value !== "string") throw new TypeError(`${what} must be ${type}, not ${value === null ? "null" : typeof value}`);
  // JSON could not carry it, and what the service refuses would be admitted without counting.
  if (/\p{Surrogate}/u.test(value)) throw new TypeError(`${what} has half a surrogate pair, so it is no Unicode text`);
  if (isTooLong(value)) throw new TypeError(`${what} is longer than ${longestText} bytes of UTF-8`);
  return value;
}
