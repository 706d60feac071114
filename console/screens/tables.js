// Tables: which there are, what they are, and their rows.
//
// Owns: how the list of tables and the open one share the page, and which of them a key reaches. Promises: the fragment is
// the view: `#/tables/NAME?tab=schema`, `#/tables/NAME?key=ann,42&filter=speed > 5&row=…`. Must not: read rows itself.

import { fill, h, write } from "../dom.js";
import { many, visible } from "../format.js";
import { drives, list } from "../list.js";
import { server } from "../server.js";
import { searchField } from "../split.js";
import { empty, load } from "../states.js";
import { range } from "../tables/range.js";
import { schema } from "../tables/schema.js";

const TABS = [["rows", "Rows"], ["schema", "Schema, stream, indexes"]];
const START = `pip install tablestore
python3 - <<'END'
from tablestore import *
client = OTSClient("http://127.0.0.1:7070", "development", "development", "tideline")
client.create_table(TableMeta("ships", [("name", "STRING")]), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
client.put_row("ships", Row([("name", "Nordlicht")], [("speed", 6.2), ("berth", 14)]))
END`;

const NONE = () => empty("No tables yet", "A table holds rows of a key and columns, and is reached by Alibaba Cloud Tablestore's SDKs, too. This makes one:", START);

export const screen = {
  async open({ root, view, signal, go, href, keys }) {
    let tables = [];
    let open = null; // {table, shown (of range.js) or null, ends}
    const finds = list({
      label: "Tables", class: "rooms", row_height: 30, open: ({ name }) => go({ path: [name] }),
      render: ({ name, index_of, is_virtual }) => ({
        class: name === view.path[0] ? "on" : "",
        cells: [h("span", { class: "id" }, visible(name)), (index_of || is_virtual) && h("em", { class: "chip" }, index_of ? "index" : "timelines")],
      }),
    });
    const body = h("div", { class: "body" });
    const foot = h("p", { class: "foot" });
    const search = searchField({ label: "Tables with this in their name", placeholder: "Tables", key: "search", mono: true, changed: () => listed() });
    const place = h("section", { class: "place", "aria-label": "Table" });
    fill(root, h("aside", { class: "finder", "aria-label": "Tables" }, search.element, body, foot), place);

    const inFinder = () => open?.shown == null || root.firstChild.contains(document.activeElement);
    const both = Object.keys(drives(finds)).map((name) => [name, (event) => (inFinder() ? drives(finds) : open.shown.keys)[name](event)]);
    const acts = ["go_to", "append", "edit", "copy", "link"].map((name) => [name, () => open?.shown?.keys[name]()]);
    keys({ ...Object.fromEntries([...both, ...acts]), back, search: () => (inFinder() ? search.input.focus() : open.shown.keys.search()) });

    function back() {
      if (open?.shown?.keys.back()) return;
      finds.element.focus();
    }

    function listed() {
      const part = search.input.value.trim();
      const some = tables.filter(({ name }) => name.includes(part));
      finds.items = some;
      finds.index = some.findIndex(({ name }) => name === view.path[0]);
      if (finds.element.parentNode !== body) fill(body, finds.element);
      write(foot, some.length === tables.length ? many(tables.length, "table") : `${some.length} of ${many(tables.length, "table")}`);
    }

    const readList = () =>
      load(body, () => server.call("table.list", {}, { signal }), (said) => {
        ({ tables } = said);
        listed();
      }, { signal });

    async function show() {
      const [name] = view.path;
      finds.index = finds.items.findIndex((one) => one.name === name);
      if (open && open.table.table === name && open.tab === (view.query.tab ?? "rows")) return open.shown?.update(view.query);
      open?.ends.abort();
      open = null;
      if (!name) return fill(place, tables.every(({ is_virtual }) => is_virtual) ? NONE() : empty("Choose a table", "j and k move, Enter opens, Esc comes back here."));
      const ends = new AbortController();
      signal.addEventListener("abort", () => ends.abort(), { once: true });
      await load(place, () => server.call("table.get", { table: name }, { signal: ends.signal }), (table) => name === view.path[0] && opened(table, ends), { signal: ends.signal });
    }

    function opened(table, ends) {
      const tab = view.query.tab ?? "rows";
      const box = h("div", { class: "open" });
      const links = TABS.map(([id, label]) => h("a", { href: href({ path: [table.table], query: { tab: id === "rows" ? null : id } }), "aria-current": id === tab ? "page" : null }, label));
      const title = h("h2", {}, h("code", {}, visible(table.table)));
      const header = h("header", { class: "tl" }, title, facts(table));
      fill(place, header, h("nav", { class: "tabs", "aria-label": "Of this table" }, links), box);
      open = { table, tab, ends, shown: null };
      if (tab === "schema") return void fill(box, schema(table, (name) => href({ path: [name], query: { tab: "schema" } })));
      const change = (query) => go({ path: [table.table], query: { ...view.query, ...query } }, { replace: true });
      open.shown = range({ root: box, table, query: view.query, change, signal: ends.signal });
      const { rows, ready, acts } = open.shown;
      title.after(acts);
      ready.then(() => ends.signal.aborted || rows.element.focus({ preventScroll: true }));
    }

    const facts = ({ key, index_of, is_virtual, stream, indexes }) =>
      h("p", { class: "about" }, h("span", { class: "title" }, many(key.length, "key column")),
        index_of && h("span", { class: "chip" }, `index of ${visible(index_of)}`), is_virtual && h("span", { class: "chip" }, "shows timelines"),
        stream && h("span", { class: "chip" }, "stream"), indexes.length > 0 && h("span", { class: "chip" }, many(indexes.length, "index", "indexes")));

    await readList();
    await show();
    if (!open) finds.element.focus({ preventScroll: true });
    return {
      resume: () => (readList(), open?.shown?.read()),
      update: (wanted) => ((view = wanted), show()),
      close: () => open?.ends.abort(),
    };
  },
};
