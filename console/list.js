// Lists of rows of one height that stay small however long they are, and the keys that drive them.
//
// Owns: `list`, and what each key of the group Lists does to one. Promises: a list has at most ROWS_MAX row elements.
// Must not: know what is in a row.

import { fill, h } from "./dom.js";

const ROWS_MAX = 60;

/**
 * A list of rows of one height. `render(item)` makes a row's cells (an array of nodes, or {class, cells}); `label`
 * names the list; `open(item)` is called by click and Enter; `selected(item)` when the selection moves; `near_end()`,
 * `near_start()` when fewer than a page is left below or above. Properties: `items` (set it to show others; the selection
 * stays at its index), `index`, `item`. `move(by)`, `select(index)`, `to_end()`, `to_start()`, `at_end`, `repaint()`.
 */
export function list({ label, row_height = 28, render, open, selected, near_end, near_start, class: name = "" }) {
  const space = h("div", { class: "space", role: "presentation" });
  const box = h("div", { class: `rows ${name}`, role: "listbox", tabindex: "0", "aria-label": label }, space);
  const id = `list${(list.made = (list.made ?? 0) + 1)}`;
  let items = [];
  let index = -1;
  let asked = 0;

  function paint() {
    asked = 0;
    const height = box.clientHeight || row_height * 30;
    const shown = Math.min(Math.ceil(height / row_height) + 8, ROWS_MAX);
    const first = Math.max(0, Math.min(Math.floor(box.scrollTop / row_height) - 4, items.length - shown));
    const rows = items.slice(first, first + shown).map((item, at) => row(item, first + at));
    space.style.setProperty("height", `${items.length * row_height}px`);
    fill(space, rows);
    box.setAttribute("aria-activedescendant", index >= first && index < first + shown ? `${id}-${index}` : "");
    if (near_end && first + shown > items.length - shown) near_end();
    if (near_start && first < shown) near_start();
  }

  function row(item, at) {
    const made = render(item);
    const { class: kind = "", cells } = Array.isArray(made) ? { cells: made } : made;
    return h(
      "div",
      {
        id: `${id}-${at}`,
        class: `row ${kind}${at === index ? " sel" : ""}`,
        role: "option",
        "aria-selected": String(at === index),
        "aria-posinset": at + 1,
        "aria-setsize": -1,
        style: { top: `${at * row_height}px`, height: `${row_height}px` },
        onclick: () => (api.select(at), open?.(item)),
      },
      cells,
    );
  }

  const ask = () => (asked ||= requestAnimationFrame(paint));
  box.addEventListener("scroll", ask, { passive: true });
  new ResizeObserver(ask).observe(box);

  const api = {
    element: box,
    get items() {
      return items;
    },
    set items(wanted) {
      items = wanted;
      if (index >= items.length) index = items.length - 1;
      ask();
    },
    get index() {
      return index;
    },
    set index(wanted) {
      index = wanted;
      ask();
    },
    get item() {
      return items[index] ?? null;
    },
    get at_end() {
      return box.scrollTop + box.clientHeight >= items.length * row_height - row_height;
    },
    /** Rows from the first that can be seen to the last. */
    get window() {
      const first = Math.floor(box.scrollTop / row_height);
      return [first, Math.min(items.length - 1, first + Math.floor(box.clientHeight / row_height))];
    },
    /** How many rows a page has. */
    get page() {
      return Math.max(1, Math.floor(box.clientHeight / row_height) - 1);
    },
    select(at) {
      if (items.length === 0) return;
      index = Math.max(0, Math.min(items.length - 1, at));
      api.reveal(index);
      selected?.(items[index]);
      ask();
    },
    move(by) {
      api.select(index < 0 ? (by > 0 ? api.window[0] : api.window[1]) : index + by);
    },
    open() {
      if (index >= 0) open?.(items[index]);
    },
    reveal(at) {
      const top = at * row_height;
      if (top < box.scrollTop) box.scrollTop = top;
      else if (top + row_height > box.scrollTop + box.clientHeight) box.scrollTop = top + row_height - box.clientHeight;
    },
    to_start() {
      box.scrollTop = 0;
      api.select(0);
    },
    to_end() {
      space.style.setProperty("height", `${items.length * row_height}px`);
      box.scrollTop = items.length * row_height;
      ask();
    },
    /** Rows were put in before the first or taken away there: what is seen stays where it is. */
    shift(by) {
      if (index >= 0) index = Math.max(-1, index + by);
      space.style.setProperty("height", `${items.length * row_height}px`);
      box.scrollTop += by * row_height;
      ask();
    },
    repaint: ask,
  };
  return api;
}

/** Handlers that drive a list: rows, pages, ends, open. */
export const drives = (rows) => ({
  next: () => rows.move(1),
  previous: () => rows.move(-1),
  open: () => rows.open(),
  page_back: () => rows.move(-rows.page),
  page_on: () => rows.move(rows.page),
  oldest: () => rows.to_start(),
  newest: () => (rows.to_end(), rows.select(rows.items.length - 1)),
});

/** The same for the one of several lists that a key reaches, `reached()`: {rows, keys}. It gets the focus, unless it
 *  opens something. */
export const drivesOne = (reached) =>
  Object.fromEntries(Object.keys(drives()).map((name) => [name, (event) => {
    const { rows, keys } = reached();
    keys[name](event);
    if (name !== "open") rows.element.focus({ preventScroll: true });
  }]));
