// Values, keys and conditions of tables, between the wire and what a person writes.
//
// Owns: the texts of key and condition. Promises: every digit of an integer and every byte comes through; 1.0 is a double
// and 1 an integer; what can't be read says where. Must not: make elements or call methods.
//
//   key        ann, 42        "a, b", 0x0aff       the values of the leading key columns, in their order
//   condition  speed >= 5.5 and (name = "Maria S" or not berth? = 14)        `?`: also rows that lack the column

import { json, read } from "../entry.js";

const PLAIN = /^[^\s",()=<>!]+$/;

/** A value of a row, for the page: integers beyond 2^53 are BigInt, bytes Uint8Array. */
export function decode(value) {
  if (typeof value?.$integer === "string") return BigInt(value.$integer);
  if (typeof value?.$binary === "string") return Uint8Array.from(atob(value.$binary), (letter) => letter.charCodeAt(0));
  return value;
}

export function encode(value) {
  if (typeof value === "bigint") return { $integer: String(value) };
  return value instanceof Uint8Array ? { $binary: JSON.parse(json(value)).$binary } : value;
}

/** A row as one object, as an entry: of each column the newest version, which comes first. */
export const entryOf = ({ columns }) =>
  Object.fromEntries(columns.filter(({ name }, at) => columns[at - 1]?.name !== name).map(({ name, value }) => [name, decode(value)]));

/** A value of a key as it is written in the field. */
export function written(value) {
  if (value instanceof Uint8Array) return `0x${Array.from(value, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  return typeof value !== "string" || (PLAIN.test(value) && !value.startsWith("0x")) ? String(value) : JSON.stringify(value);
}

export const keyText = (key, names) => names.filter((name) => name in key).map((name) => written(decode(key[name]))).join(", ");

/** {name: value} of the leading key columns that a text names. */
export function readKey(text, columns) {
  const words = split(text);
  const key = [];
  for (let at = 0; words.length; at += 1) {
    const column = columns[at];
    if (!column) throw new TypeError(`more values than the key has columns (${columns.length})`);
    key.push([column.name, typed(words.shift(), column)]);
    if (words.length && words.shift().text !== ",") throw new TypeError(`a comma is missing behind ${column.name}`);
  }
  return Object.fromEntries(key);
}

function typed({ text, quoted }, { name, type }) {
  if (type === "integer" && /^-?\d{1,19}$/.test(text) && !quoted) return encode(Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text));
  if (type === "integer") throw new TypeError(`${name} is an integer, “${text}” is not`);
  if (type === "string") return text;
  if (/^0x([0-9a-f]{2})*$/i.test(text)) return encode(bytesOf(text));
  throw new TypeError(`${name} is binary: write it like 0x0aff`);
}

const bytesOf = (text) => Uint8Array.from(text.slice(2).match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));

/** Words, texts in quotes, and signs: [{text, quoted}]. */
function split(text) {
  const words = [];
  const one = /\s*(?:("(?:[^"\\]|\\.)*")|(<=|>=|!=|[=<>(),])|([^\s",()=<>!]+))/gy;
  let end = 0;
  for (let found; (found = one.exec(text)); end = one.lastIndex) {
    words.push(found[1] ? { text: JSON.parse(found[1]), quoted: true } : { text: found[2] ?? found[3], sign: found[2] !== undefined });
  }
  if (text.slice(end).trim()) throw new TypeError(`can't be read from here: ${text.slice(end).trim()}`);
  return words;
}

/** The condition that a text says, or undefined. */
export function readCondition(text) {
  const words = split(text);
  if (words.length === 0) return undefined;
  const next = (wanted) => words[0] && !words[0].quoted && words[0].text.toLowerCase() === wanted && words.shift();

  const either = () => listed("any", "or", both);
  const both = () => listed("all", "and", one);
  function listed(kind, word, part) {
    const parts = [part()];
    while (next(word)) parts.push(part());
    return parts.length === 1 ? parts[0] : { [kind]: parts };
  }
  function one() {
    if (next("not")) return { not: one() };
    if (!next("(")) return comparison();
    const inner = either();
    if (!next(")")) throw new TypeError("a ) is missing");
    return inner;
  }
  function comparison() {
    const [name, op, value] = words.splice(0, 3);
    if (!name || name.sign) throw new TypeError("a column is missing, as in speed > 5");
    if (!op?.sign || /[(),]/.test(op.text)) throw new TypeError(`behind ${name.text} one of = != > >= < <= is missing`);
    if (!value || value.sign) throw new TypeError(`a value is missing behind ${name.text} ${op.text}`);
    const lenient = !name.quoted && name.text.endsWith("?");
    const compared = { column: lenient ? name.text.slice(0, -1) : name.text, op: op.text, value: literal(value) };
    return lenient ? { ...compared, if_missing: true } : compared;
  }

  const condition = either();
  if (words.length) throw new TypeError(`“and” or “or” is missing before ${words[0].text}`);
  return condition;
}

function literal({ text, quoted }) {
  if (quoted) return text;
  if (/^0x([0-9a-f]{2})*$/i.test(text)) return encode(bytesOf(text));
  if (/^-?\d{1,19}$/.test(text)) return encode(Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text));
  return /^(true|false|-?\d+\.\d+([eE][+-]?\d+)?)$/.test(text) ? read(text) : text;
}
