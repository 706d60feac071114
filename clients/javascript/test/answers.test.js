// What only this client has of messages that grow: the writer's letters, room and signal, the reader's text and iterator.
// What every client has to do is in ../../conformance.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, MemoryStore } from "../index.js";
import { message, once, reply, Script } from "./script.js";

const APPENDED = { sequence: 7, timestamp: 1, epoch: "E1", duplicate: false, parts: 0 };

/** A client that writes message 7 of `room`. */
async function writing(options = {}) {
  const script = new Script();
  const store = new MemoryStore();
  const client = new Client("ws://server/", { ...script.options, store });
  const answer = client.open("room", { role: "model" }, options);
  const { params, ...request } = await script.next("message.append");
  script.answer(request, { ...APPENDED, message_id: params.message_id });
  await answer.opened;
  /** The next part, taken. */
  const part = async () => {
    const asked = await script.next("message.extend");
    script.answer(asked, { parts: asked.params.part, duplicate: false });
    return asked.params.text;
  };
  return { script, store, client, answer, params, part };
}

/** A client that follows `room` with parts. */
async function reading(first, options = {}) {
  const script = new Script();
  const client = new Client("ws://server/", { ...script.options });
  const subscribing = client.subscribe("room", { with: ["parts"], ...options });
  script.answer(await script.next("subscribe"), reply(first));
  const grow = (sequence, from, text, parts = from) =>
    script.push("message.extended", { timeline: "room", epoch: "E1", sequence, from, parts, text });
  const change = (one) => script.push("message.changed", { timeline: "room", epoch: "E1", messages: [one], change_head: one.change });
  return { script, client, room: await subscribing, grow, change };
}

const open = (sequence, parts = 0, text = "") => message(sequence, { open: true, parts, entry: { text } });
const done = (sequence, parts, text, more = {}) => message(sequence, { change: 1, parts, outcome: "done", entry: { text }, ...more });

test("half a letter waits for the other half, and no part ends within one", async () => {
  const { script, client, answer, params, part } = await writing({ column: "body", idle_ms: 5 });
  assert.deepEqual(params.open, { column: "body", idle_ms: 5 });
  const [wave] = "\u{1F30A}".split("");
  answer.write(`a${wave}`);
  assert.equal(await part(), "a");
  const kept = answer.write("\u{1F30A}"[1]);
  assert.equal(await part(), "\u{1F30A}");
  await kept;
  // What never is a letter is what decoders make of it.
  answer.write(`${wave}b`);
  assert.equal(await part(), "\uFFFDb");
  answer.write(wave);
  const finishing = answer.finish({ set: { big: 9007199254740993n } });
  assert.equal(await part(), "\uFFFD");
  const end = await script.next("message.finish");
  assert.deepEqual(end.params, { timeline: "room", sequence: 7, epoch: "E1", parts: 4, outcome: "done", set: { big: { $integer: "9007199254740993" } } });
  script.answer(end, { message: done(7, 4, "x", { entry: { big: { $integer: "9007199254740993" } } }), duplicate: false });
  assert.equal((await finishing).entry.big, 9007199254740993n);
  assert.throws(() => answer.write("more"), { reason: "message_closed" });
  await client.close();
});

test("many tokens are one part while one is on its way, up to a size, and the store has all of them", async () => {
  const { script, store, client, answer, part } = await writing();
  answer.write("first");
  const first = await script.next("message.extend");
  for (let at = 0; at < 50; at++) await answer.write(String(at % 10));
  const kept = (await store.outbox()).filter(({ part }) => part);
  assert.deepEqual(kept.map(({ text }) => text), ["first", "0123456789".repeat(5)]);
  await answer.write("x".repeat(8_192));
  script.answer(first, { parts: 1, duplicate: false });
  assert.equal(await part(), "0123456789".repeat(5));
  assert.equal((await part()).length, 8_192);
  const finishing = answer.finish();
  script.answer(await script.next("message.finish"), { message: done(7, 3, ""), duplicate: false });
  await finishing;
  await new Promise(setImmediate);
  assert.deepEqual(await store.outbox(), []);
  await client.close();
});

test("a writer that does not wait is refused in the end, one that waits gets room", async () => {
  const { script, client, answer } = await writing();
  let has_room = false;
  const waiting = answer.write("x".repeat(70_000)).then(() => (has_room = true));
  const first = await script.next("message.extend");
  await new Promise(setImmediate);
  assert.equal(has_room, false);
  assert.throws(() => answer.write("x".repeat(1_000_000)), { reason: "too_large", data: { limit: 1_048_576, actual: 1_070_000 } });
  script.answer(first, { parts: 1, duplicate: false });
  await waiting;
  assert.throws(() => answer.write(5), { reason: "invalid_params" });
  await client.close();
  assert.throws(() => answer.write("y"), { reason: "closed" });
  assert.equal(answer.signal.reason.reason, "closed");
  assert.throws(() => client.open("room"), { reason: "closed" });
});

test("no more than a thousand are written at a time, and one ID is one", async () => {
  const client = new Client("ws://server/", new Script().options);
  client.open("room", {}, { message_id: "a" });
  assert.throws(() => client.open("room", {}, { message_id: "a" }), { reason: "message_id_conflict" });
  for (let at = 1; at < 1_000; at++) client.open("room");
  assert.throws(() => client.open("room"), { reason: "too_many" });
  await client.close();
});

test("an answer of a part that is none ends the connection, and the part goes again", async () => {
  const { script, client, answer, part } = await writing();
  answer.write("a");
  script.answer(await script.next("message.extend"), { parts: "1" });
  assert.equal(await part(), "a");
  await client.close();
});

test("an end that the server has for another one's is told as such", async () => {
  const { script, client, answer } = await writing();
  answer.write("a");
  const part = await script.next("message.extend");
  script.refuse(part, "message_closed", { outcome: "failed", parts: 0 });
  script.refuse(await script.next("message.get"), "message_not_found");
  const error = await answer.finish().catch((refused) => refused);
  assert.deepEqual([error.reason, error.data.outcome], ["message_closed", "failed"]);
  await client.close();
});

test("what an earlier run left goes on, and its end is told", async () => {
  const store = new MemoryStore();
  const item = (name, more) => ({ timeline: "room", message_id: `m\n${name}`, answer: "m", order: 0, ...more });
  await store.addToOutbox(item("", { place: { sequence: 7, epoch: "E1" } }));
  await store.addToOutbox(item("3", { part: 3, text: "c" }));
  await store.addToOutbox(item("end", { end: { outcome: "done" }, parts: 3 }));
  // Of these the message is gone, or nothing more is there.
  await store.addToOutbox({ ...item("1", { part: 1, text: "x" }), message_id: "n\n1", answer: "n" });
  await store.addToOutbox({ ...item("", { place: { sequence: 8, epoch: "E1" } }), message_id: "o\n", answer: "o" });
  const script = new Script();
  const client = new Client("ws://server/", { ...script.options, store });
  const [sent, refused] = [once(client, "sent"), once(client, "refused")];
  const part = await script.next("message.extend");
  assert.deepEqual(part.params, { timeline: "room", sequence: 7, epoch: "E1", part: 3, text: "c" });
  script.answer(part, { parts: 3, duplicate: true });
  const end = await script.next("message.finish");
  assert.equal(end.params.parts, 3);
  script.answer(end, { message: done(7, 3, "abc"), duplicate: false });
  assert.deepEqual(await sent, { timeline: "room", message_id: "m", sequence: 7, epoch: "E1" });
  assert.equal((await refused).message_id, "n");
  await new Promise(setImmediate);
  assert.deepEqual(await store.outbox(), []);
  await client.close();
});

test("what was written of a message that was never appended goes first, when it is opened again", async () => {
  const store = new MemoryStore();
  const away = new Client("ws://server/", { ...new Script().options, store });
  const first = away.open("room", { role: "model" });
  await first.write("abc");
  await away.close();
  const script = new Script();
  const client = new Client("ws://server/", { ...script.options, store });
  const again = client.open("room", { role: "model" }, { message_id: first.message_id });
  again.write("d");
  script.answer(await script.next("message.append"), { ...APPENDED, message_id: first.message_id });
  const part = await script.next("message.extend");
  assert.deepEqual([part.params.part, part.params.text], [1, "abc"]);
  script.answer(part, { parts: 1, duplicate: false });
  script.answer(await script.next("message.get"), { message: open(7, 1, "abc") });
  assert.equal((await again.opened).text, "abc");
  const next = await script.next("message.extend");
  assert.deepEqual([next.params.part, next.params.text], [2, "d"]);
  await client.close();
});

test("an iterator has the whole text, also one that is asked late, and what came with the end", async () => {
  const { client, room, grow, change } = await reading([message(1), open(2, 1, "He")]);
  const told = once(room, "message", ({ open }) => open);
  const one = await told;
  assert.equal(one.text, "He");
  grow(2, 2, "ll");
  grow(2, 2, "ll");
  await once(room, "extended");
  const early = one[Symbol.asyncIterator]();
  assert.deepEqual([(await early.next()).value, one.text, one.entry.text], ["Hell", "Hell", "He"]);
  change(done(2, 4, "Hello!"));
  const closed = await once(room, "changed");
  assert.deepEqual([(await early.next()).value, (await early.next()).done], ["o!", true]);
  const parts = [];
  for await (const part of one) parts.push(part);
  assert.deepEqual(parts, ["Hello!"]);
  assert.deepEqual([one.newest, JSON.parse(JSON.stringify(one))], [closed, open(2, 1, "He")]);
  await client.close();
});

test("an iterator ends with the subscription, the history, and the message", async () => {
  const { script, client, room, change } = await reading([open(1), open(2), open(3)]);
  const told = [];
  room.on("message", (one) => told.push(one));
  await once(room, "message", ({ sequence }) => sequence === 3);
  const [gone, reset, closed] = told.map(async (one) => {
    for await (const _ of one);
  });
  change(message(1, { change: 1, deleted: true, entry: undefined }));
  await gone;
  assert.equal(told[0].newest.deleted, true);
  script.push("subscription.ended", { timeline: "room", epoch: "E1", reason: "deleted", resubscribe: false });
  await assert.rejects(reset, { reason: "deleted" });
  await assert.rejects(closed, { reason: "deleted" });
  await client.close();
  const other = await reading([open(1)]);
  const one = await once(other.room, "message");
  const read = assert.rejects(one[Symbol.asyncIterator]().next(), { reason: "closed" });
  other.room.close();
  await read;
  await other.client.close();
});

test("what grows is the column that the message names", async () => {
  const { script, client, room } = await reading([message(1)], { rewind: 1 });
  await once(room, "message");
  const told = once(room, "message");
  const growing = { ...open(2, 1, "t"), open: { column: "body" }, entry: { text: "title", body: "a" } };
  script.push("message", { timeline: "room", epoch: "E1", head: 2, messages: [growing] });
  const two = await told;
  const extended = once(room, "extended");
  script.push("message.extended", { timeline: "room", epoch: "E1", sequence: 2, from: 2, parts: 3, text: "bc" });
  assert.deepEqual((await extended).message.entry, { text: "title", body: "abc" });
  const changed = once(room, "changed");
  const { open: _, ...rest } = growing;
  const closed = { ...rest, parts: 4, outcome: "done", change: 1, entry: { text: "title", body: "abcd" } };
  script.push("message.changed", { timeline: "room", epoch: "E1", change_head: 1, messages: [closed] });
  await changed;
  let text = "";
  for await (const part of two) text += part;
  assert.deepEqual([text, two.text], ["abcd", "abcd"]);
  await client.close();
});

test("a page with an open message is followed from where it has it", async () => {
  const { script, client, room } = await reading([message(3)], { rewind: 1 });
  await once(room, "message");
  const paging = room.older(2);
  const growth = { timeline: "room", epoch: "E1", sequence: 2, from: 5, parts: 5, text: "e" };
  const page = await script.next("message.range");
  script.push("message.extended", growth);
  const older = once(room, "older");
  script.answer(page, { messages: [open(2, 4, "abcd"), message(1)], epoch: "E1", floor: 1 });
  script.answer(await script.next("unsubscribe"), {});
  const again = await script.next("subscribe");
  assert.deepEqual([again.params.open, again.params.after], [{ 2: 4 }, 3]);
  script.push("message.extended", { ...growth, from: 6, parts: 6 });
  assert.equal(await paging, 2);
  const [, two] = (await older).messages;
  const extended = once(room, "extended");
  script.answer(again, reply([], { head: 3, grown: [{ sequence: 2, from: 5, parts: 6, text: "ef" }] }));
  assert.deepEqual([(await extended).message.entry.text, two.text], ["abcdef", "abcdef"]);
  await client.close();
});

test("what is open below the range is not followed", async () => {
  const { script, client, room, grow, change } = await reading([message(5), open(6)], { rewind: 2 });
  const told = [];
  for (const event of ["changed", "extended"]) room.on(event, ({ sequence, message }) => told.push(`${event} ${sequence ?? message.sequence}`));
  change({ ...open(3, 1, "x"), change: 1 });
  grow(3, 2, "y");
  grow(6, 1, "z");
  script.cut();
  const again = await script.next("subscribe");
  assert.deepEqual([again.params.open, told], [{ 6: 1 }, ["extended 6"]]);
  script.answer(again, reply([], { head: 6, changed: [open(3, 4, "xyzz")], grown: [{ sequence: 6, from: 2, parts: 2, text: "!" }] }));
  grow(3, 5, "!");
  while (told.length < 2) await new Promise(setImmediate);
  assert.deepEqual(told, ["extended 6", "extended 6"]);
  await client.close();
});

test("the end is told also where another tab has stored it first", async () => {
  const store = new MemoryStore();
  const script = new Script();
  const client = new Client("ws://server/", { ...script.options, store });
  const subscribing = client.subscribe("room", { with: ["parts"] });
  script.answer(await script.next("subscribe"), reply([open(1)]));
  const room = await subscribing;
  const one = await once(room, "message");
  await store.apply("room", await store.place("room"), [done(1, 1, "x")]);
  const changed = once(room, "changed");
  script.push("message.changed", { timeline: "room", epoch: "E1", messages: [done(1, 1, "x")], change_head: 1 });
  assert.equal((await changed).outcome, "done");
  assert.deepEqual([one.text, one.newest], ["x", done(1, 1, "x")]);
  await client.close();
});

test("parts that wait for the app are one event, and only of the newest 64 messages is the place told", async () => {
  const many = Array.from({ length: 70 }, (_, at) => open(at + 1));
  const { script, client, room, grow } = await reading(many);
  for (let part = 1; part <= 500; part++) for (const sequence of [1, 2]) grow(sequence, part, `${part},`);
  script.cut();
  const again = await script.next("subscribe");
  assert.deepEqual([Object.keys(again.params.open).length, again.params.open[7], again.params.open[6]], [64, 0, undefined]);
  script.answer(again, reply([], { head: 70 }));
  const extended = [];
  room.on("extended", ({ from, parts, message, text }) => extended.push([message.sequence, from, parts, message.text === text]));
  await new Promise(setImmediate);
  assert.deepEqual(extended, [[1, 1, 500, true], [2, 1, 500, true]]);
  await client.close();
});
