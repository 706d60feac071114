// The transport and what answers, against a server that says what a test tells it to say; in a browser with the AI SDK
// itself they are in tests/console.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "../../index.js";
import { message, reply, Script } from "../../test/script.js";
import { answerChat } from "../answering.js";
import { entryOf, shownOf, uiMessageOf } from "../entries.js";
import { TidelineChatTransport } from "../transport.js";

const user = (sequence, text) => message(sequence, { entry: { role: "user", text } });
const answer = (sequence, reply_to, text, more = {}) => message(sequence, { sender: "model", entry: { role: "assistant", reply_to, text }, ...more });
const ui = (id, text) => ({ id, role: "user", parts: [{ type: "text", text }] });

async function begun(first) {
  const script = new Script();
  const client = new Client("ws://server/", script.options);
  const transport = new TidelineChatTransport({ client });
  const listing = transport.messages("room");
  const asked = await script.next("subscribe");
  const { timeline, with: wanted, rewind, window_ms } = asked.params;
  assert.deepEqual([timeline, wanted, rewind, window_ms], ["chat/room", ["parts"], 500, 50]);
  script.answer(asked, reply(first, { timeline: "chat/room" }));
  const push = (method, more) => script.push(method, { timeline: "chat/room", epoch: "E1", ...more });
  const come = (...messages) => push("message", { messages, head: messages.at(-1).sequence });
  const grow = (sequence, from, text) => push("message.extended", { sequence, from, parts: from, text });
  const change = (one) => push("message.changed", { messages: [one], change_head: one.change });
  return { script, client, transport, list: await listing, come, grow, change };
}

/** The next chunks of a stream, up to its end or so many. */
async function read(reader, count = Infinity) {
  const chunks = [];
  while (chunks.length < count) {
    const { value, done } = await reader.read();
    if (done) break;
    const { type, id, ...about } = value;
    chunks.push(Object.keys(about).length ? [type, ...Object.values(about)] : type);
  }
  return chunks;
}

async function sent(script, sending, sequence) {
  const asked = await script.next("message.append");
  script.answer(asked, { sequence, timestamp: 1, message_id: "x", epoch: "E1", duplicate: false });
  return { params: asked.params, reader: (await sending).getReader() };
}

test("a message goes out once by its ID, and its answer comes as a stream to its end", async () => {
  const { script, client, transport, list, come, grow, change } = await begun([user(1, "old"), answer(2, "m-1", "done", { outcome: "done", parts: 1 })]);
  assert.deepEqual(list.map(({ id, role, parts }) => [id, role, parts[0].text]), [["m-1", "user", "old"], ["m-2", "assistant", "done"]]);
  const sending = transport.sendMessages({ trigger: "submit-message", chatId: "room", messages: [...list, ui("u-1", "new?")] });
  const { params, reader } = await sent(script, sending, 3);
  assert.deepEqual(params, { timeline: "chat/room", message_id: "u-1", entry: { role: "user", text: "new?" } });
  come(message(3, { message_id: "u-1", sender: "ann", entry: params.entry }), answer(4, "other", "not this"), answer(5, "u-1", "", { open: true, parts: 0 }));
  assert.deepEqual(await read(reader, 2), [["start", "m-5"], "text-start"]);
  grow(5, 1, "He");
  assert.deepEqual(await read(reader, 1), [["text-delta", "He"]]);
  change(answer(5, "u-1", "Hello", { change: 1, parts: 3, outcome: "cancelled", stopped_by: "ben", reason: "enough" }));
  const end = { outcome: "cancelled", stopped_by: "ben", why: "enough" };
  assert.deepEqual(await read(reader), [["text-delta", "llo"], "text-end", ["finish", end]]);
  assert.deepEqual((await transport.messages("room")).at(-1), { id: "m-5", role: "assistant", parts: [{ type: "text", text: "Hello", state: "done" }], metadata: end });
  assert.equal(await transport.reconnectToStream({ chatId: "room" }), null);
  await client.close();
});

test("another answer takes the place of the one before, also in what the next page is shown", async () => {
  const { script, client, transport, list, come } = await begun([user(1, "q"), answer(2, "m-1", "first")]);
  const sending = transport.sendMessages({ trigger: "regenerate-message", chatId: "room", messageId: "m-2", messages: list.slice(0, 1) });
  const { params, reader } = await sent(script, sending, 3);
  assert.deepEqual(params.entry, { role: "again", text: "", reply_to: "m-1" });
  come(message(3, { entry: params.entry }), answer(4, "m-1", "second"));
  assert.deepEqual((await read(reader)).slice(2, 3), [["text-delta", "second"]]);
  assert.deepEqual((await transport.messages("room")).map(({ id }) => id), ["m-1", "m-4"]);
  await assert.rejects(transport.sendMessages({ trigger: "submit-message", chatId: "room", messages: [] }), TypeError);
  await client.close();
});

test("who stops listening stops nothing; `stop` stops it for all", async () => {
  const { script, client, transport, grow } = await begun([user(1, "q"), answer(2, "m-1", "so far", { open: true, parts: 3 })]);
  const abort = new AbortController();
  const reader = (await transport.reconnectToStream({ chatId: "room", abortSignal: abort.signal })).getReader();
  assert.deepEqual(await read(reader, 3), [["start", "m-2"], "text-start", ["text-delta", "so far"]]);
  abort.abort();
  grow(2, 4, "!");
  assert.deepEqual(await read(reader), []);
  // It is not taken up again by itself.
  const chat = { id: "room", status: "ready", messages: [], resumed: 0, resumeStream: () => chat.resumed++ };
  const off = transport.follow(chat);
  await new Promise((resolve) => setTimeout(resolve));
  assert.deepEqual([chat.messages.map(({ id }) => id), chat.resumed], [["m-1"], 0]);
  off();
  const stopping = transport.stop("room", "enough");
  const asked = await script.next("message.stop");
  assert.deepEqual(asked.params, { timeline: "chat/room", sequence: 2, reason: "enough", epoch: "E1" });
  script.answer(asked, { message: {} });
  await stopping;
  await client.close();
});

test("a followed chat gets what others send, and the answers that are being written", async () => {
  const { client, transport, come, change } = await begun([]);
  const chat = { id: "room", status: "ready", messages: [], resumed: 0, resumeStream: () => (chat.resumed++, (chat.status = "streaming")) };
  const off = transport.follow(chat);
  await new Promise((resolve) => setTimeout(resolve));
  come(user(1, "q"), answer(2, "m-1", "", { open: true, parts: 0 }));
  await new Promise((resolve) => setTimeout(resolve));
  assert.deepEqual([chat.messages.map(({ id }) => id), chat.resumed], [["m-1"], 1]);
  change(answer(2, "m-1", "whole", { change: 1, parts: 1, outcome: "done" }));
  await new Promise((resolve) => setTimeout(resolve));
  assert.equal(chat.messages.length, 1);
  chat.status = "ready";
  while (chat.messages.length < 2) await new Promise((resolve) => setTimeout(resolve, 1));
  assert.equal(chat.messages[1].parts[0].text, "whole");
  off();
  transport.close();
  await client.close();
});

test("entries and messages of the AI SDK", () => {
  const file = { type: "file", mediaType: "image/png", url: "data:," };
  assert.deepEqual(entryOf({ role: "user", parts: [{ type: "text", text: "a" }, file], metadata: { n: 1 } }), { role: "user", text: "a", parts: [{ type: "text", text: "a" }, file], metadata: { n: 1 } });
  assert.deepEqual(uiMessageOf(message(1, { entry: { role: "user", text: "a", parts: [file], metadata: { n: 1 } } })), { id: "m-1", role: "user", parts: [file], metadata: { n: 1 } });
  assert.deepEqual(shownOf([message(1), message(2, { entry: undefined, deleted: true }), user(3, "a")]).map(({ sequence }) => sequence), [3]);
});

test("each question is answered once, behind what was written, until it is stopped", async () => {
  const script = new Script();
  const client = new Client("ws://server/", script.options);
  const given = [];
  const failures = [];
  async function* model({ messages, text }) {
    given.push([messages.map(({ id }) => id), text]);
    yield "b";
    if (messages.length > 1) throw new Error("no more");
  }
  const answering = answerChat(client, "room", model, { entry: { by: "us" }, failed: (error) => failures.push(error.message) });
  script.answer(await script.next("subscribe"), reply([user(1, "q"), message(2, { message_id: "m-1.re", entry: { role: "assistant", reply_to: "m-1", text: "a" }, open: true, parts: 1 })]));
  await answering;
  const append = await script.next("message.append");
  assert.deepEqual([append.params.message_id, append.params.entry, append.params.open], ["m-1.re", { role: "assistant", reply_to: "m-1", by: "us" }, true]);
  script.answer(append, { sequence: 2, timestamp: 1, message_id: "m-1.re", epoch: "E1", duplicate: true, parts: 1 });
  script.answer(await script.next("message.get"), { message: message(2, { open: true, parts: 1, entry: { text: "a" } }), epoch: "E1" });
  const part = await script.next("message.extend");
  assert.deepEqual([part.params.part, part.params.text, given], [2, "b", [[["m-1"], "a"]]]);
  script.answer(part, { parts: 2, duplicate: false });
  const end = await script.next("message.finish");
  script.push("message", { timeline: "room", epoch: "E1", messages: [user(3, "another")], head: 3 });
  script.answer(end, { message: message(2, { outcome: "done", parts: 2 }), duplicate: false });
  const second = await script.next("message.append");
  assert.equal(second.params.message_id, "m-3.re");
  script.answer(second, { sequence: 4, timestamp: 1, message_id: "m-3.re", epoch: "E1", duplicate: false, parts: 0 });
  script.answer(await script.next("message.extend"), { parts: 1, duplicate: false });
  const failed = await script.next("message.finish");
  assert.equal(failed.params.outcome, "failed");
  script.answer(failed, { message: message(4, { outcome: "failed", parts: 1 }), duplicate: false });
  while (!failures.length) await new Promise(setImmediate);
  assert.deepEqual(failures, ["no more"]);
  await client.close();
});

test("a stop before the message is answered ends its stream, and the answer is not taken up by itself", async () => {
  for (const stops_first of [true, false]) {
    const { script, client, transport, come } = await begun([]);
    const chat = { id: "room", status: "ready", messages: [], resumed: 0, resumeStream: () => chat.resumed++ };
    const off = transport.follow(chat);
    const abort = new AbortController();
    const sending = transport.sendMessages({ trigger: "submit-message", chatId: "room", messages: [ui("m-1", "q")], abortSignal: abort.signal });
    if (stops_first) abort.abort();
    const { reader } = await sent(script, sending, 1);
    if (!stops_first) abort.abort();
    assert.deepEqual(await read(reader), []);
    come(user(1, "q"), answer(2, "m-1", "", { open: true, parts: 0 }));
    await new Promise((resolve) => setTimeout(resolve));
    assert.deepEqual([chat.messages.map(({ id }) => id), chat.resumed], [["m-1"], 0]);
    come(user(3, "another"), answer(4, "m-3", "", { open: true, parts: 0 }));
    await new Promise((resolve) => setTimeout(resolve));
    assert.equal(chat.resumed, 1);
    off();
    await client.close();
  }
});

test("who waits for an answer that can't come is told so", async () => {
  const about = { timeline: "chat/room", epoch: "E1" };
  const ends = {
    forbidden: ({ script }) => script.push("subscription.ended", { ...about, reason: "forbidden", resubscribe: false }),
    epoch_changed: ({ script }) => script.push("subscription.ended", { ...about, reason: "epoch_changed", resubscribe: true }),
    stopped: ({ script }) => script.cut(4501),
    closed: ({ transport }) => transport.close(),
  };
  for (const [reason, end] of Object.entries(ends)) {
    const chat = await begun([]);
    const sending = chat.transport.sendMessages({ trigger: "submit-message", chatId: "room", messages: [ui("u-1", "q")] });
    const { reader } = await sent(chat.script, sending, 1);
    const reading = assert.rejects(reader.read(), { reason });
    end(chat);
    await reading;
    await chat.client.close();
  }
});

test("after a change of the history what comes is answered and taken up anew", async () => {
  const { script, client, transport, come } = await begun([user(1, "q"), answer(2, "m-1", "", { open: true, parts: 0 })]);
  const chat = { id: "room", status: "ready", messages: [], resumed: 0, resumeStream: () => chat.resumed++ };
  transport.follow(chat);
  await new Promise((resolve) => setTimeout(resolve));
  const answering = answerChat(client, "room", async function* () {});
  const closed = { outcome: "done", parts: 1, message_id: "m-1.re" };
  script.answer(await script.next("subscribe"), reply([user(1, "old"), answer(2, "m-1", "a", closed)]));
  await answering;
  for (const timeline of ["chat/room", "room"]) {
    script.push("subscription.ended", { timeline, epoch: "E1", reason: "epoch_changed", resubscribe: true });
    const first = [user(1, "new"), answer(2, "m-1", "", { open: true, parts: 0 })];
    script.answer(await script.next("subscribe"), reply(timeline === "room" ? first.slice(0, 1) : first, { timeline, epoch: "E2" }));
  }
  const { params } = await script.next("message.append");
  assert.deepEqual([params.message_id, chat.resumed], ["m-1.re", 2]);
  await client.close();
});
