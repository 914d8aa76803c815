// @ts-check
// The state of the page is in the fragment of its address, such as `#/policy/search?tier=5m`: a link shows the same view.

/** @returns {Route} */
export function route() {
  const [path, values] = location.hash.replace(/^#\/?/, "").split("?");
  const [view = "", ...names] = path.split("/").map((text) => {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  });
  return { view, names, values: new URLSearchParams(values) };
}

/** The fragment of a view. */
export function link(names, values = {}) {
  const search = String(new URLSearchParams(values));
  return `#/${names.map(encodeURIComponent).join("/")}${search && `?${search}`}`;
}

/** Notes choices in the address, without a step in the history. An empty value is the default. */
export function note(choices) {
  const { view, names, values } = route();
  for (const [name, value] of Object.entries(choices)) value ? values.set(name, value) : values.delete(name);
  history.replaceState(null, "", link(view ? [view, ...names] : [], Object.fromEntries(values)));
}
