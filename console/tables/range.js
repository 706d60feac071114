// The rows of one table, from a key on, those that meet a condition.
//
// Owns: that list, its pages, and one row. Promises: nothing is scanned but what the page needs; at most ROWS_MAX rows are
// kept, and what comes behind them is said and can be gone to; a row is put only after it was confirmed.
// Must not: know other tables.

import { ask, show } from "../dialog.js";
import { h, set } from "../dom.js";
import { json, read as readJson } from "../entry.js";
import { count, many, visible, when } from "../format.js";
import { hint } from "../keys.js";
import { server } from "../server.js";
import { asOf, button, pairs, searchField, split } from "../split.js";
import { empty, failed, load } from "../states.js";
import { block, copy, inline } from "../timelines/message.js";
import { decode, encode, entryOf, keyText, readCondition, readKey, written } from "./value.js";

const PAGE = 200;
const ROWS_MAX = 2_000;
const [EXISTS, ABSENT, ANY] = ["exists", "is not there", "exists or not"];

/** `change(query)` changes the view. Returns {rows, keys, ready, acts, update(query), read()}. */
export function range({ root, table, query, change, signal }) {
  const names = table.key.map(({ name }) => name);
  // An index and a table that shows timelines are written by writing something else.
  const written_to = !table.index_of && !table.is_virtual;
  const lacks = server.can("tables:write", table.table) ? null : "tables:write";
  const key = searchField({ label: "From this key", placeholder: `From key: ${names.join(", ")}`, value: query.key ?? "", key: "go_to", mono: true, changed: (text) => change({ key: text, row: null }) });
  const filter = searchField({ label: "Only rows with", placeholder: "Only with: speed > 5.5", value: query.filter ?? "", key: "search", mono: true, changed: (text) => change({ filter: text, row: null }) });
  const backward = h("button", { type: "button", title: "The highest key first", onclick: () => change({ backward: query.backward ? null : 1, row: null }) }, "Highest first");
  const page = split({
    root, name: "row", label: `Rows of ${visible(table.table)}`, bar: [key.element, filter.element, backward],
    heads: [...names.map((name) => [visible(name)]), ["Columns"]],
    render: cells, near_end: () => dry || more(),
    id: (row) => keyText(row.key, names), open: detail, go: (row) => change({ row }),
  });
  const { rows } = page;
  root.style.setProperty("--keys", names.length);

  let next = null; // where the page behind the last one begins
  let dry = false; // the last page read had no row that meets the condition: what is behind is read only when asked
  let asking = false;
  let wanted = {}; // what was asked, without the place

  function cells(row) {
    return [
      ...names.map((name) => h("span", { class: "pk" }, shown(row.key[name]))),
      h("span", { class: "entry" }, inline(entryOf(row)), row.cut && h("em", { class: "badge" }, "more columns")),
    ];
  }

  function detail(row) {
    const versions = row.columns.map(({ version }) => version);
    return [
      page.heading("Row ", h("code", {}, visible(keyText(row.key, names)))),
      pairs(...names.map((name) => [visible(name), h("code", {}, shown(row.key[name]))]), ["Columns", count(row.columns.length)], ["Written", versions.length ? when(Math.max(...versions)) : null]),
      h("h3", {}, "Columns"),
      block(entryOf(row)),
      row.cut && h("p", { class: "none" }, "It has more columns than are sent at once."),
      h("div", { class: "acts col" },
        written_to && button("Replace", { key: "edit", lacks, onclick: () => put(row) }),
        button("Copy JSON", { key: "copy", onclick: () => copyRow(row) }), button("Copy link", { key: "link", onclick: copyLink })),
    ];
  }

  const copyRow = (row) => copy(json({ key: mapped(row.key, decode), columns: entryOf(row) }, 2), show);
  const copyLink = () => copy(location.href, show);

  /** The first page. */
  async function read() {
    try {
      const given = readKey(query.key ?? "", table.key);
      const whole = Object.keys(given).length === names.length;
      wanted = { table: table.table, limit: PAGE, filter: readCondition(query.filter ?? ""), backward: query.backward ? true : undefined };
      if (Object.keys(given).length) Object.assign(wanted, whole ? { from: given } : { within: given });
    } catch (error) {
      return page.instead(h("section", { class: "message", role: "alert" }, h("h2", {}, "This can't be read"), h("p", {}, visible(error.message)), syntax()));
    }
    next = null;
    const asked = wanted;
    await load(page.body, () => server.call("row.range", asked, { signal }), (said) => {
      if (asked !== wanted) return;
      came(said);
      if (said.rows.length === 0 && !next) return page.instead(nothing());
      page.opened = null; // what is shown of it may be old
      put_in(said.rows);
    }, { signal });
  }

  const came = (said) => ([next, dry] = [said.next ?? null, said.rows.length === 0]);

  function put_in(all) {
    const upto = next && visible(keyText(next, names));
    const behind = !next ? "no more follow"
      : all.length >= ROWS_MAX ? `no more are kept: go on from ${upto} (${hint("go_to")})`
      : dry ? `looked up to ${upto}, go on with ${hint("newest")}` : "more as you scroll";
    page.show(all, `${many(all.length, "row")}${wanted.filter ? " that meet the condition" : ""}, ${behind}, ${asOf()}`);
    openNamed();
  }

  /** The next page, when the end of this one is near. */
  async function more() {
    if (!next || asking || rows.items.length >= ROWS_MAX || signal.aborted) return;
    asking = true;
    const asked = wanted;
    try {
      const said = await server.call("row.range", { ...asked, from: next }, { signal });
      if (asked !== wanted) return;
      came(said);
      put_in([...rows.items, ...said.rows]);
    } catch (error) {
      if (asked === wanted && error.reason && error.reason !== "connection_lost") page.instead(failed(error, read));
    } finally {
      asking = false;
    }
  }

  /** What the fragment names: a row of the list, or one that is got by its key. */
  async function openNamed() {
    const name = query.row || null;
    if (page.opened === name || page.named(name)) return;
    rows.index = -1;
    try {
      const { row } = await server.call("row.get", { table: table.table, key: readKey(query.row, table.key) }, { signal });
      if (row) page.open(row);
    } catch {
      // A link to a row that can't be read: the list stays.
    }
  }

  const nothing = () =>
    query.key || query.filter
      ? empty("No row", "No row from this key on meets the condition.", null, syntax())
      : empty("No rows yet", "A row is a key and columns of any names. Tablestore's SDKs write them, or you, here:", null, putter("primary"));
  const putter = (kind) => written_to && button("Put a row", { key: "append", kind, lacks, onclick: () => put(null) });

  /** Puts a row: a new one, or another in the place of one. */
  async function put(row) {
    const fields = table.key.map(({ name, type, auto_increment }) => ({
      name: `key.${name}`, label: [visible(name), " ", h("small", {}, auto_increment ? "given by the server" : type)], mono: true,
      value: row ? written(decode(row.key[name])) : "", required: !auto_increment,
    }));
    const done = await ask({
      title: row ? "Replace this row" : `Put a row into ${visible(table.table)}`,
      lost: row && "Columns that are not below are lost, and so are older versions.",
      fields: [
        ...fields,
        { name: "columns", label: "Columns", type: "area", mono: true, required: true, value: row ? json(entryOf(row), 2) : "{\n  \n}", hint: 'JSON. 1 is an integer, 1.0 a double; {"$binary": "base64"} are bytes.' },
        { name: "expect", label: "Where the row", type: "choice", options: row ? [EXISTS, ANY] : [ABSENT, EXISTS, ANY] },
      ],
      action: row ? "Replace" : "Put",
      danger: row !== null,
      submit: async (said) => {
        const written_key = table.key.filter(({ name, auto_increment }) => !auto_increment || said[`key.${name}`].trim());
        const given = Object.assign({}, ...written_key.map((column) => readKey(quotedIf(said[`key.${column.name}`].trim(), column), [column])));
        const columns = readJson(said.columns);
        const expect = { [EXISTS]: "exist", [ABSENT]: "absent" }[said.expect];
        return server.call("row.put", { table: table.table, key: given, columns: mapped(columns, encode), expect }, { signal });
      },
    });
    if (!done) return;
    change({ row: keyText(done.key, names) });
    read();
  }

  const ready = read();
  return {
    rows,
    ready,
    acts: h("div", { class: "acts" }, putter()),
    keys: {
      ...page.keys,
      newest: () => (page.keys.newest(), more()),
      go_to: () => key.input.focus(),
      search: () => filter.input.focus(),
      append: () => written_to && !lacks && put(null),
      edit: () => written_to && !lacks && rows.item && put(rows.item),
      copy: () => rows.item && copyRow(rows.item),
      link: copyLink,
    },
    update(said) {
      const same = ["key", "filter", "backward"].every((name) => (said[name] ?? "") === (query[name] ?? ""));
      query = said;
      key.show(query.key);
      filter.show(query.filter);
      set(backward, "aria-pressed", String(Boolean(query.backward)));
      if (same) openNamed();
      else read();
    },
    read,
  };
}

const shown = (value) => visible(written(decode(value)).slice(0, 200));
const mapped = (object, change) => Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]));
// In a field of its own a string needs no quotes.
const quotedIf = (text, { type }) => (type === "string" && !text.startsWith('"') ? JSON.stringify(text) : text);

const syntax = () =>
  pairs(
    ["Key", h("code", {}, "ann, 42")], ["", "the leading columns of the key; all of them: from that row on"],
    ["Condition", h("code", {}, 'speed >= 5.5 and (name = "Maria S" or not berth? = 14)')], ["", "1 is an integer, 1.0 a double, 0x0aff bytes; ? also takes rows that lack the column"],
  );
