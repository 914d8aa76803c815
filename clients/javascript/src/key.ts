/** Keys that are one text, of any length and content. */
import { digest } from "#transport";

/** A longer key is sent as its digest, in bytes of UTF-8. */
const longestKey = 256;

/**
 * Returns a text that the service takes: the key or, if it is long or no Unicode, its digest.
 *
 * The service would refuse such a key, and what it refuses is admitted by a client that is open.
 */
export async function keyText(key: string): Promise<string> {
  const fits = key.length <= longestKey / 3 || (key.length <= longestKey && new TextEncoder().encode(key).length <= longestKey);
  return fits && !/\p{Surrogate}/u.test(key) ? key : `sha256:${await digest(key)}`;
}
