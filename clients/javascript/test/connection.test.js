import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "../index.js";
import { once, Script } from "./script.js";

const begin = async (options = {}) => {
  const script = new Script();
  const client = new Client("ws://server/", { ...script.options, ...options });
  const states = [];
  client.on("state", ({ state, code }) => states.push(code ? `${state} ${code}` : state));
  await once(client, "state", ({ state }) => state === "open");
  return { script, client, states };
};

const stateIs = (client, wanted) => once(client, "state", ({ state }) => state === wanted);

for (const code of [1001, 1005, 1006, 1011, 1012, 1013, 1014, 4000, 4001, 4002, 4003, 4499]) {
  test(`comes back after ${code}`, async () => {
    const { script, client, states } = await begin();
    script.cut(code);
    await stateIs(client, "open");
    assert.deepEqual(states, ["connecting", "open", `waiting ${code}`, "connecting", "open"]);
    assert.equal(script.sockets.length, 2);
    await client.close();
  });
}

for (const code of [1000, 1002, 1003, 1007, 1008, 1009, 1010, 4500, 4501, 4999]) {
  test(`stops after ${code}`, async () => {
    const { script, client } = await begin();
    const waiting = client.call("ping");
    await script.next("ping");
    const stopped = once(client, "stopped");
    script.cut(code);
    assert.equal((await stopped).code, code);
    await assert.rejects(waiting, { reason: "connection_lost" });
    await assert.rejects(client.call("ping"), { reason: "stopped" });
    await assert.rejects(client.subscribe("room"), { reason: "stopped" });
    assert.equal(client.state, "stopped");
    await client.close();
  });
}

test("waits a random time between the two bounds, and comes at once when told to", async () => {
  const { script, client } = await begin({ delay_ms: [500, 20_000] });
  const waits = [];
  for (let n = 0; n < 20; n++) {
    const waiting = once(client, "state", ({ state }) => state === "waiting");
    script.cut();
    waits.push((await waiting).retry_in_ms);
    const open = stateIs(client, "open");
    client.reconnect();
    await open;
  }
  assert.ok(waits.every((ms) => ms >= 500 && ms <= 20_000) && new Set(waits).size > 10, waits.join());
  await client.close();
});

test("a token is kept while it serves, and asked for when it is refused", async () => {
  const tokens = ["a", "b", "b"];
  const script = new Script();
  script.session = null;
  const client = new Client("ws://server/", { ...script.options, user: undefined, token: async () => tokens.shift() });
  const open = async () => {
    const request = await script.next("session.open");
    script.answer(request, { session: "s", heartbeat_ms: 25_000, limits: {} });
    return request.params;
  };
  assert.deepEqual(await open(), { token: "a", client: "tideline-js/0.1.0", integers: "text" });
  script.cut();
  assert.equal((await open()).token, "a");
  script.cut(4500);
  assert.equal((await open()).token, "b");
  // Refused by the answer, before the server closes.
  script.cut();
  const stopped = once(client, "stopped");
  script.refuse(await script.next("session.open"), "unauthenticated");
  assert.equal((await stopped).code, 4500);
  assert.equal(tokens.length, 0);
  await client.close();
});

test("a token function that fails is asked again", async () => {
  const script = new Script();
  let asked = 0;
  const token = () => (++asked < 3 ? Promise.reject(new Error("the login server is away")) : "a");
  const client = new Client("ws://server/", { ...script.options, token });
  await stateIs(client, "open");
  assert.equal(asked, 3);
  await client.close();
});

test("session.open that is refused: for good, or for now", async () => {
  for (const [reason, data, comes_back] of [["forbidden", {}, false], ["rate_limited", { retry: true, retry_after_ms: 1 }, true]]) {
    const script = new Script();
    script.session = null;
    const client = new Client("ws://server/", script.options);
    const stopped = once(client, "stopped");
    script.refuse(await script.next("session.open"), reason, data);
    if (comes_back) await script.next("session.open");
    else assert.equal((await stopped).error.reason, reason);
    await client.close();
  }
});

test("a line that says nothing is asked, and given up", async () => {
  const script = new Script();
  script.session = { ...script.session, heartbeat_ms: 1 };
  const client = new Client("ws://server/", { ...script.options, patience_ms: 50 });
  script.answer(await script.next("ping"), { time: 1 });
  await script.next("ping");
  const waiting = await once(client, "state", ({ state }) => state === "waiting");
  assert.equal(waiting.code, 1006);
  await client.close();
});

test("calls wait for a connection, and fail with the loss of it", async () => {
  const script = new Script();
  const client = new Client("ws://server/", script.options);
  const early = client.call("timeline.get", { timeline: "room" });
  const request = await script.next("timeline.get");
  script.answer(request, { timeline: "room", meta: { big: { $integer: "9007199254740993" } } });
  assert.deepEqual(await early, { timeline: "room", meta: { big: 9007199254740993n } });
  const lost = client.call("timeline.list");
  await script.next("timeline.list");
  script.cut();
  await assert.rejects(lost, { reason: "connection_lost", retry: true });
  const refused = client.call("no.such");
  script.refuse(await script.next("no.such"), "method_not_found");
  await assert.rejects(refused, { name: "TidelineError", reason: "method_not_found", retry: false });
  await client.close();
});

test("a frame that the server would not take is refused here", async () => {
  const script = new Script();
  script.session = { ...script.session, limits: { inbound_frame_bytes_max: 1_000 } };
  const client = new Client("ws://server/", script.options);
  const error = await client.append("room", { text: "ä".repeat(500) }).catch((refused) => refused);
  assert.equal(error.reason, "too_large");
  assert.equal(error.data.limit, 1_000);
  assert.ok(error.data.actual > 1_000);
  assert.deepEqual(script.left, []);
  await client.close();
});

test("only an address of a WebSocket is taken", () => {
  assert.throws(() => new Client("http://server/"), TypeError);
  assert.throws(() => new Client("server"), TypeError);
});

test("what JSON can't say is the error of that call alone", { timeout: 5_000 }, async () => {
  const script = new Script();
  const client = new Client("ws://server/", script.options);
  const refused = assert.rejects(client.call("message.get", { timeline: "room", sequence: 5n }), TypeError);
  const behind = client.call("ping");
  script.answer(await script.next("ping"), { time: 1 });
  assert.deepEqual(await behind, { time: 1 });
  await refused;
  await client.close();
});

test("the time that `draining` names is for one attempt", async () => {
  const { script, client } = await begin({ delay_ms: [40, 40] });
  const waits = [];
  const waited = once(client, "state", ({ state, retry_in_ms }) => state === "waiting" && waits.push(retry_in_ms) === 2);
  script.push("draining", { reconnect_in_ms: 1 });
  script.cut(4002);
  await stateIs(client, "connecting");
  await new Promise(setImmediate);
  script.cut();
  await waited;
  assert.deepEqual(waits, [1, 40]);
  await client.close();
});
