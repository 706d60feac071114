// Values of entries, between JavaScript and the wire; and what a message must look like.
//
// Owns: the forms `{"$integer": …}` ↔ BigInt and `{"$binary": …}` ↔ Uint8Array. Promises: what can't go over the wire
// unharmed (NaN, an integer that lost digits, bytes in a nested value) is refused with its field; what a server sends
// in an unknown form is left as it is. Stores hold the wire's form, which is plain JSON.

import { Breach, TidelineError } from "./errors.js";

const ENTRIES = new Set(["entry", "meta", "attributes", "signal", "set", "announce"]);
const BY_NAME = new Set(["timelines", "positions", "reactions"]);
/** Levels of a value of an entry at most; the server's own default is 32. */
const NESTED_MAX = 256;

export const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
export const isCount = (value) => Number.isSafeInteger(value) && value >= 0;

/** Parameters of a call, for the wire. */
export const encode = (params) => walk(params, encodeEntry, "", NESTED_MAX);

/** A result, or the parameters of a push, for the app. */
export const decode = (result) => walk(result, decodeEntry, "", NESTED_MAX);

function walk(value, entry, path, deeper) {
  if (deeper === 0) return value;
  if (Array.isArray(value)) return value.map((one, at) => walk(one, entry, `${path}[${at}]`, deeper - 1));
  // A Number object is an app's own form of a number, as of the option `parse`.
  if (!isObject(value) || value instanceof Number) return value;
  const dotted = path && `${path}.`;
  return mapped(value, (one, name) => {
    const inner = dotted + name;
    if (BY_NAME.has(name) && isObject(one)) return mapped(one, (each, key) => walk(each, entry, `${inner}.${key}`, deeper - 1));
    return ENTRIES.has(name) && isObject(one) ? entry(one, inner) : walk(one, entry, inner, deeper - 1);
  });
}

// Through fromEntries, because assigning a member named `__proto__` would lose it.
const mapped = (object, change) =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value, name)]));

export function encodeEntry(entry, path = "entry") {
  return mapped(entry, (value, name) => {
    const field = `${path}.${name}`;
    // `attributes: {set: {…}}` of member.update is an entry inside of one.
    if (name === "set" && path.endsWith("attributes") && isObject(value)) return encodeEntry(value, field);
    if (typeof value === "bigint") {
      if (BigInt.asIntN(64, value) !== value) refuse(field, "an integer of more than 64 bits");
      return { $integer: String(value) };
    }
    if (value instanceof Uint8Array) return { $binary: btoa(Array.from(value, (byte) => String.fromCharCode(byte)).join("")) };
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) refuse(field, "a number beyond 2^53: pass a BigInt");
    nested(value, field);
    return value;
  });
}

/** Refuses what JSON.stringify would change in silence. */
function nested(value, field) {
  if (typeof value === "number" && !Number.isFinite(value)) refuse(field, `${value} is not a value`);
  if (typeof value === "bigint" || value instanceof Uint8Array) refuse(field, "only values of the entry itself can be this");
  if (typeof value === "function" || typeof value === "symbol") refuse(field, `a ${typeof value} is not a value`);
  if (value !== null && typeof value === "object") {
    for (const [name, one] of Object.entries(value)) nested(one, `${field}.${name}`);
  }
}

function refuse(field, why) {
  throw new TidelineError("invalid_params", `${field}: ${why}`, { code: -32602, field });
}

const decodeEntry = (entry) => (Object.values(entry).some((value) => decodeValue(value) !== value) ? mapped(entry, decodeValue) : entry);

function decodeValue(value) {
  if (!isObject(value)) return value;
  const { $integer, $binary } = value;
  if (Object.keys(value).length !== 1) return value;
  if (typeof $integer === "string" && /^-?[0-9]{1,19}$/.test($integer)) return BigInt($integer);
  if (typeof $binary === "string" && /^[A-Za-z0-9+/]*={0,2}$/.test($binary) && $binary.length % 4 === 0) {
    return Uint8Array.from(atob($binary), (letter) => letter.charCodeAt(0));
  }
  return value;
}

/** A stored message, for the app. */
export function decodeMessage(message) {
  const entry = message.entry && decodeEntry(message.entry);
  return entry === message.entry ? message : { ...message, entry };
}

/** Whether `change` is of another state of the message than `copy`, and a later one; of an open one the parts count too. */
export const isNewer = (change, copy) => (change.change ?? 0) > (copy.change ?? 0) || hasOtherParts(change, copy);

const hasOtherParts = (change, copy) =>
  change.open && change.parts !== copy.parts && (change.change ?? 0) === (copy.change ?? 0);

/** The copy with a later state laid on it: a whole message, or only its reactions. */
export function newest(copy, change) {
  if ("message_id" in change) return change;
  const { reactions: _, ...rest } = copy;
  const { reactions } = change;
  return Object.keys(reactions).length ? { ...rest, change: change.change, reactions } : { ...rest, change: change.change };
}

/** Which column of an open message grows. */
export const growsIn = ({ open }) => open?.column ?? "text";

/** The text of a message, "" if it has none; of an open one what has grown, unless told otherwise. */
export const textOf = (message, column = growsIn(message)) => (typeof message.entry?.[column] === "string" ? message.entry[column] : "");

/** An open message with the parts that came behind its text. */
export const grown = (message, { parts, text }) => ({ ...message, parts, entry: { ...message.entry, [growsIn(message)]: textOf(message) + text } });

/** The messages of a frame, all as they must be; else a breach. */
export const checkedMessages = (messages) => each(messages, checkedMessage);

/** The same of a frame that has only the reactions of messages. */
export const checkedReactions = (messages) => each(messages, checkedReaction);

function each(messages, checked) {
  if (!Array.isArray(messages)) throw new Breach("messages that are no array");
  return messages.map(checked);
}

function checkedReaction(one) {
  const holds = isObject(one) && isCount(one.sequence) && one.sequence > 0 && isCount(one.change) && isObject(one.reactions);
  if (!holds) throw new Breach(`not reactions of a message: ${shown(one)}`);
  return one;
}

/** A message as it must be. An entry that a store could not keep is left out, and `undecoded` says so. */
function checkedMessage(message) {
  if (!isMessage(message)) throw new Breach(`not a message: ${shown(message)}`);
  return message.entry && !Object.values(message.entry).every((value) => canBeKept(value, NESTED_MAX)) ? { ...message, entry: {}, undecoded: true } : message;
}

/** Whether every program can write a value as JSON and read it again: writers end at a depth, JSON has no infinities. */
function canBeKept(value, deeper) {
  if (typeof value === "number") return Number.isFinite(value);
  if (value === null || typeof value !== "object") return true;
  return deeper > 0 && Object.values(value).every((one) => canBeKept(one, deeper - 1));
}

function isMessage(message) {
  if (!isObject(message)) return false;
  const { sequence, timestamp, message_id, entry, change = null, sender = null, reactions = null, open = null, parts = null } = message;
  const gone = message.deleted === true || message.hidden === true;
  return (
    isCount(sequence) &&
    sequence > 0 &&
    isCount(timestamp) &&
    typeof message_id === "string" &&
    (change === null || isCount(change)) &&
    (sender === null || typeof sender === "string") &&
    (reactions === null || isObject(reactions)) &&
    (parts === null || isCount(parts)) &&
    (open === null || open === false || ((open === true || typeof open.column === "string") && parts !== null && isObject(entry))) &&
    (isObject(entry) || (gone && (entry ?? null) === null))
  );
}

/** For an error's text, also of what is nested too deeply to be written. */
function shown(value) {
  try {
    return JSON.stringify(value).slice(0, 200);
  } catch {
    return String(value);
  }
}

const KINDS = { count: isCount, epoch: (value) => typeof value === "string" && /^[A-Za-z0-9]{1,32}$/.test(value) };

/** Members of a frame by what each must be, as in `check(params, { epoch: "epoch", more: "boolean" })`. */
export function check(object, shape) {
  if (!isObject(object)) throw new Breach("no object where there must be one");
  for (const [name, kind] of Object.entries(shape)) {
    const value = object[name];
    if (KINDS[kind] ? !KINDS[kind](value) : typeof value !== kind) throw new Breach(`${name} is ${shown(value)}`);
  }
}
