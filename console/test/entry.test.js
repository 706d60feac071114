// Entries: what people see and copy is what is stored.

import assert from "node:assert/strict";
import { test } from "node:test";
import { difference, json, line, lines, parse, read, size } from "../entry.js";

const joined = (tokens) => tokens.map(([, text]) => text).join("");
const exact = { skip: JSON.rawJSON ? false : "this Node has no JSON.rawJSON" };

test("1.0 and integers of 64 bits keep their form, in frames and in what is written", exact, () => {
  const frame = parse('{"result":{"lag_ms":1.0,"entry":{"a":1.0,"b":[9007199254740993],"c":1e3}}}');
  assert.equal(frame.result.lag_ms, 1);
  assert.equal(json(frame.result.entry), '{"a":1.0,"b":[9007199254740993],"c":1e3}');
  assert.equal(joined(line(frame.result.entry)), "a1.0b[9007199254740993]c1e3");
});

test("large integers and bytes", () => {
  const entry = { big: 9223372036854775807n, blob: new Uint8Array(18_000) };
  assert.ok(joined(line(entry)).includes("9223372036854775807"));
  assert.ok(joined(line(entry)).includes("‹binary 18.0 KB›"));
  assert.ok(joined(lines(entry).tokens).length < 300);
  assert.deepEqual(JSON.parse(json({ b: new Uint8Array([0, 1, 2, 3]) })), { b: { $binary: "AAECAw==" } });
});

test("markup is text, direction and control characters are seen", () => {
  const entry = { text: "<img src=x onerror=alert(1)>\u202Egnp.exe\u0000" };
  assert.ok(joined(line(entry)).endsWith("gnp.exe‹U+0000›"));
  assert.ok(joined(lines(entry).tokens).includes("‹U+202E›"));
});

test("megabytes are cut, and counted", () => {
  const entry = { text: "x".repeat(3_000_000) };
  const { tokens, cut } = lines(entry);
  assert.equal(joined(tokens).length, 65_536);
  assert.equal(cut, 3_000_000 + '{\n  "text": ""\n}'.length - 65_536);
  assert.ok(joined(line(entry)).length <= 404);
  assert.equal(size(entry), 3_000_011);
});

test("an edit sends what differs and nothing else", () => {
  const from = { a: 1, b: "x", c: [1, 2] };
  assert.deepEqual(difference(from, read('{"a":1,"c":[1,3],"d":null}')), { set: { c: [1, 3], d: null }, remove: ["b"] });
});
