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
  const request = await script.next("subscribe");
  script.answer(request, first);
  const room = await subscribing;
  return { script, store, client, room, params: request.params };
}

const kept = async (store) => {
  const place = await store.place("room");
  return place && [place.epoch, place.after, place.changes, (await store.range("room")).map(({ sequence }) => sequence)];
};

test("messages are told once, in order, and not before the app listens", async () => {
  const { script, client, room, params } = await follow(reply(messages(1, 2), { head: 4, more: true }));
  assert.deepEqual(params, { timeline: "room", after: 0, changes_after: 0 });
  script.push("message", { timeline: "room", epoch: "E1", messages: messages(3, 3), head: 4 });
  await new Promise((resolve) => setTimeout(resolve, 20));
  const events = heard(room);
  script.push("message", { timeline: "room", epoch: "E1", messages: messages(2, 4), head: 4 });
  await events.until("message 4");
  assert.deepEqual([...events], ["message 1", "message 2", "message 3", "message 4"]);
  assert.equal(room.position, 4);
  assert.deepEqual((await room.messages({ limit: 2, newest: true })).map(({ sequence }) => sequence), [3, 4]);
  await client.close();
});

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

test("of two copies the one with the higher change wins", async () => {
  const { script, store, client, room } = await follow(reply([message(1, { change: 4 }), message(2)], { change_head: 4 }));
  const events = heard(room);
  const pushed = (told) => script.push("message.changed", { timeline: "room", epoch: "E1", messages: told, change_head: 9 });
  pushed([message(1, { change: 4, entry: { text: "same" } }), message(1, { change: 3, entry: { text: "older" } })]);
  script.push("message", { timeline: "room", epoch: "E1", messages: [message(1, { change: 2, entry: {} }), message(3)], head: 3 });
  pushed([{ ...message(2, { change: 5, deleted: true }), entry: undefined }]);
  const reactions = { "+1": { count: 1, users: ["ann"] } };
  script.push("reaction", { timeline: "room", epoch: "E1", messages: [{ sequence: 3, change: 6, reactions }], change_head: 9 });
  script.push("reaction", { timeline: "room", epoch: "E1", messages: [{ sequence: 3, change: 7, reactions: {} }], change_head: 9 });
  await events.until("changed 3/7");
  assert.deepEqual([...events], ["message 1/4", "message 2", "message 3", "changed 2/5", "changed 3/6", "changed 3/7"]);
  const [first, second, third] = await store.range("room");
  assert.equal(first.entry.text, "text 1");
  assert.equal(second.deleted, true);
  assert.deepEqual(third, { ...message(3), change: 7 });
  assert.equal((await store.place("room")).changes, 9);
  await client.close();
});

const LIES = {
  "a gap": { method: "message", params: { epoch: "E1", messages: [message(5)], head: 5 } },
  "a gap within": { method: "message", params: { epoch: "E1", messages: [message(3), message(5)], head: 5 } },
  "another epoch": { method: "message", params: { epoch: "E2", messages: [message(3)], head: 3 } },
  "a message without ID": { method: "message", params: { epoch: "E1", messages: [message(3), message(4, { message_id: 7 })], head: 4 } },
  "a sequence that is text": { method: "message", params: { epoch: "E1", messages: [message("3")], head: 3 } },
  "an entry that is none": { method: "message", params: { epoch: "E1", messages: [message(3, { entry: null })], head: 3 } },
  "no head": { method: "message", params: { epoch: "E1", messages: [message(3)] } },
  "no messages": { method: "message", params: { epoch: "E1", head: 3 } },
  "no params": { method: "message" },
  "a change above the position": { method: "message.changed", params: { epoch: "E1", messages: [message(3, { change: 1 })], change_head: 1 } },
  "a change of another epoch": { method: "message.changed", params: { epoch: "E0", messages: [message(1, { change: 1 })], change_head: 1 } },
  "a change head that is text": { method: "message.changed", params: { epoch: "E1", messages: [], change_head: "1" } },
  "reactions that are none": { method: "reaction", params: { epoch: "E1", messages: [{ sequence: 1, change: 1 }], change_head: 1 } },
  "an end without reason": { method: "subscription.ended", params: { epoch: "E1", resubscribe: true } },
};

for (const [lie, { method, params }] of Object.entries(LIES)) {
  test(`${lie} ends the connection, and nothing of it is stored`, async () => {
    const { script, store, client, room } = await follow(reply(messages(1, 2)));
    const events = heard(room);
    script.push(method, params && { timeline: "room", ...params });
    const again = await script.next("subscribe");
    assert.deepEqual(again.params, { timeline: "room", after: 2, epoch: "E1", changes_after: 0 });
    assert.deepEqual(await kept(store), ["E1", 2, 0, [1, 2]]);
    script.answer(again, reply(messages(3, 3)));
    await events.until("message 3");
    assert.deepEqual([...events], ["message 1", "message 2", "message 3"]);
    await client.close();
  });
}

const FALSE_REPLIES = {
  "a head below the place": reply([], { head: 1 }),
  "a floor above the place": reply([], { head: 9, floor: 4 }),
  "another epoch": reply(messages(3, 3), { epoch: "E2" }),
  "a gap": reply(messages(4, 4)),
  "a message above the head": reply(messages(3, 4), { head: 3 }),
  "too_old where nothing is gone": reply(messages(3, 3), { state: "too_old", floor: 3 }),
  "a change above the place": reply([], { head: 2, changed: [message(3, { change: 1 })] }),
  "no state": reply([], { state: 7 }),
  "no result": null,
};

for (const [lie, false_reply] of Object.entries(FALSE_REPLIES)) {
  test(`a reply with ${lie} is not taken`, async () => {
    const { script, store, client, room } = await follow(reply(messages(1, 2)));
    const events = heard(room);
    script.cut();
    script.answer(await script.next("subscribe"), false_reply);
    const again = await script.next("subscribe");
    assert.deepEqual(again.params, { timeline: "room", after: 2, epoch: "E1", changes_after: 0 });
    assert.deepEqual(await kept(store), ["E1", 2, 0, [1, 2]]);
    script.answer(again, reply(messages(3, 3)));
    await events.until("message 3");
    assert.deepEqual([...events], ["message 1", "message 2", "message 3"]);
    await client.close();
  });
}

for (const garbage of ["not JSON", "[]", "7", '{"jsonrpc":"2.0","method":"message","params":[]}', new Uint8Array([1])]) {
  test(`garbage ends the connection: ${garbage}`, async () => {
    const { script, client } = await follow(reply(messages(1, 2)));
    script.raw(garbage);
    assert.equal((await script.next("subscribe")).params.after, 2);
    assert.equal(script.sockets.length, 2);
    await client.close();
  });
}

test("what it does not know is ignored", async () => {
  const { script, client, room } = await follow(reply(messages(1, 1), { more: false, weather: "fair" }));
  const events = heard(room);
  script.raw('{"jsonrpc":"2.0","id":999,"result":{}}');
  script.raw('{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}');
  script.push("tomorrow", { timeline: "elsewhere" });
  script.push("message", { timeline: "elsewhere", epoch: "E1", messages: messages(7, 7), head: 7 });
  script.push("message", { timeline: "room", epoch: "E1", messages: messages(2, 2), head: 2, mood: 1 });
  await events.until("message 2");
  assert.equal(script.sockets.length, 1);
  await client.close();
});

test("another history: the timeline is forgotten and starts over", async () => {
  const { script, store, client, room } = await follow(reply(messages(1, 1)));
  const events = heard(room);
  script.cut();
  script.answer(await script.next("subscribe"), reply([], { state: "epoch_changed", epoch: "E2", head: 1 }));
  const again = await script.next("subscribe");
  assert.deepEqual(again.params, { timeline: "room", after: 0, changes_after: 0 });
  script.answer(again, reply([message(1, { entry: { text: "new" } })], { epoch: "E2" }));
  await events.until("reset epoch_changed");
  script.push("message", { timeline: "room", epoch: "E2", messages: messages(2, 2), head: 2 });
  await events.until("message 2");
  assert.deepEqual(await kept(store), ["E2", 2, 0, [1, 2]]);
  assert.equal((await store.get("room", 1)).entry.text, "new");
  await client.close();
});

test("an unknown state: unsubscribed, forgotten, started over", async () => {
  const { script, store, client, room } = await follow(reply(messages(1, 3)));
  const events = heard(room);
  script.cut();
  script.answer(await script.next("subscribe"), reply([], { state: "sideways", head: 3 }));
  script.answer(await script.next("unsubscribe"), {});
  assert.deepEqual((await script.next("subscribe")).params, { timeline: "room", after: 0, changes_after: 0 });
  await events.until("reset sideways");
  assert.equal(await kept(store), null);
  await client.close();
});

test("too old: the store drops what it has, and goes on from the floor", async () => {
  const { script, store, client, room } = await follow(reply(messages(1, 3)));
  const events = heard(room);
  script.cut();
  script.answer(await script.next("subscribe"), reply(messages(7, 8), { state: "too_old", floor: 7 }));
  await events.until("message 8");
  assert.deepEqual([...events].slice(3), ["too_old 7", "message 7", "message 8"]);
  assert.deepEqual(await kept(store), ["E1", 8, 0, [7, 8]]);
  await client.close();
});

test("what the server trimmed is dropped", async () => {
  const { script, store, client, room } = await follow(reply(messages(1, 4)));
  const events = heard(room);
  script.cut();
  script.answer(await script.next("subscribe"), reply(messages(5, 5), { floor: 3 }));
  await events.until("message 5");
  assert.deepEqual(await kept(store), ["E1", 5, 0, [3, 4, 5]]);
  await client.close();
});

test("rewind begins with the newest, and changes of older ones only move the place", async () => {
  const { script, store, client, room, params } = await follow(reply(messages(8, 9), { change_head: 3 }), { rewind: 2 });
  assert.deepEqual(params, { timeline: "room", rewind: 2 });
  const events = heard(room);
  script.push("message.changed", { timeline: "room", epoch: "E1", messages: [message(4, { change: 4 })], change_head: 4 });
  script.push("message", { timeline: "room", epoch: "E1", messages: messages(10, 10), head: 10 });
  await events.until("message 10");
  assert.deepEqual([...events], ["message 8", "message 9", "message 10"]);
  assert.deepEqual(await kept(store), ["E1", 10, 4, [8, 9, 10]]);
  await client.close();
});

test("rewind of nothing begins at the head", async () => {
  const { store, client, room } = await follow(reply([], { head: 9 }), { rewind: 0 });
  assert.equal(room.position, 9);
  assert.deepEqual(await kept(store), ["E1", 9, 0, []]);
  await client.close();
});

for (const [reason, resubscribe, events_wanted, stays] of [
  ["forbidden", false, ["ended forbidden"], true],
  ["not_a_member", false, ["ended not_a_member"], true],
  ["deleted", false, ["reset deleted", "ended deleted"], false],
  ["new in 2030", false, ["ended new in 2030"], true],
]) {
  test(`ended: ${reason}`, async () => {
    const { script, store, client, room } = await follow(reply(messages(1, 1)));
    const events = heard(room);
    script.push("subscription.ended", { timeline: "room", epoch: "E1", reason, resubscribe });
    await events.until(`ended ${reason}`);
    assert.deepEqual([...events].slice(1), events_wanted);
    assert.equal((await store.place("room")) !== null, stays);
    // The app may take it up again.
    const subscribing = client.subscribe("room");
    script.answer(await script.next("subscribe"), reply(messages(1, 1)));
    await subscribing;
    await client.close();
  });
}

for (const reason of ["unavailable", "too_old"]) {
  test(`ended, to be taken up again: ${reason}`, async () => {
    const { script, client, room } = await follow(reply(messages(1, 1)));
    const events = heard(room);
    script.push("subscription.ended", { timeline: "room", epoch: "E1", reason, resubscribe: true });
    script.push("message", { timeline: "room", epoch: "E1", messages: messages(2, 2), head: 2 });
    const again = await script.next("subscribe");
    assert.equal(again.params.after, 1);
    script.answer(again, reply(messages(2, 2)));
    await events.until("message 2");
    assert.equal(script.sockets.length, 1);
    await client.close();
  });
}

test("a refused subscribe rejects the first time, and ends it later", async () => {
  const script = new Script();
  const client = new Client("ws://server/", script.options);
  const refused = client.subscribe("room", { create: false });
  const asked = await script.next("subscribe");
  assert.equal(asked.params.create, false);
  script.refuse(asked, "timeline_not_found");
  await assert.rejects(refused, { reason: "timeline_not_found" });
  const subscribing = client.subscribe("room");
  script.refuse(await script.next("subscribe"), "busy", { retry: true, retry_after_ms: 1 });
  script.answer(await script.next("subscribe"), reply([]));
  const events = heard(await subscribing);
  script.cut();
  script.refuse(await script.next("subscribe"), "forbidden");
  await events.until("ended forbidden");
  await client.close();
});

test("one subscription of a timeline at a time; after its end another one", async () => {
  const { script, client, room } = await follow(reply(messages(1, 2)));
  await assert.rejects(client.subscribe("room"), { reason: "already_subscribed" });
  const closing = room.close();
  script.answer(await script.next("unsubscribe"), {});
  await closing;
  const subscribing = client.subscribe("room", { replay: 1 });
  const again = await script.next("subscribe");
  assert.equal(again.params.after, 2);
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
