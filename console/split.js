// A list with a bar, heads and a foot, and beside it the one that is open: the shape of Tables, Sessions and Keys.
//
// Owns: that shape. Promises: what is open stays open and selected while the list is read again. Must not: know what is
// in a row, or read.

import { fill, h, icon, write } from "./dom.js";
import { hint, tip } from "./keys.js";
import { clock } from "./format.js";
import { drives, list } from "./list.js";

/** A button with its key: `key` is a name of keys.js. `lacks` names the right that is missing, and disables it. */
export function button(label, { key, title = tip(key, label), lacks = null, kind = null, onclick }) {
  const said = lacks ? `Needs the right ${lacks}` : title;
  return h("button", { type: "button", class: kind, title: said, disabled: lacks !== null, onclick }, label, lacks ? h("small", {}, `needs ${lacks}`) : h("kbd", {}, hint(key)));
}

/** Names and values of one thing; those without a value are left out. */
export const pairs = (...all) =>
  h("dl", { class: "pairs" }, all.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

/** A field with a drawing before it and its key behind it. `changed(text)` 150 ms after the last letter, if the
 *  view is still open. `show(text)` is what the view says, unless somebody is writing there. */
export function searchField({ label, placeholder, value = "", key, mono = false, changed }) {
  let timer = 0;
  const later = () => (clearTimeout(timer), (timer = setTimeout(() => input.isConnected && changed(input.value.trim()), 150)));
  const now = (event) => event.key === "Enter" && (clearTimeout(timer), changed(input.value.trim()));
  const input = h("input", { "aria-label": label, placeholder, value, class: mono ? "mono" : null, spellcheck: "false", autocomplete: "off", oninput: later, onkeydown: now });
  return {
    element: h("label", { class: "field", title: tip(key, label) }, icon("find"), input, h("kbd", {}, hint(key))),
    input,
    show: (text = "") => input === document.activeElement || (input.value = text),
  };
}

/**
 * `heads`: [text, class?] of each column; `label`, `render` and `near_end` are the list's of dom.js. `id(item)` names an
 * item; `open(item)` makes what is shown beside the list (nodes); `go(id)` changes the view to it, or to none (null).
 */
export function split({ root, name, bar, heads, label, render, near_end, id, open, go }) {
  const rows = list({ label, row_height: 30, render, near_end, open: (item) => go(id(item)), selected: (item) => it.opened !== null && go(id(item)) });
  const aside = h("aside", { class: "detail", "aria-label": `The selected ${name}`, hidden: true });
  const body = h("div", { class: "body" });
  const foot = h("p", { class: "foot" });
  const head = h("div", { class: "heads", "aria-hidden": "true" }, heads.map(([text, kind]) => h("span", { class: kind }, text)));
  const it = {
    rows,
    body,
    /** The name of what is open, or null. */
    opened: null,
    /** Keys of the list; `back` says whether there was something to leave. */
    keys: { ...drives(rows), back: () => it.opened !== null && (it.close(), true) },
    /** The items as they are now; what is open stays so while it is among them. */
    show(items, text) {
      const at = it.opened === null ? -1 : items.findIndex((item) => id(item) === it.opened);
      rows.items = items;
      rows.index = it.opened === null ? Math.max(rows.index, 0) : at;
      if (rows.element.parentNode !== body) fill(body, head, rows.element);
      if (it.opened !== null && at < 0) it.close();
      write(foot, text);
    },
    /** Something in place of the items, which are not counted then. */
    instead(node) {
      fill(body, node);
      write(foot, "");
    },
    open(item) {
      it.opened = id(item);
      fill(aside, open(item));
      aside.hidden = false;
    },
    /** Opens the item that the view names; null closes. False if there is no such item. */
    named(wanted) {
      if (wanted === null) return it.opened === null || (it.close(), true);
      const at = rows.items.findIndex((item) => id(item) === wanted);
      if (at < 0) return false;
      rows.index = at;
      // What somebody is using is not made anew under their fingers.
      if (it.opened !== wanted || !aside.contains(document.activeElement)) it.open(rows.items[at]);
      return true;
    },
    close() {
      it.opened = null;
      aside.hidden = true;
      rows.element.focus();
      go(null);
    },
    /** The heading of what is open, with the button that closes it. */
    heading: (...nodes) =>
      h("header", {}, h("h2", {}, nodes), h("button", { type: "button", class: "ghost", "aria-label": "Close", title: tip("back"), onclick: it.close }, icon("close"))),
  };
  fill(root, h("div", { class: "split" }, h("section", { class: "listed", "aria-label": `All ${name}s` }, h("div", { class: "bar" }, bar), body, foot), aside));
  return it;
}

export const asOf = () => `as of ${clock(Date.now())}`;
