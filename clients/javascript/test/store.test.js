import assert from "node:assert/strict";
import promises, { appendFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { IndexedDbStore, MemoryStore } from "../index.js";
import { FileStore } from "../store/file.js";
import { message, messages } from "./script.js";

const place = (after, more = {}) => ({ epoch: "E1", first: 1, after, changes: 0, ...more });
const item = (message_id, order) => ({ timeline: "room", message_id, order, params: { entry: { n: order } } });

const folder = await mkdtemp(join(tmpdir(), "tideline-"));
process.on("exit", () => rm(folder, { recursive: true, force: true }));
let files = 0;
const path = () => join(folder, `store-${files++}`);

const KINDS = { memory: async () => new MemoryStore(), file: async () => FileStore.open(path()) };
// Where there is an IndexedDB to test with: `npm install --no-save fake-indexeddb`.
const has_indexeddb = await import("fake-indexeddb/auto").then(() => true, () => false);
if (has_indexeddb) KINDS.indexeddb = () => IndexedDbStore.open(`store-${files++}`);

for (const [kind, open] of Object.entries(KINDS)) {
  test(`${kind}: messages and place go together`, async () => {
    const store = await open();
    assert.equal(await store.place("room"), null);
    assert.deepEqual(await store.range("room"), []);
    assert.equal(await store.get("room", 1), null);
    await store.apply("room", place(3), messages(1, 3));
    await store.apply("room", place(5, { changes: 2 }), [...messages(4, 5), message(2, { change: 2, entry: { text: "new" } })]);
    assert.deepEqual(await store.place("room"), place(5, { changes: 2 }));
    assert.equal((await store.get("room", 2)).entry.text, "new");
    assert.equal(await store.get("room", 6), null);
    const sequences = async (range) => (await store.range("room", range)).map(({ sequence }) => sequence);
    assert.deepEqual(await sequences(), [1, 2, 3, 4, 5]);
    assert.deepEqual(await sequences({ from: 2, to: 4 }), [2, 3]);
    assert.deepEqual(await sequences({ limit: 2 }), [1, 2]);
    assert.deepEqual(await sequences({ limit: 2, newest: true }), [4, 5]);
    assert.deepEqual(await sequences({ from: 9 }), []);
    await store.apply("room", place(5, { first: 4, changes: 2 }), []);
    assert.deepEqual(await sequences({ from: 1 }), [4, 5]);
    await store.apply("room", place(8, { first: 8, changes: 2 }), messages(8, 8));
    assert.deepEqual(await sequences(), [8]);
    await store.apply("room", place(8, { first: 5, changes: 3 }), messages(5, 7));
    assert.deepEqual(await sequences(), [5, 6, 7, 8]);
    await store.apply("room", place(9, { first: 5, changes: 3 }), messages(9, 9));
    assert.deepEqual(await sequences({ from: 7 }), [7, 8, 9]);
    await store.apply("__proto__", place(0), []);
    assert.deepEqual((await store.timelines()).sort(), ["__proto__", "room"]);
    await store.forget("room");
    assert.deepEqual([await store.place("room"), await sequences(), await store.timelines()], [null, [], ["__proto__"]]);
    await store.close();
  });

  test(`${kind}: a message grows by the parts that follow those it has`, async () => {
    const store = await open();
    const grow = (sequence, from, parts, text, more = {}) => {
      const whole = message(sequence, { open: true, parts, entry: { text: text.padStart(parts, "ab") } });
      return store.grow("room", { epoch: "E1", sequence, from, parts, text, ...more }, whole);
    };
    await grow(1, 1, 1, "a");
    await store.apply("room", place(2), [message(1, { open: true, parts: 0, entry: {} }), message(2)]);
    await grow(1, 1, 2, "ab");
    await grow(1, 1, 1, "a");
    await grow(1, 3, 3, "c", { epoch: "E2" });
    await grow(2, 1, 1, "a");
    await grow(9, 1, 1, "a");
    assert.deepEqual(await store.range("room"), [message(1, { open: true, parts: 2, entry: { text: "ab" } }), message(2)]);
    await grow(1, 3, 3, "c");
    assert.deepEqual(await store.get("room", 1), message(1, { open: true, parts: 3, entry: { text: "abc" } }));
    const closed = message(1, { change: 1, parts: 3, outcome: "done", entry: { text: "abc" } });
    await store.apply("room", place(2, { changes: 1 }), [closed]);
    await grow(1, 4, 4, "d");
    assert.deepEqual(await store.get("room", 1), closed);
    await store.close();
  });

  test(`${kind}: the outbox`, async () => {
    const store = await open();
    await store.addToOutbox(item("b", 1));
    await store.addToOutbox(item("a", 2));
    await store.removeFromOutbox({ timeline: "room", message_id: "b" });
    await store.removeFromOutbox({ timeline: "room", message_id: "never" });
    assert.deepEqual(await store.outbox(), [item("a", 2)]);
    await store.close();
  });
}

test("indexeddb: of two tabs none sets the other back", { skip: !has_indexeddb }, async () => {
  const [one, two] = [await IndexedDbStore.open("shared"), await IndexedDbStore.open("shared")];
  await one.apply("room", place(3, { changes: 4 }), [message(1), message(2, { change: 4 }), message(3)]);
  await two.apply("room", place(2, { changes: 1 }), [message(1), message(2)]);
  assert.deepEqual(await one.place("room"), place(3, { changes: 4 }));
  assert.equal((await one.get("room", 2)).change, 4);
  await two.apply("room", { ...place(1), epoch: "E2" }, [message(1)]);
  assert.equal((await one.range("room")).length, 1);
  await one.close();
  await two.close();
});

test("indexeddb: older messages of one tab stay, whatever the other writes", { skip: !has_indexeddb }, async () => {
  const [one, two] = [await IndexedDbStore.open("older"), await IndexedDbStore.open("older")];
  const sequences = async () => (await one.range("room")).map(({ sequence }) => sequence);
  await one.apply("room", place(9, { floor: 1, first: 8 }), messages(8, 9));
  await one.apply("room", place(9, { floor: 1, first: 6 }), messages(6, 7));
  await two.apply("room", place(10, { floor: 1, first: 8 }), messages(10, 10));
  assert.deepEqual(await sequences(), [6, 7, 8, 9, 10]);
  await two.apply("room", place(10, { floor: 1, first: 3 }), messages(3, 4));
  assert.deepEqual(await sequences(), [6, 7, 8, 9, 10]);
  await two.apply("room", place(11, { floor: 7, first: 7 }), messages(11, 11));
  assert.deepEqual(await sequences(), [7, 8, 9, 10, 11]);
  await one.close();
  await two.close();
});

test("file: what was written is there again", async () => {
  const at = path();
  const store = await FileStore.open(at);
  const written = Array.from({ length: 30 }, (_, n) => store.apply("room", place(n + 1, { first: n > 20 ? 5 : 1 }), messages(n + 1, n + 1)));
  await Promise.all([...written, store.addToOutbox(item("a", 1)), store.apply("other", place(1), messages(1, 1)), store.forget("other")]);
  await store.close();
  const again = await FileStore.open(at);
  assert.deepEqual(await again.place("room"), place(30, { first: 5 }));
  assert.deepEqual(await again.range("room"), messages(5, 30));
  assert.deepEqual(await again.outbox(), [item("a", 1)]);
  assert.deepEqual(await again.timelines(), ["room"]);
  await again.close();
});

test("file: each cut of the file is a state that was there", async () => {
  const at = path();
  const store = await FileStore.open(at);
  for (let n = 1; n <= 4; n++) await store.apply("room", place(n), messages(n, n));
  await store.close();
  const text = await readFile(at, "utf8");
  for (let size = 0; size < text.length; size += 7) {
    const cut = path();
    await writeFile(cut, text.slice(0, size));
    const left = await FileStore.open(cut);
    const after = (await left.place("room"))?.after ?? 0;
    assert.deepEqual(await left.range("room"), messages(1, after));
    await left.apply("room", place(after + 1), messages(after + 1, after + 1));
    await left.close();
  }
});

test("file: damage within is an error that says where", async () => {
  const at = path();
  await (await FileStore.open(at)).close();
  await appendFile(at, '["apply","room"\n["forget","room"]\n');
  await assert.rejects(FileStore.open(at), /line 2/);
  await writeFile(at, "something else\n");
  await assert.rejects(FileStore.open(at), /not a store/);
});

test("file: one client at a time; the lock of a process that is gone does not count", async () => {
  const at = path();
  const store = await FileStore.open(at);
  await assert.rejects(FileStore.open(at), /one client at a time/);
  await store.close();
  await assert.rejects(store.addToOutbox(item("a", 1)), /closed/);
  await writeFile(`${at}.lock`, "999999999");
  await (await FileStore.open(at)).close();
});

test("file: it is written anew when most of it is old, and nothing is lost meanwhile", async () => {
  const at = path();
  const store = await FileStore.open(at);
  const text = "x".repeat(10_000);
  const writes = [];
  for (let n = 1; n <= 300; n++) writes.push(store.apply("room", place(n, { first: n }), [message(n, { entry: { text } })]));
  await Promise.all(writes);
  for (let n = 301; n <= 310; n++) await store.apply("room", place(n, { first: n }), [message(n, { entry: { text } })]);
  await store.close();
  assert.ok((await readFile(at)).length < 1_000_000);
  const again = await FileStore.open(at);
  assert.deepEqual(await again.range("room"), [message(310, { entry: { text } })]);
  await again.close();
});

test("file: a new file is written, takes the old one's place and is in its folder for good, in this order", { skip: process.platform === "win32" }, async (t) => {
  const at = path();
  const calls = [];
  const { open, rename } = promises;
  const put = (functions) => (Object.assign(promises, functions), syncBuiltinESMExports());
  t.after(() => put({ open, rename }));
  put({
    open: async (opened, ...how) => {
      const file = await open(opened, ...how);
      for (const name of ["appendFile", "datasync", "sync"]) {
        const call = file[name].bind(file);
        file[name] = async (...args) => (await call(...args), calls.push([name, opened]));
      }
      return file;
    },
    rename: async (from, to) => (await rename(from, to), calls.push(["rename", from, to])),
  });
  const store = await FileStore.open(at);
  assert.deepEqual(calls, [["appendFile", `${at}.new`], ["datasync", `${at}.new`], ["rename", `${at}.new`, at], ["sync", folder]]);
  await store.close();
});

test("indexeddb: what a tab with an older history writes leaves no gap", { skip: !has_indexeddb }, async () => {
  const store = await KINDS.indexeddb();
  const has = async () => [(await store.place("room"))?.epoch, (await store.range("room")).map(({ sequence }) => sequence)];
  const E2 = { epoch: "E2" };
  await store.apply("room", place(2), messages(1, 2));
  await store.forget("room", "E1");
  await store.apply("room", place(2, E2), messages(1, 2));
  // Another tab has not heard of the change of the epoch; then it has.
  await store.apply("room", place(3), messages(3, 3));
  await store.forget("room", "E1");
  assert.deepEqual(await has(), ["E2", [1, 2]]);
  await store.apply("room", place(3, E2), messages(3, 3));
  assert.deepEqual(await has(), ["E2", [1, 2, 3]]);
  // It forgets the timeline and begins it anew, while this one goes on.
  await store.forget("room");
  await store.apply("room", place(4, E2), messages(4, 4));
  assert.equal(await store.place("room"), null);
  await store.apply("room", place(1, E2), messages(1, 1));
  await store.apply("room", place(5, { ...E2, changes: 1 }), [...messages(5, 5), message(1, { change: 1 })]);
  assert.deepEqual(await has(), ["E2", [1]]);
  await store.apply("room", place(12, { ...E2, first: 11 }), messages(11, 12));
  assert.deepEqual(await has(), ["E2", [11, 12]]);
  await store.close();
});

test("indexeddb: a database that is gone is a failure of the write", { skip: !has_indexeddb }, async () => {
  const store = await KINDS.indexeddb();
  await store.close();
  await Promise.all([store.addToOutbox(item("a", 1)).catch(() => {}), store.outbox().catch(() => {})]);
  await assert.rejects(store.addToOutbox(item("a", 1)), { name: "InvalidStateError" });
});

test("file: a second close does not take the lock of the next one", async () => {
  const at = path();
  const first = await FileStore.open(at);
  await first.close();
  const second = await FileStore.open(at);
  await first.close();
  await assert.rejects(FileStore.open(at), /is held/);
  await second.close();
});
