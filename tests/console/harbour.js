// A harbour's people and machines: what the tests and pictures show, and the load below which they show it.
//
// Owns: made-up timelines, messages and readers. Promises: the same each time, but for the times. Must not: check anything.
// By hand: node tests/console/harbour.js ws://127.0.0.1:7070/v1/connect [SECONDS]

import { Client } from "../../clients/javascript/index.js";

const PORTS = "harbour harbour/pilots helsinki hull ijmuiden ipswich izmir jebel-ali kaohsiung karachi kiel klaipeda kobe koper lagos le-havre limassol lisbon livorno luanda malmo manila marseille mombasa odesa oslo piraeus porto riga rotterdam santos tallinn varna".split(" ");

const TALK = [
  ["ann", { text: "pilot boat is alongside" }],
  ["sys.ais", { vessel: "Nordlicht", speed: 6.2, course: 214 }],
  ["sys.ais", { vessel: "Maria S", speed: 0.1, course: 31 }],
  ["ben", { text: "copy, ladder on port side, 1.5 m above the water" }],
  ["cleo", { text: "who has the keys of the canteen?" }],
  ["sys.ais", { vessel: "Nordlicht", speed: 5.9, course: 213 }],
  ["ann", { text: "berth 14 is free from 15:10", mentions: ["ben"] }],
  ["dev", { text: "tug Otto ordered", image: { $binary: Buffer.alloc(18_000, 7).toString("base64") } }],
  ["sys.ais", { vessel: "Maria S", speed: 0.25, course: 31 }],
  ["ben", { text: "thanks. Wind?" }],
  ["sys.met", { wind: 14.5, gusts: 21.5, from: 240, at: "pier 3" }],
  ["ann", { text: "14 knots, gusts 21 from 240" }],
  ["sys.ais", { vessel: "Nordlicht", speed: 5.1, course: 211 }],
  ["ben", { text: "we take the second tug then" }],
  ["dev", { text: "second tug: Käthe, 15 minutes" }],
  ["ann", { text: "Nordlicht, berth 14, two tugs, 15:10. Confirm", mentions: ["ben", "dev"], priority: 2 }],
  ["ben", { text: "confirmed" }],
  ["dev", { text: "confirmed" }],
  ["sys.ais", { vessel: "Nordlicht", speed: 4.8, course: 210 }],
  ["ann", { text: "good. Line handlers to 14 please" }],
];

/** Timelines with some messages in each, and the talk in room/harbour: its message 16 edited, its message 5 recalled, read
 *  and reacted to. Needs `call` and `append` of the bed's server. Returns the sequence of the edited one. */
export async function fillHarbour(server, { rooms = PORTS.length } = {}) {
  const talk = "room/harbour";
  await server.call("timeline.create", { timeline: talk, meta: { title: "Harbour control" } });
  await server.call("member.add", { timeline: talk, members: ["ann", "ben", "cleo", "dev", "kim", "lee"].map((user) => ({ user })) });
  for (const [index, port] of PORTS.slice(1, rooms).entries()) {
    await server.append(`room/${port}`, { text: `${port}: ${index} ships at anchor` }, { user: "ann" });
  }
  const before = 60;
  for (let index = 0; index < before; index++) {
    const [user, entry] = TALK[(index * 7) % TALK.length];
    await server.append(talk, entry, { user });
  }
  for (const [user, entry] of TALK) await server.append(talk, entry, { user });
  const edited = before + 16;
  const sequence = before + 5;
  await server.call("message.recall", { timeline: talk, sequence, reason: "wrong room" }, { user: "cleo" });
  await server.call("message.update", { timeline: talk, sequence: edited, set: { text: "Nordlicht, berth 14, two tugs, 15:10. Confirm?" } }, { user: "ann" });
  for (const user of ["ben", "dev", "kim"]) await server.call("reaction.add", { timeline: talk, sequence: edited, reaction: "ack" }, { user });
  await server.call("reaction.add", { timeline: talk, sequence: edited, reaction: "wave" }, { user: "lee" });
  for (const [user, read] of [["ben", edited], ["dev", edited + 2], ["kim", edited - 9]]) await server.call("read.set", { timeline: talk, read }, { user });
  return edited;
}

/** Readers and writers over WebSocket until `stop()`: `rate` messages a second spread over the rooms, `batch` in one append,
 *  and `readers` who each follow five rooms. `refused`: the appends that failed. */
export async function load(url, { rate = 200, readers = 20, rooms = 12, writers = 4, batch = 1 } = {}) {
  const names = PORTS.slice(0, rooms).map((port) => `room/${port}`);
  const open = (user) => {
    const client = new Client(url, { user, delay_ms: [200, 400] });
    clients.push(client);
    return client;
  };
  const clients = [];
  const sending = Array.from({ length: writers }, (_, at) => open(`writer-${at}`));
  for (const name of names) await sending[0].call("timeline.create", { timeline: name });
  for (let at = 0; at < readers; at++) {
    const reader = open(`reader-${at}`);
    for (let room = 0; room < 5; room++) await reader.call("subscribe", { timeline: names[(at * 3 + room) % names.length] });
  }
  let sent = 0;
  let appends = 0;
  let refused = 0;
  let wanted = 0;
  let before = Date.now();
  const timer = setInterval(() => {
    // The rate breathes a little, as people do.
    const now = Date.now();
    wanted += ((now - before) / 1000) * rate * (1 + 0.15 * Math.sin(now / 9_000));
    before = now;
    for (; sent + batch <= wanted; sent += batch, appends++) {
      const messages = Array.from({ length: batch }, (_, at) => ({ entry: TALK[(sent + at) % 7][1] }));
      const timeline = names[(appends * 5) % names.length];
      const call = batch > 1 ? ["message.append_batch", { timeline, messages }] : ["message.append", { timeline, ...messages[0] }];
      sending[appends % writers].call(...call).catch(() => refused++);
    }
  }, 20);
  return {
    get sent() {
      return sent;
    },
    get refused() {
      return refused;
    },
    async stop() {
      clearInterval(timer);
      await Promise.all(clients.map((client) => client.close()));
    },
  };
}

if (process.argv[1] === import.meta.filename) {
  const [url = "ws://127.0.0.1:7070/v1/connect", seconds = "60", rate = "200"] = process.argv.slice(2);
  const running = await load(url, { rate: Number(rate) });
  setTimeout(async () => (await running.stop(), console.log(`${running.sent} sent`)), Number(seconds) * 1000);
}
