import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Client, MemoryStore } from "../index.js";
import { FileStore } from "../store/file.js";
import { message, once, Script } from "./script.js";

const begin = (options = {}) => {
  const script = new Script();
  return { script, client: new Client("ws://server/", { ...script.options, ...options }) };
};

const answered = ({ params }, more = {}) => ({
  sequence: 7,
  timestamp: 1,
  message_id: params.message_id,
  epoch: "E1",
  duplicate: false,
  ...more,
});

test("an append is stored, sent, answered and then forgotten", async () => {
  const store = new MemoryStore();
  const { script, client } = begin({ store });
  const kept = once(client, "kept").then(async (told) => ({ told, stored: (await store.outbox()).length }));
  const appending = client.append("room", { text: "hi" }, { expect_head: 6 });
  const request = await script.next("message.append");
  const { message_id, ...rest } = request.params;
  assert.deepEqual(await kept, { told: { timeline: "room", message_id, entry: { text: "hi" } }, stored: 1 });
  assert.match(message_id, /^[0-9a-f]{32}$/);
  assert.deepEqual(rest, { timeline: "room", entry: { text: "hi" }, expect_head: 6 });
  assert.deepEqual(client.outbox, [{ timeline: "room", message_id, entry: { text: "hi" } }]);
  assert.equal((await store.outbox()).length, 1);
  script.answer(request, answered(request));
  assert.equal((await appending).sequence, 7);
  assert.deepEqual([client.outbox, await store.outbox()], [[], []]);
  await client.close();
});

test("what is not answered goes again after a loss, with the same IDs and in order", async () => {
  const { script, client } = begin();
  const appending = ["a", "b", "c"].map((text) => client.append("room", { text }));
  const [a, b, c] = [await script.next("message.append"), await script.next("message.append"), await script.next("message.append")];
  script.answer(b, answered(b, { sequence: 2 }));
  script.cut();
  const [a2, c2] = [await script.next("message.append"), await script.next("message.append")];
  assert.deepEqual([a2.params, c2.params], [a.params, c.params]);
  script.answer(a2, answered(a2, { sequence: 1, duplicate: true }));
  script.answer(c2, answered(c2, { sequence: 3 }));
  assert.deepEqual((await Promise.all(appending)).map(({ sequence }) => sequence), [1, 2, 3]);
  await client.close();
});

test("one ID is one message", async () => {
  const { script, client } = begin();
  const [first, second] = [client.append("room", { n: 1 }, { message_id: "x" }), client.append("room", { n: 1 }, { message_id: "x" })];
  await assert.rejects(client.append("room", { n: 2 }, { message_id: "x" }), { reason: "message_id_conflict" });
  const request = await script.next("message.append");
  script.answer(request, answered(request));
  assert.deepEqual(await first, await second);
  assert.deepEqual(script.left, []);
  await client.close();
});

test("no more than a hundred are unanswered at a time", async () => {
  const { script, client } = begin();
  const appending = Array.from({ length: 150 }, (_, n) => client.append("room", { n }));
  const requests = [];
  for (let n = 0; n < 100; n++) requests.push(await script.next("message.append"));
  assert.deepEqual(script.left, []);
  for (let n = 0; n < 150; n++) {
    const request = requests.shift() ?? (await script.next("message.append"));
    assert.equal(request.params.entry.n, n);
    script.answer(request, answered(request, { sequence: n + 1 }));
  }
  assert.equal((await Promise.all(appending)).at(-1).sequence, 150);
  await client.close();
});

test("the outbox survives the process: the next run sends it, and tells what came of it", async () => {
  const folder = await mkdtemp(join(tmpdir(), "tideline-"));
  const path = join(folder, "store");
  const first = begin({ store: FileStore.open(path) });
  const lost = ["a", "b"].map((text) => first.client.append("room", { text }).catch(({ reason }) => reason));
  const [a, b] = [await first.script.next("message.append"), await first.script.next("message.append")];
  await first.client.close();
  assert.deepEqual(await Promise.all(lost), ["closed", "closed"]);
  const second = begin({ store: FileStore.open(path) });
  const [sent, refused] = [once(second.client, "sent"), once(second.client, "refused")];
  const [a2, b2] = [await second.script.next("message.append"), await second.script.next("message.append")];
  assert.deepEqual([a2.params, b2.params], [a.params, b.params]);
  second.script.answer(a2, answered(a2));
  second.script.refuse(b2, "forbidden");
  assert.equal((await sent).message_id, a.params.message_id);
  assert.equal((await refused).reason, "forbidden");
  await second.client.close();
  const third = await FileStore.open(path);
  assert.deepEqual(await third.outbox(), []);
  await third.close();
  await rm(folder, { recursive: true });
});

test("an entry that can't go over the wire is refused before it is stored", async () => {
  const { client } = begin();
  await assert.rejects(client.append("room", { n: NaN }), { reason: "invalid_params", data: { field: "entry.n" } });
  assert.deepEqual(client.outbox, []);
  await client.close();
  await assert.rejects(client.append("room", {}), { reason: "closed" });
});

test("of two times that the server names the later one counts", async () => {
  const script = new Script();
  const client = new Client("ws://server/", script.options);
  const appended = ["one", "two"].map((text) => client.append("room", { text }));
  const [first, second] = [await script.next("message.append"), await script.next("message.append")];
  const begun = performance.now();
  script.refuse(first, "rate_limited", { retry: true, retry_after_ms: 60 });
  script.refuse(second, "rate_limited", { retry: true, retry_after_ms: 1 });
  for (let sequence = 1; sequence <= 2; sequence++) {
    const again = await script.next("message.append");
    assert.equal(again.params.entry.text, ["one", "two"][sequence - 1]);
    script.answer(again, { sequence, timestamp: 1, message_id: again.params.message_id, epoch: "E1", duplicate: false });
  }
  assert.ok(performance.now() - begun >= 55);
  await Promise.all(appended);
  await client.close();
});

test("the place in a trace is kept with what is repeated, beside its params", async () => {
  const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const folder = await mkdtemp(join(tmpdir(), "tideline-"));
  const file = join(folder, "store");
  const first = begin({ store: FileStore.open(file) });
  const lost = [
    first.client.append("room", { text: "hi" }, { traceparent }),
    first.client.call("reaction.add", { timeline: "room", sequence: 1, reaction: "+1" }, { traceparent }),
    first.client.append("room", { text: "untraced" }),
  ].map((one) => assert.rejects(one, { reason: "closed" }));
  for (const method of ["message.append", "reaction.add"]) {
    const request = await first.script.next(method);
    assert.deepEqual([request.traceparent, request.params.traceparent], [traceparent, undefined]);
  }
  await first.client.close();
  await Promise.all(lost);
  const { script, client } = begin({ store: FileStore.open(file) });
  const traced = [];
  for (const method of ["message.append", "reaction.add", "message.append"]) traced.push((await script.next(method)).traceparent);
  assert.deepEqual(traced, [traceparent, traceparent, undefined]);
  const asking = client.call("timeline.get", { timeline: "room" }, { traceparent });
  const request = await script.next("timeline.get");
  assert.equal(request.traceparent, traceparent);
  script.answer(request, {});
  await asking;
  for (const wrong of [7, {}, true]) {
    const refused = { reason: "invalid_params", data: { field: "traceparent" } };
    await assert.rejects(client.append("room", {}, { traceparent: wrong }), ({ reason, data }) => {
      assert.deepEqual({ reason, data: { field: data.field } }, refused);
      return true;
    });
    await assert.rejects(client.call("ping", {}, { traceparent: wrong }), { reason: "invalid_params" });
  }
  await client.close();
  await rm(folder, { recursive: true });
});

test("what is changed just before the client is closed is kept, and no older position goes before it is", async () => {
  const store = new MemoryStore();
  const { client } = begin({ store, WebSocket: class { close() {} } });
  const set = (read) => assert.rejects(client.call("read.set", { timeline: "room", read }), { reason: "closed" });
  const kept = async () => (await store.outbox()).map(({ params }) => params.read);
  const setting = [set(5)];
  while (!(await kept()).length) await new Promise(setImmediate);
  const { place, addToOutbox } = store;
  store.place = async (timeline) => (await new Promise(setImmediate), place.call(store, timeline));
  store.addToOutbox = async (item) => {
    assert.deepEqual(await kept(), [5]);
    return addToOutbox.call(store, item);
  };
  let closed = null;
  store.close = async () => (closed = await kept());
  setting.push(set(7));
  await client.close();
  assert.deepEqual([closed, await kept()], [[7], [7]]);
  await Promise.all(setting);
});

test("a change that a living tab has sent since is not sent once more by a tab that was opened meanwhile", async () => {
  const store = new MemoryStore();
  const one = begin({ store });
  one.script.session = null;
  const edit = (text) => one.client.call("message.update", { timeline: "room", sequence: 5, entry: { text } });
  const first = edit("x");
  while (!(await store.outbox()).length) await new Promise(setImmediate);
  const [opened, beside] = [await one.script.next("session.open"), begin({ store })];
  beside.script.session = null;
  const late = await beside.script.next("session.open");
  assert.equal(beside.client.changes.length, 1);
  const session = new Script().session;
  one.script.answer(opened, session);
  for (const editing of [first, null]) {
    const edited = editing ?? edit("y");
    one.script.answer(await one.script.next("message.update"), { message: message(5) });
    await edited;
  }
  beside.script.answer(late, session);
  const asking = beside.client.append("room", {});
  const request = await beside.script.next("message.append");
  assert.deepEqual([beside.script.left, beside.client.changes], [[], []]);
  beside.script.answer(request, answered(request));
  await asking;
  await Promise.all([one, beside].map(({ client }) => client.close()));
});
