// The palette: one field that finds screens, timelines, users, tables, sessions and actions.
//
// Owns: what is offered for a text. Promises: a search waits 150 ms and ends the one before; the server seeks by prefix,
// nothing is scanned; what the search did not reach is said. Must not: do more than open a view or call an action.

import { fill, h, icon } from "./dom.js";
import { count, visible } from "./format.js";
import { take } from "./keys.js";
import { server } from "./server.js";

const WAIT_MS = 150;
const FOUND_MAX = 8;
let open = false;

/** Opens it. `screens`: [[name, title]…]; `actions`: [[title, run]…]. */
export function palette({ go, screens, actions }) {
  if (open) return;
  open = true;
  const ends = new AbortController();
  const before = document.activeElement;
  let search = new AbortController();
  let timer = 0;
  let offers = [];
  let chosen = 0;
  let found = { text: null, offers: [] };
  const field = h("input", { type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "found", "aria-label": "Find a timeline, user, table or session", placeholder: "Find a timeline, user, table or session", spellcheck: "false", autocomplete: "off", oninput: typed });
  const rows = h("ul", { id: "found", role: "listbox", "aria-label": "Found" });
  const dialog = h("dialog", { class: "palette", "aria-label": "Find", oncancel: (event) => (event.preventDefault(), leave()), onclick: (event) => event.target === dialog && leave() },
    h("label", { class: "field" }, icon("find"), field), rows);
  // The field keeps its keys, so the list's are taken here.
  field.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) choose(chosen + by);
    else if (event.key === "Enter") run(offers[chosen]);
    else return;
    event.preventDefault();
  });

  function typed() {
    clearTimeout(timer);
    search.abort();
    search = new AbortController();
    paint();
    const text = field.value.trim();
    if (text) timer = setTimeout(() => look(text, search.signal), WAIT_MS);
  }
  async function look(text, signal) {
    const parts = await Promise.all([timelines(text, signal), tables(text, signal)]);
    if (signal.aborted) return;
    found = { text, offers: parts.flat() };
    paint();
  }
  function paint() {
    const text = field.value.trim();
    const lower = text.toLowerCase();
    const named = screens.filter(([, title]) => title.toLowerCase().includes(lower)).map(([name, title]) => ({ icon: name, kind: "Screen", text: title, go: { screen: name } }));
    const done = actions.filter(([title]) => title.toLowerCase().includes(lower)).map(([title, act]) => ({ icon: "go", kind: "Action", text: title, act }));
    const direct = text ? [
      { icon: "timelines", kind: "Timeline", text, go: { screen: "timelines", path: [text] } },
      { icon: "conversations", kind: "Conversations of", text, go: { screen: "conversations", path: [text] } },
      { icon: "lookup", kind: "Messages with", text, go: { screen: "lookup", path: [], query: { q: text } } },
      { icon: "sessions", kind: "Sessions of", text, go: { screen: "sessions", path: [], query: { user: text } } },
    ] : [];
    const read = found.text === text ? found.offers.filter((one) => !(one.kind === "Timeline" && one.text === text)) : [];
    const exact = found.text === text && found.offers.some((one) => one.kind === "Timeline" && one.text === text);
    offers = text ? [...(exact ? direct.slice(0, 1) : []), ...read, ...(exact ? direct.slice(1) : direct), ...named, ...done] : [...named, ...done];
    chosen = 0;
    fill(rows, offers.map((one, at) => h("li", { id: `found-${at}`, role: "option", "aria-selected": String(at === 0), onclick: () => run(one) }, icon(one.icon), h("small", {}, one.kind), h("span", {}, visible(one.text)), one.more && h("em", {}, one.more))));
    choose(0);
  }
  function choose(at) {
    if (offers.length === 0) return;
    chosen = (at + offers.length) % offers.length;
    [...rows.children].forEach((row, index) => row.setAttribute("aria-selected", String(index === chosen)));
    field.setAttribute("aria-activedescendant", `found-${chosen}`);
    rows.children[chosen].scrollIntoView({ block: "nearest" });
  }
  function run(offer) {
    if (!offer) return;
    leave();
    if (offer.act) offer.act();
    else go(offer.go);
  }
  function leave() {
    if (!open) return;
    open = false;
    ends.abort();
    search.abort();
    clearTimeout(timer);
    dialog.close();
    dialog.remove();
    before?.focus?.();
  }
  take({ back: leave, find: () => field.select() }, { signal: ends.signal, alone: true });
  document.body.append(dialog);
  paint();
  dialog.showModal();
  field.focus();
}

/** Timelines whose names begin so; an error finds none, as the timeline's own screen says it. */
async function timelines(prefix, signal) {
  const { timelines: names } = await server.call("timeline.list", { prefix, limit: FOUND_MAX }, { signal }).catch(() => ({ timelines: [] }));
  return names.map(({ timeline, head }) => ({ icon: "timelines", kind: "Timeline", text: timeline, more: `head ${count(head)}`, go: { screen: "timelines", path: [timeline] } }));
}

async function tables(text, signal) {
  const { tables: all } = await server.call("table.list", {}, { signal }).catch(() => ({ tables: [] }));
  const fitting = all.filter(({ name }) => name.toLowerCase().includes(text.toLowerCase()));
  return fitting.slice(0, FOUND_MAX).map(({ name }) => ({ icon: "tables", kind: "Table", text: name, go: { screen: "tables", path: [name] } }));
}
