// Finding a timeline: by the beginning of its name, in order or level by level.
//
// Owns: the column at the left. Promises: nothing is scanned: a level is one seek an entry, a list is pages; a search
// waits 150 ms and ends the one before; head and age are read only of rows that are seen; what was not read is said to
// be there. Must not: open a timeline itself.

import { fill, h, icon, write } from "../dom.js";
import { age, count, visible } from "../format.js";
import { list } from "../list.js";
import { again, server } from "../server.js";
import { load } from "../states.js";

const PAGE = 200;
const KEPT = 2_000;
const WAIT_MS = 150;
const FRESH_MS = 5_000;

/** `show(query)` changes the view, `open(name)` opens a timeline, `found(any)` hears whether there is any at all. */
export function finder({ signal, show, open, found: heard }) {
  const field = h("input", { "aria-label": "Timelines that begin with", spellcheck: "false", autocomplete: "off", oninput: typed, onkeydown: key });
  const crumbs = h("p", { class: "crumbs" });
  const place = h("div", { class: "found" });
  const foot = h("p", { class: "foot" });
  const rows = list({ label: "Timelines", row_height: 30, class: "rooms", render, open: chosen, near_end: more });
  const element = h("aside", { class: "finder", "aria-label": "Find a timeline" },
    h("label", { class: "field", title: "Timelines that begin with (/)" }, icon("find"), field, h("kbd", {}, "/")), crumbs, place, foot);
  const figures = new Map(); // name → {head, last_at, at}
  let asked = { prefix: null, by: null };
  let current = null;
  let search = new AbortController();
  let next;
  let reading = false;
  let timer = 0;

  async function page(after) {
    const { prefix, by } = asked;
    const params = { prefix: prefix || undefined, after, limit: PAGE };
    const of = { signal: AbortSignal.any([signal, search.signal]) };
    if (by !== "name") return server.call("timeline.prefixes", params, of);
    const { timelines, next } = await server.call("timeline.list", params, of);
    for (const { timeline, head, last_at } of timelines) figures.set(timeline, { head, last_at, at: Date.now() });
    return { entries: timelines.map(({ timeline }) => ({ name: timeline, timeline: true, below: false })), next };
  }

  async function read() {
    search.abort();
    search = new AbortController();
    const mine = search;
    reading = true;
    await load(place, () => page(), (found) => {
      next = found.next;
      rows.items = found.entries;
      rows.index = found.entries.findIndex(({ name }) => name === current);
      const any = found.entries.length > 0 || next !== undefined;
      if (!asked.prefix) heard(any);
      if (!any) return nothing();
      if (rows.element.parentElement !== place) fill(place, rows.element); // put in again it would lose the focus
      rows.element.scrollTop = 0;
    }, { signal: mine.signal, keep: true });
    if (mine !== search) return;
    reading = false;
    footer();
  }

  async function more() {
    if (reading || next === undefined || rows.items.length >= KEPT) return;
    reading = true;
    const mine = search;
    try {
      const found = await page(next);
      if (mine !== search) return;
      next = found.next;
      rows.items = [...rows.items, ...found.entries];
    } catch (error) {
      if (!signal.aborted && mine === search) write(foot, `No more could be read: ${error.reason ?? error.message}`);
      return;
    } finally {
      if (mine === search) reading = false;
    }
    footer();
  }

  function footer() {
    const read = count(rows.items.length);
    if (next === undefined) write(foot, rows.items.length ? `${read} in all` : "");
    else write(foot, rows.items.length < KEPT ? `${read} read, more as you scroll` : `The first ${read}: type more of the name`);
  }

  function nothing() {
    const { prefix } = asked;
    foot.textContent = "";
    return h("p", { class: "none" }, prefix ? ["No timeline begins with ", h("code", {}, visible(prefix)), "."] : "No timelines yet.");
  }

  function render({ name, timeline, below }) {
    const { prefix } = asked;
    const from = prefix.lastIndexOf("/") + 1;
    const known = figures.get(name);
    if (timeline && !known) wanted();
    const cells = [
      h("span", { class: "id", title: visible(name) }, visible(name.slice(from))),
      h("span", { class: "hd" }, known?.head === undefined ? "" : count(known.head)),
      below ? icon("next") : h("time", {}, known?.last_at ? age(known.last_at) : ""),
    ];
    return { class: `${name === current && timeline ? "on" : ""}${below ? " below" : ""}`, cells };
  }

  let waiting = 0;
  const wanted = () => (waiting ||= setTimeout(refresh, 50));

  /** Head and age of the rows that are seen, where they are missing or old. */
  async function refresh() {
    waiting = 0;
    if (!server.awake || !rows.items.length) return;
    const [first, last] = rows.window;
    const old = Date.now() - FRESH_MS + 500;
    const names = rows.items.slice(first, last + 1).filter(({ name, timeline }) => timeline && !(figures.get(name)?.at > old));
    await Promise.all(names.map(async ({ name }) => {
      figures.set(name, { ...figures.get(name), at: Date.now() });
      const { head, last_at } = await server.call("timeline.get", { timeline: name }, { signal }).catch(() => ({}));
      figures.set(name, { head, last_at, at: Date.now() });
    }));
    if (figures.size > 2 * KEPT) figures.clear();
    if (!signal.aborted) rows.repaint();
  }
  again(FRESH_MS, refresh, signal);
  signal.addEventListener("abort", () => (clearTimeout(timer), search.abort()));

  function chosen({ name, timeline, below }) {
    if (below && !timeline) show({ prefix: name });
    else open(name);
  }

  function typed() {
    clearTimeout(timer);
    timer = setTimeout(() => show({ prefix: field.value }, { replace: true }), WAIT_MS);
  }

  function key(event) {
    if (event.key === "ArrowDown") (event.preventDefault(), rows.element.focus(), rows.index < 0 && rows.select(0));
    else if (event.key === "Enter") {
      event.preventDefault();
      const exact = rows.items.find(({ name, timeline }) => timeline && name === field.value);
      if (exact ?? rows.items[0]) chosen(exact ?? rows.items[0]);
      else if (field.value) open(field.value);
    }
  }

  function trail() {
    const { prefix, by } = asked;
    const parts = prefix.split("/").slice(0, -1);
    const way = (text, title, to) => h("button", { type: "button", class: "link by", title, onclick: () => show({ by: to }) }, text);
    const link = (text, to) => h("button", { type: "button", class: "link", onclick: () => show({ prefix: to }) }, text);
    fill(crumbs, prefix.includes("/") ? link("all", "") : h("b", {}, "all"),
      parts.map((part, at) => [h("span", {}, "/"), at === parts.length - 1 ? h("b", {}, visible(part)) : link(visible(part), `${parts.slice(0, at + 1).join("/")}/`)]),
      parts.length > 0 && h("span", {}, "/"),
      by === "name" ? way("by name", "Show one level of the names", "") : way("by level", "Show all names in order", "name"));
  }

  return {
    element,
    rows,
    focus: () => (field.focus(), field.select()),
    /** One level up; false where that is the top. */
    up() {
      if (!asked.prefix) return false;
      show({ prefix: asked.prefix.replace(/[^/]*\/?$/, "") });
      return true;
    },
    update({ prefix = "", by = "" }, timeline) {
      current = timeline;
      if (document.activeElement !== field) field.value = prefix;
      if (prefix === asked.prefix && by === asked.by) return void rows.repaint();
      asked = { prefix, by };
      trail();
      read();
    },
    reread: () => (figures.clear(), read()),
  };
}
