// Against the real server, if TIDELINE_BIN is its binary.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync, rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { Client, MemoryStore } from "../index.js";
import { bed, ended, options, real, running } from "./real.js";
import { heard, once } from "./script.js";

const HERE = new URL("..", import.meta.url);
const { folder, port, start, url } = await bed();
let server = await start();

real("append, follow, edit, react, delete", async () => {
  const store = new MemoryStore();
  const [ann, ben] = [new Client(url, { user: "ann", ...options }), new Client(url, { user: "ben", store, ...options })];
  const room = await ben.subscribe("talk", { with: ["signals"] });
  const events = heard(room);
  const entry = { text: "hi", big: 9007199254740993n, bytes: new Uint8Array([1, 2]), half: 0.5 };
  const { sequence, epoch, duplicate } = await ann.append("talk", entry, { message_id: "a-1" });
  assert.deepEqual([sequence, duplicate], [1, false]);
  await events.until("message 1");
  assert.deepEqual((await room.messages())[0].entry, entry);
  assert.equal((await ann.append("talk", entry, { message_id: "a-1" })).duplicate, true);
  await assert.rejects(ann.append("talk", { text: "other" }, { message_id: "a-1" }), { reason: "message_id_conflict" });
  await room.call("message.update", { sequence: 1, set: { text: "edited", half: null } });
  await events.until("changed 1/1");
  await room.call("reaction.add", { sequence: 1, reaction: "+1" });
  await events.until("changed 1/2");
  assert.deepEqual((await room.messages())[0].reactions, { "+1": { count: 1, users: ["ben"] } });
  await ann.call("signal", { timeline: "talk", signal: { typing: true } });
  await events.until("signal");
  await ann.call("message.delete", { timeline: "talk", sequence: 1 });
  await events.until("changed 1/3");
  assert.equal((await room.messages())[0].deleted, true);
  assert.deepEqual(await store.place("talk"), { epoch, floor: 1, first: 1, after: 1, changes: 3 });
  await Promise.all([ann.close(), ben.close()]);
});

real("a timeline that was made again starts over", async () => {
  const ann = new Client(url, { user: "ann", ...options });
  await ann.append("again", { n: 1 });
  const room = await ann.subscribe("again");
  const events = heard(room);
  await ann.call("timeline.delete", { timeline: "again" });
  await events.until("ended deleted");
  assert.deepEqual([...events], ["message 1", "reset deleted", "ended deleted"]);
  assert.deepEqual(await ann.messages("again"), []);
  await ann.append("again", { n: 2 });
  await heard(await ann.subscribe("again")).until("message 1");
  assert.deepEqual((await ann.messages("again")).map(({ entry }) => entry.n), [2]);
  await ann.close();
});

real("what is pushed of a message has the trace of the append, also of one that was repeated", async () => {
  const [one, two] = ["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-01"];
  const [ann, ben] = [new Client(url, { user: "ann", ...options }), new Client(url, { user: "ben", ...options })];
  const room = await ben.subscribe("traced");
  const got = [];
  const all = new Promise((resolve) => room.on("message", ({ traceparent }) => got.push(traceparent) === 4 && resolve()));
  await (await ann.subscribe("traced")).append({ n: 1 }, { traceparent: one });
  await ann.call("message.append_batch", { timeline: "traced", messages: [{ entry: { n: 2 } }] }, { traceparent: two });
  await ann.append("traced", { n: 3 });
  const answer = ann.open("traced", { n: 4 }, { traceparent: two });
  await answer.finish();
  await all;
  assert.deepEqual(got, [one, two, undefined, two]);
  await Promise.all([ann.close(), ben.close()]);
});

real("conversations say what is unread, as it changes", async () => {
  const [ann, ben] = [new Client(url, { user: "ann", ...options }), new Client(url, { user: "ben", ...options })];
  await ann.call("timeline.create", { timeline: "lunch", members: [{ user: "ann" }, { user: "ben" }] });
  const conversations = await ben.conversations();
  const until = async (holds) => {
    while (!holds(conversations.get("lunch"))) await new Promise((resolve) => once(conversations, "changed").then(resolve));
  };
  await until((one) => one !== null);
  await ann.append("lunch", { text: "noon?", mentions: ["ben"] });
  await until(({ unread, mentions }) => unread === 1 && mentions === 1);
  assert.deepEqual(conversations.list.map(({ timeline }) => timeline), ["lunch"]);
  await ben.call("read.set", { timeline: "lunch", read: 1 });
  await until(({ unread }) => unread === 0);
  await ann.call("member.remove", { timeline: "lunch", users: ["ben"] });
  await until((one) => one === null);
  conversations.close();
  await Promise.all([ann.close(), ben.close()]);
});

real("the first program of the README, as printed", async () => {
  const [, program] = readFileSync(new URL("README.md", HERE), "utf8").match(/```js\n([\s\S]*?)```/);
  // Inside of the package its own name resolves to it.
  const place = new URL("test/readme-program.tmp.mjs", HERE);
  const here = program.replace("ws://127.0.0.1:7070", `ws://127.0.0.1:${port}`);
  // As printed but for the server's port, and for the waits of up to 20 s.
  writeFileSync(place, here.replace("{ user,", "{ delay_ms: [10, 50], user,"));
  const chat = (user) => {
    const child = spawn(process.execPath, [place.pathname, user, "readme"], { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
    running.add(child);
    const said = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const until = async (wanted) => {
      for (;;) {
        const { value, done } = await said.next();
        assert.ok(!done, `the program ended before ${wanted}`);
        if (value === wanted) return;
      }
    };
    return { child, until };
  };
  try {
    const [ann, ben] = [chat("ann"), chat("ben")];
    ann.child.stdin.write("the tide is in\n");
    await ben.until("1 ann the tide is in");
    await ended(server, "SIGKILL");
    ben.child.stdin.write("so it is\n");
    server = await start();
    await ann.until("2 ben so it is");
    await ended(ben.child, "SIGKILL");
    const again = chat("ben");
    await again.until("1 ann the tide is in");
    await again.until("2 ben so it is");
    await Promise.all([ended(ann.child, "SIGKILL"), ended(again.child, "SIGKILL")]);
  } finally {
    rmSync(place);
  }
});
