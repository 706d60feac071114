// What only this client has: its events, stores and listeners. What every client has to do is in ../../conformance.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, MemoryStore } from "../index.js";
import { heard, message, messages, once, reply, Script } from "./script.js";

/** A client that has subscribed to `room`, whose server answered `first`. */
async function follow(first, options = {}) {
  const script = new Script();
  const store = new MemoryStore();
  const client = new Client("ws://server/", { ...script.options, store });
  const subscribing = client.subscribe("room", options);
  script.answer(await script.next("subscribe"), first);
  return { script, store, client, room: await subscribing };
}

const kept = async (store) => {
  const place = await store.place("room");
  return place && [place.epoch, place.after, place.changes, (await store.range("room")).map(({ sequence }) => sequence)];
};

test("a resumed subscription goes on from the place, and tells nothing twice", async () => {
  const { script, client, room } = await follow(reply(messages(1, 3), { change_head: 2 }));
  const events = heard(room);
  let live = 0;
  const again_live = new Promise((resolve) => room.on("live", () => ++live === 2 && resolve()));
  script.cut();
  const again = await script.next("subscribe");
  assert.equal(live, 1);
  assert.deepEqual(again.params, { timeline: "room", after: 3, epoch: "E1", changes_after: 2 });
  script.answer(again, reply(messages(4, 4), { change_head: 3, changed: [message(2, { change: 3 })] }));
  await events.until("changed 2/3");
  assert.deepEqual([...events], ["message 1", "message 2", "message 3", "message 4", "changed 2/3"]);
  await again_live;
  await client.close();
});

test("a message above the head, and an entry that is none where nothing is gone, end the connection", async () => {
  const { script, store, client } = await follow(reply(messages(1, 2)));
  script.push("message", { timeline: "room", epoch: "E1", messages: [message(3, { entry: null })], head: 3 });
  script.answer(await script.next("subscribe"), reply(messages(3, 4), { head: 3 }));
  assert.deepEqual((await script.next("subscribe")).params, { timeline: "room", after: 2, epoch: "E1", changes_after: 0 });
  assert.deepEqual(await kept(store), ["E1", 2, 0, [1, 2]]);
  await client.close();
});

test("one subscription of a timeline at a time; after its end another one", async () => {
  const { script, client, room } = await follow(reply(messages(1, 2)));
  await assert.rejects(client.subscribe("room"), { reason: "already_subscribed" });
  const closing = room.close();
  script.answer(await script.next("unsubscribe"), {});
  await closing;
  const subscribing = client.subscribe("room", { replay: 1, create: false });
  const again = await script.next("subscribe");
  assert.deepEqual([again.params.after, again.params.create], [2, false]);
  script.answer(again, reply(messages(3, 3)));
  const events = heard(await subscribing);
  await events.until("message 3");
  assert.deepEqual([...events], ["message 2", "message 3"]);
  await client.close();
});

test("names that mean something to JavaScript are names", async () => {
  const script = new Script();
  const store = new MemoryStore();
  const client = new Client("ws://server/", { ...script.options, store });
  for (const timeline of ["__proto__", "constructor", "$inbox/ann"]) {
    const subscribing = client.subscribe(timeline);
    const asked = await script.next("subscribe");
    assert.equal(asked.params.timeline, timeline);
    script.answer(asked, reply(messages(1, 1), { timeline }));
    await subscribing;
  }
  assert.deepEqual(await store.timelines(), ["__proto__", "constructor", "$inbox/ann"]);
  await client.close();
});

test("pushes in passing go to the subscription, others to the client", async () => {
  const { script, client, room } = await follow(reply([]), { with: ["signals"] });
  const events = heard(room);
  const elsewhere = once(client, "conversation.changed");
  script.push("signal", { timeline: "room", user: "ben", signal: { typing: true } });
  script.push("conversation.changed", { conversations: [], removed: ["x"] });
  await events.until("signal");
  assert.deepEqual((await elsewhere).removed, ["x"]);
  await client.close();
});

test("a store that fails stops the client with its error, and the store stays right", async () => {
  const { script, store, client, room } = await follow(reply(messages(1, 1)));
  heard(room);
  store.apply = () => Promise.reject(new Error("the disk is full"));
  const stopped = once(client, "stopped");
  script.push("message", { timeline: "room", epoch: "E1", messages: messages(2, 2), head: 2 });
  assert.equal((await stopped).error.message, "the disk is full");
  assert.deepEqual(await kept(store), ["E1", 1, 0, [1]]);
  await client.close();
});

test("a listener that throws hinders nothing, and its error is uncaught", async () => {
  const { client, room } = await follow(reply(messages(1, 1)));
  const [queue, thrown] = [globalThis.queueMicrotask, []];
  const noting = (step) => () => {
    try {
      step();
    } catch (error) {
      thrown.push(error.message);
    }
  };
  globalThis.queueMicrotask = (step) => queue(noting(step));
  try {
    room.on("message", () => {
      throw new Error("of the app");
    });
    await heard(room).until("message 1");
    await null;
  } finally {
    globalThis.queueMicrotask = queue;
  }
  assert.deepEqual(thrown, ["of the app"]);
  await client.close();
});

const slowly = (store) => {
  const place = store.place.bind(store);
  store.place = (timeline) => new Promise((resolve) => setTimeout(() => resolve(place(timeline)), 20));
  return store;
};

test("a connection that opens while the store is read is asked from the store's place, once", async () => {
  const script = new Script();
  const store = slowly(new MemoryStore());
  await store.apply("room", { epoch: "E1", first: 1, after: 3, changes: 0 }, messages(1, 3));
  const client = new Client("ws://server/", { ...script.options, store });
  const subscribing = client.subscribe("room");
  const asked = await script.next("subscribe");
  assert.deepEqual(asked.params, { timeline: "room", after: 3, epoch: "E1", changes_after: 0 });
  script.answer(asked, reply(messages(4, 4)));
  await subscribing;
  assert.deepEqual(script.left, []);
  await client.close();
});

test("a subscribe that is under way when the client is closed is refused", { timeout: 5_000 }, async () => {
  const script = new Script();
  const client = new Client("ws://server/", { ...script.options, store: slowly(new MemoryStore()) });
  await once(client, "state", ({ state }) => state === "open");
  const refused = assert.rejects(client.subscribe("room"), { reason: "closed" });
  await client.close();
  await refused;
});

test("a subscribe for which the store can't be read leaves nothing behind", async () => {
  const script = new Script();
  const store = new MemoryStore();
  store.place = () => Promise.reject(new Error("the disk"));
  const client = new Client("ws://server/", { ...script.options, store });
  for (let twice = 0; twice < 2; twice++) await assert.rejects(client.subscribe("room"), /the disk/);
  await client.close();
});

test("closed while the store is slow: the next one begins where it is then, and tells what was not told", async () => {
  const { script, store, client, room } = await follow(reply(messages(1, 2)));
  await heard(room).until("message 2");
  const [apply, waiting] = [store.apply.bind(store), []];
  const asked = new Promise((resolve) => {
    store.apply = (...args) => new Promise((done) => resolve(waiting.push(() => apply(...args).then(done))));
  });
  script.push("message", { timeline: "room", epoch: "E1", messages: messages(3, 4), head: 4 });
  await asked;
  const closing = room.close();
  script.answer(await script.next("unsubscribe"), {});
  await closing;
  const subscribing = client.subscribe("room");
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual(script.left, []);
  store.apply = apply;
  await waiting[0]();
  const again = await script.next("subscribe");
  assert.equal(again.params.after, 4);
  script.answer(again, reply(messages(5, 5)));
  const events = heard(await subscribing);
  await events.until("message 5");
  assert.deepEqual([...events], ["message 3", "message 4", "message 5"]);
  assert.deepEqual(await kept(store), ["E1", 5, 0, [1, 2, 3, 4, 5]]);
  await client.close();
});

test("what nobody listens to is left with the server", async () => {
  const { script, client, room } = await follow(reply([]));
  let sequence = 0;
  const push = (count) => {
    script.push("message", { timeline: "room", epoch: "E1", messages: messages(sequence + 1, sequence + count), head: sequence + count });
    sequence += count;
  };
  for (let frame = 0; frame < 11; frame++) push(1_000);
  await new Promise((resolve) => setTimeout(resolve, 20));
  push(1);
  script.answer(await script.next("unsubscribe"), {});
  push(1);
  assert.deepEqual(script.left, []);
  const events = heard(room);
  const again = await script.next("subscribe");
  assert.equal(again.params.after, 11_000);
  assert.equal(events.length, 11_000);
  script.answer(again, reply(messages(11_001, 11_002)));
  await events.until("message 11002");
  await client.close();
});

test("older is refused with the subscription, and what is no count at once", async () => {
  const { script, client, room } = await follow(reply(messages(8, 9)), { rewind: 2 });
  await assert.rejects(room.older(0), { reason: "invalid_params" });
  const closed = assert.rejects(room.older(5), { reason: "closed" });
  await script.next("message.range");
  room.close();
  await closed;
  await assert.rejects(room.older(5), { reason: "closed" });
  await client.close();
});

test("what the list of conversations has become before somebody listens is told to the first listener", async () => {
  const script = new Script();
  const client = new Client("ws://server/", script.options);
  const listing = client.conversations();
  const conversation = { timeline: "room", attributes: {}, hidden: false, last_at: 1 };
  script.answer(await script.next("conversation.sync"), { conversations: [conversation], removed: [], cursor: "c", done: true });
  const list = await listing;
  const waiting = await script.next("conversation.sync");
  const told = [];
  for (const event of ["live", "changed", "ended"]) list.on(event, (detail) => told.push([event, detail]));
  const later = once(list, "ended");
  await new Promise((resolve) => setTimeout(resolve));
  assert.deepEqual(told, [["changed", { conversations: [conversation], removed: [] }], ["live", {}]]);
  script.answer(waiting, { conversations: [], removed: ["room"], cursor: "d", done: true });
  script.refuse(await script.next("conversation.sync"), "forbidden");
  await later;
  assert.deepEqual(told.slice(2), [["changed", { conversations: [], removed: ["room"] }], ["ended", { reason: "forbidden" }]]);
  const afterwards = [];
  list.on("ended", (detail) => afterwards.push(detail));
  await new Promise((resolve) => setTimeout(resolve));
  assert.deepEqual(afterwards, []);
  await client.close();
});

test("without a server the list of conversations is empty until there is one", async () => {
  const script = new Script();
  const reachable = script.WebSocket;
  script.WebSocket = class {
    constructor() {
      queueMicrotask(() => this.onclose({ code: 1006 }));
    }
    close() {}
  };
  let Socket = script.WebSocket;
  const WebSocket = function (...args) {
    return new Socket(...args);
  };
  const client = new Client("ws://server/", { ...script.options, WebSocket });
  const list = await client.conversations();
  assert.deepEqual(list.list, []);
  Socket = reachable;
  const live = once(list, "live");
  const conversation = { timeline: "room", attributes: {}, hidden: false, last_at: 1 };
  script.answer(await script.next("conversation.sync"), { conversations: [conversation], removed: [], cursor: "c", done: true });
  await live;
  assert.deepEqual(list.list.map(({ timeline }) => timeline), ["room"]);
  list.close();
  await client.close();
});

test("a change is told also where another tab has stored it first, live and after a loss, and once", async () => {
  const { script, store, client, room } = await follow(reply(messages(1, 3), { change_head: 8 }));
  const other = new Script();
  const beside = new Client("ws://server/", { ...other.options, store });
  const subscribing = beside.subscribe("room", { replay: true });
  other.answer(await other.next("subscribe"), reply([], { head: 3, change_head: 8 }));
  const [here, there] = [heard(room), heard(await subscribing)];
  const change = (sequence, number) => ({ timeline: "room", epoch: "E1", messages: [message(sequence, { change: number })], change_head: number });
  const comes = async (server, events, sequence, number) => {
    server.push("message.changed", change(sequence, number));
    await events.until(`changed ${sequence}/${number}`);
  };
  await comes(script, here, 2, 9);
  await comes(other, there, 2, 9);
  for (const server of [script, other]) server.cut();
  const missed = reply([], { head: 3, change_head: 11, changed: [message(1, { change: 10 }), message(3, { change: 11 })] });
  for (const [server, events] of [[script, here], [other, there]]) {
    server.answer(await server.next("subscribe"), missed);
    await events.until("changed 3/11");
  }
  await comes(script, here, 2, 12);
  await comes(other, there, 2, 12);
  for (const server of [script, other]) server.push("message.changed", change(2, 12));
  await new Promise(setImmediate);
  const told = (events) => events.filter((event) => event.startsWith("changed"));
  const all = ["changed 2/9", "changed 1/10", "changed 3/11", "changed 2/12"];
  assert.deepEqual([told(here), told(there)], [all, all]);
  await Promise.all([client.close(), beside.close()]);
});
