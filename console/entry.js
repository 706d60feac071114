// Entries as people read, copy and write them.
//
// Owns: the forms of an entry: one line, many lines, JSON. Promises: 1.0 stays apart from 1, every digit of an integer
// is kept, bytes are named and not printed, and what is cut is counted. Must not: make elements.
//
// Forms for people are tokens [kind, text], kind = "name", "text", "number", "bytes" or "mark".

import { bytes, visible } from "./format.js";

const CUT = 65_536; // characters of an entry that are shown
const LINE = 400; // of these in one line

/** A number that JavaScript would change: 1.0, or an integer of 64 bits inside of an array. */
class Exact extends Number {
  #source;
  constructor(value, source) {
    super(value);
    this.#source = source;
  }
  toString() {
    return this.#source;
  }
  toJSON() {
    return JSON.rawJSON(this.#source);
  }
}

// Browsers without `context` and `JSON.rawJSON` show 1.0 as 1.
function exact(name, value, context) {
  if (typeof value !== "number" || !JSON.rawJSON) return value;
  const changed = Number.isInteger(value) && (!Number.isSafeInteger(value) || /[.eE]/.test(context.source));
  return changed ? new Exact(value, context.source) : value;
}

/** JSON that a person wrote. */
export const read = (text) => JSON.parse(text, exact);

const ENTRIES = new Set(["entry", "meta", "attributes", "signal", "value", "key"]); // the last two are a row's

/** A frame of the server, its entries exact; other numbers are plain. */
export const parse = (text) => plain(read(text));

function plain(value) {
  if (value instanceof Number) return Number(value);
  if (value === null || typeof value !== "object") return value;
  for (const [name, one] of Object.entries(value)) {
    if (typeof one === "object" && !ENTRIES.has(name)) value[name] = plain(one);
  }
  return value;
}

function base64(value) {
  let text = "";
  for (let at = 0; at < value.length; at += 8_192) text += String.fromCharCode(...value.subarray(at, at + 8_192));
  return btoa(text);
}

const wire = (name, value) => {
  if (typeof value === "bigint") return JSON.rawJSON ? JSON.rawJSON(String(value)) : { $integer: String(value) };
  return value instanceof Uint8Array ? { $binary: base64(value) } : value;
};

/** JSON as the server takes it. */
export const json = (value, indent) => JSON.stringify(value, wire, indent);

/** Bytes of the compact JSON. */
export const size = (entry) => new TextEncoder().encode(json(entry)).length;

/** What to set and to remove to make `from` into `to`. */
export function difference(from, to) {
  const set = Object.fromEntries(Object.entries(to).filter(([name, value]) => !Object.hasOwn(from, name) || json(from[name]) !== json(value)));
  return { set, remove: Object.keys(from).filter((name) => !Object.hasOwn(to, name)) };
}

const isNumber = (value) => ["number", "bigint", "boolean"].includes(typeof value) || value === null || value instanceof Number;

/** One line: name and value of each, a text first. */
export function line(entry) {
  const tokens = [];
  let left = LINE;
  const names = Object.keys(entry);
  const put = (kind, text) => (tokens.push([kind, text]), (left -= text.length));
  for (const name of names.includes("text") ? ["text", ...names.filter((one) => one !== "text")] : names) {
    if (left <= 0) break;
    const value = entry[name];
    put("name", visible(name.slice(0, 64)));
    if (typeof value === "string") put("text", visible(value.slice(0, left)));
    else if (isNumber(value)) put("number", String(value));
    else if (value instanceof Uint8Array) put("bytes", `‹binary ${bytes(value.length)}›`);
    else put("number", visible(short(value, left)));
  }
  return tokens;
}

/** The beginning of a nested value's JSON. */
function short(value, most) {
  if (Array.isArray(value) && value.length > most) value = value.slice(0, most);
  return json(value).slice(0, most);
}

/** Many lines, and how many characters were left out. */
export function lines(entry, most = CUT) {
  const tokens = [];
  let left = most;
  let cut = 0;
  const put = (kind, text) => {
    if (left > 0) tokens.push([kind, text.slice(0, left)]);
    cut += Math.max(text.length - Math.max(left, 0), 0);
    left -= text.length;
  };
  const texts = (value) => visible(JSON.stringify(value).replaceAll("\\n", "\n"), { lines: true });
  function walk(value, indent) {
    if (typeof value === "string") put("text", texts(value));
    else if (isNumber(value)) put("number", String(value));
    else if (value instanceof Uint8Array) put("bytes", `‹binary ${bytes(value.length)}› ${base64(value.subarray(0, 48))}${value.length > 48 ? "…" : ""}`);
    else nest(value, indent);
  }
  function nest(value, indent) {
    const [open, close] = Array.isArray(value) ? "[]" : "{}";
    const items = Object.entries(value);
    const inner = `${indent}  `;
    const flat = Array.isArray(value) && json(value).length <= 60;
    put("mark", open);
    for (const [at, [name, one]] of items.entries()) {
      put("mark", flat ? (at ? ", " : "") : `${at ? "," : ""}\n${inner}`);
      if (!Array.isArray(value)) put("name", visible(JSON.stringify(name))), put("mark", ": ");
      walk(one, inner);
    }
    put("mark", items.length && !flat ? `\n${indent}${close}` : close);
  }
  walk(entry, "");
  return { tokens, cut };
}
