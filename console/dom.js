// Elements, made from text nodes alone.
//
// Owns: `h`, `svg`, `icon`, `fill`, `table`, `choice`. Promises: nothing that comes from a server is ever read as markup.
// Must not: use innerHTML or anything like it, or know the server.

/** An element. `on…` are listeners, `style` an object, `data` data attributes; `true` is an empty attribute; null and
 *  false are left out. Children: elements, texts, numbers, arrays of them; null and false are nothing. */
export const h = (tag, props = {}, ...children) => made(document.createElement(tag), props, children);

/** The same for SVG. */
export const svg = (tag, props = {}, ...children) =>
  made(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);

function made(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) set(element, name, value);
  element.append(...flat(children));
  return element;
}

/** Sets one property, as `h` does. */
export function set(element, name, value) {
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
  else if (name === "data") Object.assign(element.dataset, value);
  else if (name === "value") element.value = value;
  else if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : String(value));
}

const flat = (children) =>
  children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false && one !== "").map((one) => (one instanceof Node ? one : String(one)));

/** Replaces what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...flat(children));
  return element;
}

/** Writes a text only where it changed, so that a live figure costs nothing while it stays. */
export function write(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
  return element;
}

const ICONS = {
  overview: "M2 9h3l2-5 3 9 2-4h2",
  timelines: "M3 4h10M3 8h10M3 12h6",
  conversations: "M2.5 3.5h11v7h-6l-3 2.5v-2.5h-2z",
  tables: "M2.5 3h11v10h-11zM2.5 6.5h11M6.5 6.5V13",
  sql: "M2.5 3.5l3.5 3.5-3.5 3.5M7.5 12h6",
  sessions: "M5 2.5v3M11 2.5v3M3.5 5.5h9v2a4.5 4.5 0 0 1-9 0zM8 12v2",
  partitions: "M3 3v10M8 3v10M13 3v10",
  keys: "M9.5 8a3 3 0 1 1-3-3 3 3 0 0 1 3 3zM9.5 8H14M12 8v2.5",
  log: "M3 3.5h10M3 6.5h7M3 9.5h10M3 12.5h5",
  lookup: "M2.5 3.5h11M2.5 7h4M2.5 10.5h3M10 12.5a2.75 2.75 0 1 0 0-5.5 2.75 2.75 0 0 0 0 5.5zM12 11.7l2 2",
  find: "M7 12a5 5 0 1 0 0-10 5 5 0 0 0 0 10zM11 11l3 3",
  theme: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
  copy: "M5.5 5.5h7v7h-7zM3.5 10.5v-7h7",
  close: "M4 4l8 8M12 4l-8 8",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  hold: "M6 4v8M10 4v8",
  go: "M5 3.5l6 4.5-6 4.5z",
  next: "M6 3.5L10.5 8 6 12.5",
  warn: "M8 2.5l6 11H2zM8 6.5v3M8 11.5h.01",
  bad: "M5.5 2.5h5l3 3v5l-3 3h-5l-3-3v-5zM8 5v4M8 11h.01",
};

/** A drawing of 16 × 16 in the colour of the text. */
export const icon = (name) =>
  svg("svg", { class: "i", viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));

/** A table: its heads, and rows whose first cell is their head; the class of all other cells. */
export const table = (heads, rows, kind = null) =>
  h("table", { class: "grid" },
    h("thead", {}, h("tr", {}, heads.map((head, at) => h("th", { scope: "col", class: at ? kind : null }, head)))),
    h("tbody", {}, rows.map(([first, ...rest]) => h("tr", {}, h("th", { scope: "row" }, first), rest.map((cell) => h("td", { class: kind }, cell))))));

/** Buttons of [value, label] of which one is pressed: `press(value)` says which, `chosen(value)` hears a click. */
export function choice(name, options, chosen) {
  const buttons = options.map(([value, label]) => h("button", { type: "button", onclick: () => chosen(value) }, label));
  return {
    element: h("div", { class: "seg", role: "group", "aria-label": name }, buttons),
    press: (value) => buttons.forEach((one, at) => set(one, "aria-pressed", String(options[at][0] === value))),
  };
}
