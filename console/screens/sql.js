// SQL: one statement at a time, and the rows that it answers.
//
// Owns: the statement, its answer, and the statements that were run before in this tab. Promises: nothing runs but what
// somebody runs here, whatever a link says; what an answer leaves out is said; an error shows the line and the column
// that it names. Must not: take a statement apart; the server does.

import { show } from "../dialog.js";
import { fill, h } from "../dom.js";
import { json } from "../entry.js";
import { many, visible } from "../format.js";
import { hint, tip } from "../keys.js";
import { drives } from "../list.js";
import { server } from "../server.js";
import { asOf, button, pairs, split } from "../split.js";
import { empty, failed, load } from "../states.js";
import { decode, written } from "../tables/value.js";
import { copy } from "../timelines/message.js";

/** Of a list; a row that is open has all. */
const COLUMNS_MAX = 40;
const LETTERS_MAX = 200;
/** Of a value in a row that is open. */
const OPEN_MAX = 65_536;
const BEFORE_MAX = 50;
/** A longer statement is in no link. */
const LINKED_MAX = 2_000;
const HELP = "One statement in MySQL's dialect. Tables need a mapping, or have their key and defined columns; timelines are rows of two tables:";
const START = "SELECT __sender, COUNT(*) AS messages FROM timeline_message GROUP BY __sender";

/** Run before in this tab, the newest first. */
let before = [];

const NULL = () => h("small", {}, "NULL");
const textOf = (value) => (typeof value === "string" ? value : written(decode(value)));
const brief = (value) => (value === null ? NULL() : visible(textOf(value).slice(0, LETTERS_MAX)));
const kind = ({ type }) => (type === "integer" || type === "double" ? "n" : null);

export const screen = {
  async open({ root, view, signal, go, keys }) {
    let running = new AbortController();
    let page = null; // of split.js, while the answer has rows
    let answer = null;
    let linked = view.query.q ?? "";
    const area = h("textarea", { id: "statement", class: "mono", rows: 5, "aria-label": "Statement", placeholder: START, spellcheck: "false", autocomplete: "off", maxlength: 262_144, value: view.query.q ?? "" });
    const start = h("button", { type: "button", class: "primary", title: tip("run"), onclick: run }, "Run", h("kbd", {}, hint("run")));
    const earlier = h("select", { "aria-label": "Statements before", onchange: () => (write_in(before[earlier.selectedIndex - 1]), (earlier.selectedIndex = 0)) });
    const place = h("div", { class: "body answer" });
    fill(root, h("div", { class: "asks" }, area, h("div", { class: "acts" }, start, earlier)), place);
    keys({
      ...Object.fromEntries(["back", ...Object.keys(drives())].map((name) => [name, (event) => page?.keys[name](event)])),
      run, search: () => area.focus(), edit: () => area.focus(), copy: () => page?.rows.item && copyRow(page.rows.item),
    });

    const copyRow = ({ row }) => copy(json(Object.fromEntries(answer.columns.map(({ name }, at) => [name, decode(row[at])])), 2), show);

    function write_in(statement) {
      if (statement === undefined) return;
      area.value = statement;
      area.focus();
    }

    function remember(statement) {
      before = [statement, ...before.filter((one) => one !== statement)].slice(0, BEFORE_MAX);
      offer();
    }
    function offer() {
      fill(earlier, h("option", {}, before.length ? many(before.length, "statement") + " before" : "None before"), before.map((one) => h("option", {}, visible(one.replaceAll(/\s+/g, " ").slice(0, 80)))));
      earlier.disabled = before.length === 0;
    }

    async function run() {
      const statement = area.value;
      if (!statement.trim()) return area.focus();
      running.abort();
      running = new AbortController();
      const mine = AbortSignal.any([signal, running.signal]);
      remember(statement);
      linked = statement.length > LINKED_MAX ? "" : statement;
      go({ query: { q: linked } }, { replace: true });
      page = null;
      await load(place, () => server.call("sql.query", { statement }, { signal: mine }).catch(refused), (said) => came(said, statement), { signal: mine });
    }

    /** What the server refused is shown beside the statement; all else is everybody's error. */
    function refused(error) {
      if (!error.reason || error.reason === "connection_lost") throw error;
      return { error };
    }

    function came(said, statement) {
      if (said.error) {
        const panel = failed(said.error);
        panel.append(...marked(said.error, statement));
        return panel;
      }
      answer = said;
      if (said.columns.length === 0) return h("section", { class: "message", role: "status" }, h("h2", {}, said.affected === undefined ? "Done" : `${many(said.affected, "row")} written`));
      const columns = said.columns.slice(0, COLUMNS_MAX);
      place.style.setProperty("--columns", columns.length);
      const items = said.rows.map((row, at) => ({ row, at }));
      fill(place);
      page = split({
        root: place, name: "row", label: "Rows", bar: [], heads: columns.map((column) => [visible(column.name), kind(column)]),
        render: ({ row }) => columns.map((column, at) => h("span", { class: kind(column) }, brief(row[at]))),
        id: ({ at }) => at, open: detail, go: (at) => page.named(at),
      });
      const left = said.columns.length - columns.length;
      const cut = said.cut ? "; the last rows did not fit into the answer: ask for fewer, with LIMIT" : "";
      page.show(items, `${many(items.length, "row")}${cut}${left ? `; ${many(left, "column")} more in each that is open` : ""}, ${asOf()}`);
    }

    /** The line and the column that an error names. */
    function marked({ message }, statement) {
      const found = / at line (\d+) column (\d+)/.exec(message ?? "");
      const line = found && statement.split("\n")[found[1] - 1];
      if (!line) return [];
      const from = Math.max(0, found[2] - 60);
      return [h("pre", { class: "where", tabindex: "0", "aria-label": `Line ${found[1]}, column ${found[2]}` }, `${visible(line.slice(from, from + 100))}\n${" ".repeat(found[2] - 1 - from)}^`)];
    }

    function detail({ row, at }) {
      return [
        page.heading(`Row ${at + 1}`),
        pairs(...answer.columns.map(({ name }, column) => [visible(name), whole(row[column])])),
        h("div", { class: "acts" }, button("Copy JSON", { key: "copy", onclick: () => copyRow({ row }) })),
      ];
    }

    function whole(value) {
      if (value === null) return NULL();
      const text = textOf(value);
      const left = text.length - OPEN_MAX;
      return [h("code", {}, visible(text.slice(0, OPEN_MAX), { lines: true })), left > 0 && h("small", {}, ` ${many(left, "more character")}; Copy JSON has all`)];
    }

    offer();
    fill(place, empty("Which statement?", HELP, START));
    return {
      update(wanted) {
        const q = wanted.query.q ?? "";
        if (q !== linked) area.value = linked = q;
      },
      close: () => running.abort(),
    };
  },
};
