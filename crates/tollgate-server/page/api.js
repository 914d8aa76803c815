// @ts-check
// Asks the service. All addresses are relative to the page, so that it works behind any path of a proxy.

const PATIENCE = 10_000;

/** Why there is no answer; status 0 if the service cannot be reached. */
export class ApiError extends Error {
  /** @param {Problem} problem */
  constructor(status, problem, retryAfter = 0) {
    super(problem.detail || problem.title || `the service answered ${status}`);
    Object.assign(this, { status, problem, retryAfter, words: words(status, problem.scope, this.message) });
  }
}

function words(status, scope, message) {
  if (status === 401) return "The service needs a valid token.";
  if (status === 403 && scope) return `This token lacks the scope \`${scope}\`. Nothing was done.`;
  return sentence(status ? message : "the service cannot be reached");
}

export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

/** The token lives as long as the tab, and no cookie exists: other sites cannot send it. */
export const token = {
  get: () => sessionStorage.getItem("tollgate-token") || "",
  set: (text) => sessionStorage.setItem("tollgate-token", text),
};

/**
 * @param {string} path below `v1/`
 * @param {{method?: string, body?: object, etag?: string}} [options]
 * @returns {Promise<{etag: string, body: any}>} without a body if nothing is new
 */
export async function ask(path, { body, method = body ? "POST" : "GET", etag = "" } = {}) {
  const headers = { Accept: "application/json" };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body) headers["Content-Type"] = "application/json";
  if (etag) headers["If-None-Match"] = etag;
  let status = 0;
  try {
    const answer = await fetch(`../v1/${path}`, {
      method,
      headers,
      body: JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
      signal: AbortSignal.timeout(PATIENCE),
    });
    status = answer.status;
    if (status === 304) return { etag, body: null };
    const isJson = /json/.test(answer.headers.get("Content-Type") || "");
    const read = isJson ? await answer.json() : { detail: (await answer.text()).slice(0, 300) };
    if (answer.ok) return { etag: answer.headers.get("ETag") || "", body: read };
    throw new ApiError(status, read, Number(answer.headers.get("Retry-After")) || 0);
  } catch (error) {
    throw error instanceof ApiError ? error : new ApiError(status, { detail: "the answer cannot be read" });
  }
}

/** An address with its query. */
export const query = (path, values) =>
  `${path}?${new URLSearchParams(Object.entries(values).filter(([, value]) => value))}`;
