// What a table is: its key, columns, options, stream and indexes.
//
// Owns: that page. Promises: shows what `table.get` says, and nothing else. Must not: change a table.

import { h, table as grid } from "../dom.js";
import { count, lasts, many, visible, when } from "../format.js";
import { pairs } from "../split.js";

const TYPES = { integer: "integer, 64 bits", string: "string", binary: "bytes", double: "double", boolean: "true or false" };

const panel = (title, said, ...body) => h("section", { class: `panel${title === "Indexes" ? " wide" : ""}` }, h("header", {}, h("h2", {}, title), said && h("p", {}, said)), body);
const code = (text) => h("code", {}, visible(text));

export function schema(table, href) {
  const { key, columns: defined, options, stream, indexes, index_of, created_at, transactions } = table;
  return h("div", { class: "schema" },
    panel("Key", many(key.length, "column"),
      grid(["Column", "Type"], key.map(({ name, type, auto_increment }, at) => [code(name), [TYPES[type] ?? type, h("small", {}, at === 0 ? ", decides the partition" : auto_increment ? ", given by the server" : "")]]))),
    panel("Columns that are defined", defined.length ? "others may have any name" : null,
      defined.length ? grid(["Column", "Type"], defined.map(({ name, type }) => [code(name), TYPES[type] ?? type])) : h("p", { class: "none" }, "None: a row may have columns of any names. Indexes need theirs defined.")),
    panel("Options", null,
      pairs(["Versions kept", count(options.versions)], ["Rows expire", options.ttl_s > 0 ? `after ${lasts(options.ttl_s * 1000)}` : "never"],
        ...others(options), ["Transactions", transactions ? "allowed" : "not allowed"], ["Made", created_at && when(created_at)],
        ["Index of", index_of && h("a", { href: href(index_of) }, visible(index_of))])),
    panel("Stream", stream ? `kept for ${many(stream.hours, "hour")}` : null,
      stream
        ? pairs(["ID", code(stream.id)], ["Since", when(stream.created_at)], ["Also holds", stream.columns.length ? stream.columns.map((name) => [code(name), " "]) : "nothing that was there before"])
        : h("p", { class: "none" }, "Off. With a stream every change of a row can be followed, in order.")),
    !index_of && panel("Indexes", indexes.length ? many(indexes.length, "index", "indexes") : null,
      indexes.length
        ? grid(["Index", "Kind", "State", "Key", "Columns"], indexes.map((it) => [h("a", { href: href(it.name) }, visible(it.name)), it.kind, h("span", { class: it.state === "complete" ? "st" : "st warn" }, it.state), it.key.map((name) => [code(name), " "]), it.columns.map((name) => [code(name), " "])]))
        : h("p", { class: "none" }, "None. An index keeps the rows in the order of other columns.")));
}

/** Options that this page has no words for. */
const others = (options) =>
  Object.entries(options).filter(([name]) => !["versions", "ttl_s"].includes(name)).map(([name, value]) => [visible(name).replaceAll("_", " "), visible(String(value))]);
