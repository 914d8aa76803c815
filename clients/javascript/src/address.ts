/** Where the service listens. */

/** A checked address of the service. */
export type Address =
  | { readonly kind: "web"; readonly url: URL }
  | { readonly kind: "unix"; readonly path: string };

// A label of a host neither begins nor ends with a hyphen.
const label = "[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?";
const web = new RegExp(`^https?://(?:\\[[0-9a-f:.]+\\]|${label}(?:\\.${label})*\\.?)(?::[0-9]{1,5})?/?$`, "i");

/** The longest path of a unix socket that the system takes. */
const longestPath = 107;

/**
 * Returns the address that the text names: `http://HOST:PORT`, `https://HOST:PORT` or `unix:/absolute/path`.
 *
 * Throws a TypeError for anything else. The message does not repeat the text, which may have a password in it.
 */
export function parseAddress(text: unknown, source: string): Address {
  const wrong = (why: string) => new TypeError(`${source} ${why}; write http://HOST:PORT, https://HOST:PORT or unix:/absolute/path`);
  if (typeof text !== "string") throw wrong("is not a string");
  if (text.startsWith("unix:")) {
    const path = text.slice("unix:".length);
    if (!/^\/[^/]/.test(path) || /[\0?#]/.test(path)) throw wrong("is not an absolute path of a unix socket");
    if (new TextEncoder().encode(path).length > longestPath) throw wrong(`has a path of more than ${longestPath} bytes`);
    return { kind: "unix", path };
  }
  if (!/^https?:\/\//i.test(text)) throw wrong("begins neither with http:// nor https:// nor unix:");
  if (text.includes("@")) throw wrong("has a user; give the token as `token`");
  if (!web.test(text)) throw wrong("has more than a scheme, a host and a port");
  let url;
  try {
    url = new URL(text);
  } catch {
    throw wrong("has no valid host or port");
  }
  if (url.port === "0") throw wrong("has the port 0");
  return { kind: "web", url };
}
