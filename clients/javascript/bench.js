// How fast messages are applied into the memory store: frames of text in, events of the app out.
//
//     node bench.js [MESSAGES]
//
// A socket in this process stands for the server, so that it is the client that is measured.

import { Client } from "./index.js";

const TOTAL = Number(process.argv[2] ?? 500_000);

for (const each of process.env.EACH ? [Number(process.env.EACH)] : [1, 10, 100]) {
  const { client, socket, room } = await subscribed();
  const frames = made(each);
  let heard = 0;
  const begun = performance.now();
  const all = new Promise((resolve) => room.on("message", () => (heard += 1) === TOTAL && resolve()));
  for (let at = 0; at < frames.length; ) {
    // As they come from a socket: some in a turn of the event loop.
    for (const end = at + Math.ceil(100 / each); at < end && at < frames.length; at++) socket.onmessage({ data: frames[at] });
    await new Promise(setImmediate);
  }
  await all;
  const seconds = (performance.now() - begun) / 1_000;
  const kept = (await room.messages()).length;
  if (kept !== TOTAL) throw new Error(`${kept} messages are stored, not ${TOTAL}`);
  console.log(`${each} a frame: ${Math.round(TOTAL / seconds).toLocaleString("en")} messages/s`);
  await client.close();
}

async function subscribed() {
  let socket;
  class Scripted {
    readyState = 1;
    constructor() {
      socket = this;
      queueMicrotask(() => this.onopen());
    }
    send(text) {
      const { id, method } = JSON.parse(text);
      const session = { session: "s", heartbeat_ms: 25_000, limits: {} };
      const empty = { epoch: "E", floor: 1, head: 0, change_head: 0, messages: [], more: false, state: "ok" };
      const result = { "session.open": session, subscribe: empty }[method] ?? {};
      queueMicrotask(() => this.onmessage({ data: JSON.stringify({ jsonrpc: "2.0", id, result }) }));
    }
    close() {}
  }
  const client = new Client("ws://localhost/", { WebSocket: Scripted });
  return { client, room: await client.subscribe("room/1"), socket };
}

function made(each) {
  const frames = [];
  for (let sequence = 1; sequence <= TOTAL; ) {
    const messages = [];
    for (; messages.length < each && sequence <= TOTAL; sequence++) {
      const entry = { text: `message ${sequence} of a usual length, as people write them`, kind: "text" };
      messages.push({ sequence, timestamp: 1_790_000_000_000 + sequence, message_id: `m-${sequence}`, sender: "ann", entry });
    }
    frames.push(JSON.stringify({ jsonrpc: "2.0", method: "message", params: { timeline: "room/1", epoch: "E", messages, head: TOTAL } }));
  }
  return frames;
}
