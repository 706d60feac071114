import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { test } from "node:test";
import { Socket } from "../socket.js";

/** A server that says `frames`, and a socket to it: what the socket heard, and its close code. */
async function talk(frames, status = 101, answer_key = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11") {
  const server = createServer((request, response) => response.writeHead(status).end());
  const back = [];
  let ended = Promise.resolve();
  server.on("upgrade", (request, tcp) => {
    if (status !== 101) return tcp.end(`HTTP/1.1 ${status} no\r\nContent-Length: 0\r\n\r\n`);
    const accept = createHash("sha1").update(request.headers["sec-websocket-key"] + answer_key);
    tcp.write(`HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept.digest("base64")}\r\n\r\n`);
    tcp.on("data", (bytes) => back.push(bytes));
    tcp.on("error", () => {});
    tcp.on("end", () => tcp.end());
    ended = new Promise((resolve) => tcp.on("close", resolve));
    for (const frame of frames) tcp.write(frame);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const socket = new Socket(`ws://127.0.0.1:${server.address().port}/`, ["tideline.v1.json"]);
  const heard = [];
  socket.onmessage = ({ data }) => heard.push(data);
  const code = await new Promise((resolve) => (socket.onclose = ({ code }) => resolve(code)));
  await ended;
  server.closeAllConnections();
  server.close();
  return { heard, code, back: Buffer.concat(back) };
}

function frame(kind, payload, whole = true) {
  const body = Buffer.from(payload);
  const head = Buffer.alloc(body.length < 126 ? 2 : body.length < 65_536 ? 4 : 10);
  head[0] = (whole ? 0x80 : 0) | kind;
  head[1] = Math.min(body.length, body.length < 126 ? 125 : body.length < 65_536 ? 126 : 127);
  if (body.length < 126) head[1] = body.length;
  if (head.length === 4) head.writeUInt16BE(body.length, 2);
  if (head.length === 10) head.writeBigUInt64BE(BigInt(body.length), 2);
  return Buffer.concat([head, body]);
}

const bye = (code) => frame(8, [code >> 8, code & 255]);

test("frames of all sizes, whole and in parts, in whatever pieces they come", async () => {
  const texts = [0, 1, 125, 126, 127, 128, 65_535, 65_536, 200_000].map((size) => "ä".repeat(size / 2) + "x".repeat(size % 2));
  const all = Buffer.concat([
    ...texts.map((text) => frame(1, text)),
    frame(1, "in ", false),
    frame(9, "ping"),
    frame(0, "three ", false),
    frame(0, "parts"),
    bye(4002),
  ]);
  const pieces = [];
  for (let at = 0; at < all.length; at += 70_001) pieces.push(all.subarray(at, at + 70_001));
  const { heard, code, back } = await talk(pieces);
  assert.deepEqual(heard, [...texts, "in three parts"]);
  assert.equal(code, 4002);
  assert.equal(back[0], 0x8a); // the pong
});

for (const [what, bytes] of Object.entries({
  "a masked frame": Buffer.from([0x81, 0x80, 0, 0, 0, 0]),
  "reserved bits": Buffer.from([0xc1, 0x00]),
  "a control frame in parts": Buffer.from([0x09, 0x00]),
  "a continuation of nothing": frame(0, "x"),
  "text within a message in parts": Buffer.concat([frame(1, "a", false), frame(1, "b")]),
  "an unknown kind": frame(3, "x"),
  "what is not UTF-8": frame(1, [0xff]),
  "a message without bounds": Buffer.from([0x81, 127, 0, 0, 0, 1, 0, 0, 0, 0]),
})) {
  test(`${what} ends it`, async () => {
    const { heard, code } = await talk([bytes]);
    assert.deepEqual([heard, code], [[], 1006]);
  });
}

test("bytes are handed over as they are", async () => {
  assert.deepEqual((await talk([frame(2, [1, 2]), bye(1001)])).heard, [Buffer.from([1, 2])]);
});

test("a refused handshake: 401 wants a token, others may go away", async () => {
  for (const [status, wanted] of [[401, 4500], [403, 1006], [429, 1006], [503, 1006]]) {
    assert.equal((await talk([], status)).code, wanted);
  }
  const socket = new Socket("ws://127.0.0.1:9/", []);
  assert.equal(await new Promise((resolve) => (socket.onclose = ({ code }) => resolve(code))), 1006);
});

test("an answer of something else than a WebSocket ends it", { timeout: 5_000 }, async () => {
  assert.equal((await talk([], 101, "another key")).code, 1006);
});
