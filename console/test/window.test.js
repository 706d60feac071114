// The window over a timeline, against a small server made of an array.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Window } from "../window.js";

/** A timeline, a clock that goes by hand, and the window over them. */
function bed(count = 0) {
  const server = { messages: [], floor: 1, change_head: 0, asked: [], subscribed: false, epoch: "e1", page: 1_000 };
  server.add = (n = 1) => {
    const from = server.messages.length + 1;
    const fresh = Array.from({ length: n }, (_, at) => ({ sequence: from + at, message_id: "m", timestamp: (from + at) * 1_000, entry: {} }));
    server.messages.push(...fresh);
    if (server.subscribed) window.pushed("message", { epoch: "e1", messages: fresh, head: server.messages.length });
  };
  server.edit = (sequence) => {
    const message = { ...server.messages[sequence - 1], change: ++server.change_head, edited_at: 1 };
    server.messages[sequence - 1] = message;
    if (server.subscribed) window.pushed("message.changed", { epoch: "e1", messages: [message], change_head: server.change_head });
  };
  const reach = () => ({ head: server.messages.length, floor: server.floor, change_head: server.change_head, epoch: "e1" });
  const methods = {
    "message.range"({ from, to = Infinity, limit = 100, direction }) {
      limit = Math.min(limit, server.page);
      const kept = server.messages.slice(server.floor - 1);
      const all = direction ? kept.filter(({ sequence }) => sequence <= (from ?? Infinity)).reverse() : kept.filter(({ sequence }) => sequence >= (from ?? 1) && sequence < to);
      const messages = all.slice(0, limit);
      return { messages, next: all[limit]?.sequence, ...reach() };
    },
    "message.get": ({ sequence }) => ({ message: server.messages[sequence - 1] }),
    subscribe({ after, changes_after }) {
      if (server.subscribed) throw Object.assign(new Error(), { reason: "already_subscribed" });
      server.subscribed = true;
      const changed = server.messages.filter(({ sequence, change = 0 }) => sequence <= after && change > changes_after);
      return { state: "ok", messages: server.messages.slice(after), changed, more: false, ...reach() };
    },
    unsubscribe: () => ((server.subscribed = false), {}),
    sync({ positions: { t: position } }) {
      const changed = server.messages.filter(({ sequence, change = 0 }) => sequence <= position.after && change > position.changes_after);
      return { timelines: { t: { state: "ok", changed, messages: [], position: 0, more: false, ...reach() } } };
    },
  };
  const clock = { at: 0, timer: null, now: () => clock.at, after: (ms, step) => (clock.timer = { at: clock.at + ms, step }), stop: (timer) => timer === clock.timer && (clock.timer = null) };
  const call = async (method, params) => {
    server.asked.push(method);
    return structuredClone(methods[method](params));
  };
  const settled = () => new Promise((done) => setImmediate(done));
  const pass = async (ms) => {
    for (const end = clock.at + ms; clock.timer && clock.timer.at <= end; await settled()) {
      const { at, step } = clock.timer;
      clock.timer = null;
      clock.at = at;
      step();
    }
    await settled();
  };
  const window = new Window("t", call, () => {}, clock);
  server.add(count);
  return { server, window, pass, settled, clock };
}

/** Every sequence from the first row to the last is a message or in a hole; how many are in holes. */
function left_out({ rows }) {
  let [next, out] = [null, 0];
  for (const row of rows) {
    assert.equal(row.sequence ?? row.from, next ?? row.sequence ?? row.from);
    next = row.sequence ? row.sequence + 1 : row.to;
    if (row.from) out += row.to - row.from;
  }
  return out;
}

test("pages join without a gap, and 2,000 rows are kept", async () => {
  const { window } = bed(3_000);
  await window.newest();
  assert.equal(window.rows.length, 200);
  assert.ok(window.atHead);
  for (let page = 0; page < 12; page += 1) await window.older();
  assert.equal(window.rows.length, 2_000);
  assert.equal(window.base, -2_400);
  assert.equal(window.rows[0].sequence, 401);
  assert.ok(!window.atHead);
  await window.newer();
  assert.equal(window.rows[0].sequence, 601);
  assert.equal(window.base, -2_200);
  assert.equal(left_out(window), 0);
});

test("oldest, around a sequence, by time, and what is trimmed is not shown", async () => {
  const { window, server } = bed(1_000);
  await window.oldest();
  assert.deepEqual([window.rows[0].sequence, window.last], [1, 200]);
  assert.equal(await window.seek(500_500), 501);
  await window.around(500);
  assert.deepEqual([window.rows[0].sequence, window.last], [401, 600]);
  server.floor = 450;
  await window.newer();
  assert.equal(window.rows[0].sequence, 450);
  assert.ok(window.atFloor);
});

test("a page that ends early is gone on from", async () => {
  const { window, server } = bed(100);
  server.page = 30;
  await window.newest();
  assert.equal(window.rows.length, 30);
  await window.older();
  assert.equal(window.rows.length, 60);
  assert.equal(left_out(window), 0);
});

test("followed: each message once, edits of rows and of the selected message, the ring", async () => {
  const { window, server, pass, clock } = bed(10);
  await window.newest();
  await window.select(3);
  await window.follow();
  assert.equal(window.mode, "live");
  for (let second = 0; second < 30; second += 1) {
    server.add(100);
    await pass(1_000);
    clock.at += 1_000;
  }
  assert.equal(window.mode, "live");
  assert.equal(window.rows.length, 2_000);
  assert.equal(left_out(window), 0);
  server.edit(3);
  server.edit(3_000);
  assert.equal(window.selected.change, 1);
  assert.equal(window.get(3_000).change, 2);
  assert.equal(window.marks.get(3), "edited");
});

test("a flood is sampled: holes say how many, edits still come, and calm goes back to following", async () => {
  const { window, server, pass, settled } = bed(10);
  await window.newest();
  await window.follow();
  for (let quarter = 0; quarter < 40; quarter += 1) {
    server.add(2_500);
    await pass(250);
  }
  assert.equal(window.mode, "sampling");
  assert.equal(server.subscribed, false);
  assert.ok(left_out(window) > 20_000);
  assert.ok(window.rows.length <= 2_000);
  assert.ok(Math.abs(window.rate() - 10_000) < 1_500, `${window.rate()} a second`);
  const row = window.rows.find((one) => one.sequence);
  server.edit(row.sequence);
  await pass(250);
  assert.equal(window.get(row.sequence).change, 1);
  await pass(8_000);
  await settled();
  assert.equal(window.mode, "live");
  assert.ok(window.atHead);
  const hole = window.rows.find((one) => one.from);
  await window.fill(hole);
  assert.equal(window.mode, "still");
  assert.equal(window.get(hole.from).sequence, hole.from);
  const rest = window.rows[window.index(hole.from + 200)];
  assert.deepEqual(rest, { from: hole.from + 200, to: hole.to });
  left_out(window);
});

test("not followed: the head moves and edits come, the rows stay; nothing is read while nobody looks", async () => {
  const { window, server, pass } = bed(10);
  await window.newest();
  server.add(5);
  server.edit(2);
  await pass(2_000);
  assert.deepEqual([window.last, window.head, window.get(2).change], [10, 15, 1]);
  window.idle = true;
  const asked = server.asked.length;
  await pass(10_000);
  assert.equal(server.asked.length, asked);
});

test("a lost connection: goes on behind the last row, also after another window left its subscription", async () => {
  const { window, server, pass } = bed(10);
  await window.newest();
  await window.follow();
  server.subscribed = false;
  server.add(20);
  window.resume();
  await pass(0);
  assert.equal(window.last, 30);
  assert.equal(left_out(window), 0);
  window.resume(); // the server still holds the subscription
  await pass(0);
  server.add(1);
  assert.equal(window.last, 31);
});

test("the end of a timeline is said, and nothing is asked any more", async () => {
  const { window, server, pass } = bed(10);
  await window.newest();
  await window.follow();
  window.pushed("subscription.ended", { epoch: "e1", reason: "deleted", resubscribe: false });
  assert.equal(window.over, "deleted");
  const asked = server.asked.length;
  await pass(60_000);
  assert.equal(server.asked.length, asked);
});

test("an edit of the selected message is not lost by a jump before it was heard", async () => {
  const { window, server, pass } = bed(1_000);
  await window.newest();
  await window.select(990);
  server.edit(990);
  await window.oldest();
  await pass(2_000);
  assert.equal(window.selected.change, 1);
});
