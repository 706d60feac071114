// Texts of keys and conditions, both ways; no browser.

import assert from "node:assert/strict";
import test from "node:test";
import { decode, encode, entryOf, keyText, readCondition, readKey } from "../../console/tables/value.js";

const COLUMNS = [{ name: "who", type: "string" }, { name: "at", type: "integer" }, { name: "raw", type: "binary" }];
const NAMES = COLUMNS.map(({ name }) => name);

test("a key is read as it is written, whatever is in it", () => {
  const keys = [
    { who: "ann", at: 42, raw: { $binary: "Cv8=" } },
    { who: 'a, "b" = (c)', at: { $integer: "-9223372036854775808" }, raw: { $binary: "" } },
    { who: "", at: 0 },
    { who: "0x41\n‮ é 𝄞" },
  ];
  for (const key of keys) assert.deepEqual(readKey(keyText(key, NAMES), COLUMNS), key);
  assert.equal(keyText(keys[0], NAMES), "ann, 42, 0x0aff");
});

test("a key that can't be says why", () => {
  assert.throws(() => readKey("ann, noon", COLUMNS), /at is an integer, “noon” is not/);
  assert.throws(() => readKey("ann, 1, 0xa", COLUMNS), /raw is binary/);
  assert.throws(() => readKey("ann, 1, 0x0a, 4", COLUMNS), /more values than the key has columns/);
  assert.throws(() => readKey('ann, "open', COLUMNS), /can't be read from here: "open/);
  assert.throws(() => readKey("ann 1", COLUMNS), /a comma is missing behind who/);
});

test("conditions are read by their usual precedence", () => {
  assert.equal(readCondition("  "), undefined);
  assert.deepEqual(readCondition('a = 1 or b != "x y" and not (c? < 2 or d >= ann)'), {
    any: [
      { column: "a", op: "=", value: 1 },
      { all: [{ column: "b", op: "!=", value: "x y" }, { not: { any: [{ column: "c", op: "<", value: 2, if_missing: true }, { column: "d", op: ">=", value: "ann" }] } }] },
    ],
  });
  assert.deepEqual(readCondition("a = 9223372036854775807"), { column: "a", op: "=", value: { $integer: "9223372036854775807" } });
  assert.deepEqual(readCondition("a = 0x00ff"), { column: "a", op: "=", value: { $binary: "AP8=" } });
  assert.deepEqual(readCondition('a = "5"'), { column: "a", op: "=", value: "5" });
  assert.equal(typeof readCondition("a = 5.5").value, "number");
});

test("a condition that can't be says why", () => {
  const why = [["speed", /behind speed/], ["speed >", /a value is missing behind speed >/], ["(a = 1", /a \) is missing/], ["a = 1 b = 2", /“and” or “or” is missing before b/], ["= 1", /a column is missing/], ["a = 1 and", /a column is missing/]];
  for (const [text, reason] of why) assert.throws(() => readCondition(text), reason);
});

test("values keep every digit and byte, and the newest version is shown", () => {
  for (const value of [0n, -(2n ** 63n), 2n ** 63n - 1n, new Uint8Array([0, 255, 128]), "text", 1.5, true]) assert.deepEqual(decode(encode(value)), value);
  assert.deepEqual(entryOf({ columns: [{ name: "a", version: 2, value: "new" }, { name: "a", version: 1, value: "old" }] }), { a: "new" });
});
