// Makes tables as Tablestore's SDKs do: the one thing about tables that there is no method for.
//
// Owns: just enough of protobuf for CreateTable. Promises: throws what the server refuses. Must not: read or write rows.

import { createHash, createHmac } from "node:crypto";

const KEY_TYPES = { integer: 1, string: 2, binary: 3 };
const COLUMN_TYPES = { integer: 1, double: 2, boolean: 3, string: 4, binary: 7 };

function varint(value) {
  const bytes = [];
  let left = BigInt.asUintN(64, BigInt(value));
  for (; left > 127n; left >>= 7n) bytes.push(Number(left & 127n) | 128);
  return [...bytes, Number(left)];
}
/** A field: numbers are varints; texts, messages (arrays of fields) are bytes; undefined is left out. */
function field(number, value) {
  if (value === undefined) return [];
  if (typeof value === "number" || typeof value === "boolean") return [...varint(number << 3), ...varint(Number(value))];
  const bytes = typeof value === "string" ? [...Buffer.from(value)] : value.flat();
  return [...varint((number << 3) | 2), ...varint(bytes.length), ...bytes];
}
const named = (types) => ({ name, type, auto_increment }) => [field(1, name), field(2, types[type]), field(3, auto_increment ? 1 : undefined)];

/** `key`, `columns`: [{name, type, auto_increment?}]; `indexes`: [{name, key: [names], columns: [names]}]; `stream`: hours. */
export async function createTable(server, table, { key, columns = [], versions = 1, indexes = [], stream } = {}) {
  const body = Buffer.from([
    field(1, [field(1, table), key.flatMap((one) => field(2, named(KEY_TYPES)(one))), columns.flatMap((one) => field(3, named(COLUMN_TYPES)(one)))]),
    field(2, [field(1, [field(1, 0), field(2, 0)])]),
    field(3, [field(1, -1), field(2, versions)]),
    field(5, stream && [field(1, true), field(2, stream)]),
    indexes.flatMap(({ name, key: keys, columns: held = [] }) => field(7, [field(1, name), keys.flatMap((one) => field(2, one)), held.flatMap((one) => field(3, one)), field(4, 0), field(5, 0)])),
  ].flat());
  // The key that a server without settings has.
  const headers = {
    "x-ots-accesskeyid": "development",
    "x-ots-apiversion": "2015-12-31",
    "x-ots-contentmd5": createHash("md5").update(body).digest("base64"),
    "x-ots-date": new Date().toISOString(),
    "x-ots-instancename": "tideline",
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}:${value}\n`);
  headers["x-ots-signature"] = createHmac("sha1", "development").update(`/CreateTable\nPOST\n\n${lines.join("")}`).digest("base64");
  const answer = await fetch(`${server.url}/CreateTable`, { method: "POST", body, headers });
  if (!answer.ok) throw new Error(`${answer.status} ${(await answer.text()).replace(/[^ -~]+/g, " ")}`);
}
