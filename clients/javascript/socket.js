// A WebSocket for Node 20, which has none of its own: the part of the browsers' interface that connection.js uses.
//
// Owns: the handshake over node:http(s) and the frames of RFC 6455. Promises: answers pings; a frame that the RFC rules
// out, or a message of more than 16 MiB, ends it; one `onclose` follows whatever happens. Must not: know what is said.

import { createHash, randomBytes } from "node:crypto";
import http from "node:http";
import https from "node:https";

const [CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG] = [0x0, 0x1, 0x2, 0x8, 0x9, 0xa];
const MESSAGE_BYTES_MAX = 16 << 20;
const CLOSING_MS_MAX = 5_000;
const ACCEPT_KEY = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

export class Socket {
  #request;
  #tcp = null;
  #received = Buffer.alloc(0);
  #parts = []; // of a message in fragments
  #kind = null;
  #code = 1006; // to be told when the line is gone
  readyState = 0;
  onopen = null;
  onmessage = null;
  onclose = null;
  onerror = null;

  constructor(url, protocols) {
    const target = new URL(url);
    const key = randomBytes(16).toString("base64");
    const headers = {
      Connection: "Upgrade",
      Upgrade: "websocket",
      "Sec-WebSocket-Version": 13,
      "Sec-WebSocket-Key": key,
      "Sec-WebSocket-Protocol": protocols.join(", "),
    };
    const secure = target.protocol === "wss:";
    target.protocol = secure ? "https:" : "http:";
    this.#request = (secure ? https : http).get(target, { headers, agent: false });
    this.#request.on("error", (error) => this.#gone(error));
    this.#request.on("response", (response) => {
      // Refused: with 401 a token is wanted, which is what 4500 says on an open line.
      if (response.statusCode === 401) this.#code = 4500;
      response.destroy();
      this.#gone(new Error(`HTTP ${response.statusCode}`));
    });
    this.#request.on("upgrade", (response, tcp, rest) => {
      const accepted = createHash("sha1").update(key + ACCEPT_KEY).digest("base64");
      if (response.headers["sec-websocket-accept"] !== accepted) this.#gone(new Error("not a WebSocket's answer"));
      if (this.readyState > 1) return tcp.destroy();
      this.#begin(tcp, rest);
    });
  }

  #begin(tcp, rest) {
    this.#tcp = tcp;
    this.readyState = 1;
    tcp.setNoDelay(true);
    tcp.on("error", (error) => this.#gone(error));
    tcp.on("close", () => this.#gone());
    tcp.on("end", () => tcp.destroy());
    this.onopen?.({});
    tcp.on("data", (bytes) => this.#take(bytes));
    if (rest.length) this.#take(rest);
  }

  send(text) {
    if (this.readyState === 1) this.#write(TEXT, Buffer.from(text));
  }

  close(code = 1000) {
    if (this.readyState > 1) return;
    if (this.#tcp === null) return this.terminate();
    this.#write(CLOSE, Buffer.from([code >> 8, code & 255]));
    this.readyState = 2;
    setTimeout(() => this.terminate(), CLOSING_MS_MAX).unref();
  }

  terminate() {
    this.#request.destroy();
    this.#tcp?.destroy();
    this.#gone();
  }

  #gone(error) {
    if (this.readyState === 3) return;
    this.readyState = 3;
    if (error) this.onerror?.({ error });
    this.onclose?.({ code: this.#code });
  }

  #write(kind, payload) {
    const size = payload.length;
    const head = Buffer.alloc(size < 126 ? 6 : size < 65_536 ? 8 : 14);
    head[0] = 0x80 | kind;
    head[1] = 0x80 | (size < 126 ? size : size < 65_536 ? 126 : 127);
    if (head.length === 8) head.writeUInt16BE(size, 2);
    if (head.length === 14) head.writeBigUInt64BE(BigInt(size), 2);
    const mask = randomBytes(4);
    mask.copy(head, head.length - 4);
    for (let at = 0; at < size; at++) payload[at] ^= mask[at & 3];
    this.#tcp.write(Buffer.concat([head, payload]));
  }

  #take(bytes) {
    this.#received = this.#received.length ? Buffer.concat([this.#received, bytes]) : bytes;
    for (let frame; this.readyState < 3 && (frame = this.#frame()); ) this.#act(frame);
  }

  /** The next whole frame, if it is there. */
  #frame() {
    const bytes = this.#received;
    if (bytes.length < 2) return null;
    const short = bytes[1] & 0x7f;
    const start = short < 126 ? 2 : short === 126 ? 4 : 10;
    if (bytes.length < start) return null;
    const size = short < 126 ? short : short === 126 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
    const [whole, kind] = [(bytes[0] & 0x80) !== 0, bytes[0] & 0x0f];
    const control = kind >= CLOSE;
    if (bytes[0] & 0x70 || bytes[1] & 0x80 || (control && (size > 125 || !whole))) return this.#fail(1002);
    if (size > MESSAGE_BYTES_MAX) return this.#fail(1009);
    if (bytes.length < start + size) return null;
    this.#received = bytes.subarray(start + size);
    return { kind, whole, payload: bytes.subarray(start, start + size) };
  }

  #act({ kind, whole, payload }) {
    if (kind === PING) return this.readyState === 1 && this.#write(PONG, Buffer.from(payload));
    if (kind === PONG) return;
    if (kind === CLOSE) {
      this.#code = payload.length >= 2 ? payload.readUInt16BE(0) : 1005;
      if (this.readyState === 1) this.close(payload.length >= 2 ? this.#code : 1000);
      this.#tcp.end();
      return this.#gone();
    }
    if ((kind === CONTINUATION) === (this.#kind === null) || kind > BINARY) return this.#fail(1002);
    if (kind !== CONTINUATION) this.#kind = kind;
    this.#parts.push(payload);
    if (this.#parts.reduce((sum, part) => sum + part.length, 0) > MESSAGE_BYTES_MAX) return this.#fail(1009);
    if (whole) this.#message();
  }

  #message() {
    const [bytes, kind] = [this.#parts.length === 1 ? this.#parts[0] : Buffer.concat(this.#parts), this.#kind];
    [this.#parts, this.#kind] = [[], null];
    if (kind === BINARY) return this.onmessage?.({ data: bytes });
    let data;
    try {
      data = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      return this.#fail(1007);
    }
    this.onmessage?.({ data });
  }

  /** What the other side sent is not a WebSocket's: it hears why, and the line is as good as lost. */
  #fail(code) {
    this.close(code);
    this.terminate();
    return null;
  }
}
