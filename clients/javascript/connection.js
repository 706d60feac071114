// One connection at a time, made again as often as needed.
//
// Owns: the socket, JSON-RPC numbers, the session with its token, signs of life, and when to come back. Promises:
// answers and pushes are handed over in the order in which they came, in the same turn; after a loss every unanswered
// request fails with `connection_lost`; a breach of the protocol ends the connection. Must not: know timelines.

import { Breach, over, TidelineError } from "./errors.js";
import { decode, isCount, isObject } from "./values.js";

const FOR_GOOD = new Set([1000, 1002, 1003, 1007, 1008, 1009, 1010]);
const UNAUTHENTICATED = 4500;
const NAMED_MS_MAX = 3_600_000;
const INBOUND_FRAME_BYTES_MAX = 4 << 20; // the default, until the server has said what it takes

export class Connection {
  #url;
  #options;
  #to; // {opened(), pushed(method, params), state(state), stopped({code, error})}
  #socket = null;
  #next = 1;
  #pending = new Map(); // id → done(error, result)
  #waiting = []; // calls that no socket was there for
  #timers = { back: null, life: null };
  #heard = 0;
  #token = null;
  #token_ends = Infinity;
  #refused = null; // the token that a 4500 was about
  #back_in = null; // what `draining` said
  #frame_max = INBOUND_FRAME_BYTES_MAX;
  #heartbeat = 25_000;
  state = "new";
  session = null;
  /** The last attempt to connect has failed, or the connection is lost: there is no server to ask now. */
  isAway = false;

  constructor(url, options, to) {
    this.#url = url;
    this.#options = { delay_ms: [500, 20_000], patience_ms: 10_000, parse: JSON.parse, ...options };
    this.#to = to;
  }

  /** There is a session, so requests can be sent. */
  get isOpen() {
    return this.state === "open";
  }

  get isOver() {
    return this.state === "stopped" || this.state === "closed";
  }

  /** A random time to wait, ms: so that a thousand clients don't come at once. */
  delay() {
    const [least, most] = this.#options.delay_ms;
    return least + Math.random() * (most - least);
  }

  /** How long to wait where the server named a time, ms. */
  pause(named) {
    return isCount(named) && named <= NAMED_MS_MAX ? named : this.delay();
  }

  /** Connects now, also in place of a wait. */
  async connect() {
    if (this.state !== "new" && this.state !== "waiting") return;
    clearTimeout(this.#timers.back);
    this.#become("connecting");
    try {
      const token = await this.#freshToken();
      if (this.state !== "connecting") return;
      if (this.#refused !== null && (token === this.#refused || token === null)) {
        return this.stop({ code: UNAUTHENTICATED });
      }
      this.#token = token;
      await this.#dial();
    } catch (error) {
      if (this.state === "connecting") this.#wait(this.delay(), { error });
    }
  }

  /** The token in hand, or one from the app where that one is none, has ended or was refused. */
  async #freshToken() {
    const { token } = this.#options;
    const serves = this.#token !== null && this.#token !== this.#refused && Date.now() < this.#token_ends;
    return serves || typeof token !== "function" ? (this.#token ?? token ?? null) : ((await token()) ?? null);
  }

  async #dial() {
    const Socket = this.#options.WebSocket ?? globalThis.WebSocket ?? (await import("./socket.js")).Socket;
    if (this.state !== "connecting") return;
    const socket = new Socket(this.#url, ["tideline.v1.json"]);
    this.#socket = socket;
    const mine = (handler) => (event) => socket === this.#socket && handler(event);
    this.#timers.life = setTimeout(() => this.#lost(1006), this.#options.patience_ms);
    socket.onopen = mine(() => this.#greet());
    socket.onmessage = mine(({ data }) => this.#received(data));
    socket.onclose = mine(({ code }) => this.#lost(code));
    socket.onerror = () => {}; // a close follows
  }

  #greet() {
    const { user, device } = this.#options;
    const params = { user, device, token: this.#token ?? undefined, client: "tideline-js/0.1.0", integers: "text" };
    this.request("session.open", params, (error, session) => {
      if (error) return this.#unwelcome(error);
      if (!isObject(session) || !isObject(session.limits)) throw new Breach("not a session");
      this.session = decode(session);
      this.#refused = null;
      this.#token_ends = session.expires_at ?? Infinity;
      this.#frame_max = session.limits.inbound_frame_bytes_max ?? this.#frame_max;
      if (session.heartbeat_ms > 0) this.#heartbeat = session.heartbeat_ms;
      this.isAway = false;
      this.#become("open");
      this.#watch();
      this.#to.opened();
      for (const send of this.#waiting.splice(0)) send();
    });
  }

  #unwelcome(error) {
    if (error.reason === "connection_lost" || this.isOver) return;
    if (error.reason === "unauthenticated") return this.unauthenticated();
    if (!error.retry) return this.stop({ code: null, error });
    this.#back_in = error.data.retry_after_ms ?? null;
    this.#lost(1006);
  }

  /**
   * Sends a request if there is a socket; `done(error, result)` is called in the turn in which the answer comes. What is
   * larger than the server takes would cost the connection, so it is refused here. `traceparent` is the step of a trace that
   * it is a part of.
   */
  request(method, params, done, traceparent) {
    const id = this.#next++;
    const text = JSON.stringify({ jsonrpc: "2.0", id, traceparent, method, params });
    if (text.length * 3 > this.#frame_max) {
      const actual = new TextEncoder().encode(text).length;
      const limit = this.#frame_max;
      if (actual > limit) {
        const data = { code: 413, limit, actual };
        const refused = new TidelineError("too_large", "larger than a frame may be", data);
        return queueMicrotask(() => done(refused, null));
      }
    }
    this.#pending.set(id, done);
    this.#socket.send(text);
  }

  /** Calls a method as soon as there is a connection. */
  call(method, params = {}, traceparent = undefined) {
    return new Promise((resolve, reject) => {
      if (this.isOver) throw over(this.state);
      const send = (error) => {
        if (error) return reject(error);
        try {
          this.request(method, params, (failed, result) => (failed ? reject(failed) : resolve(result)), traceparent);
        } catch (failed) {
          reject(failed); // what JSON can't say
        }
      };
      if (this.isOpen) send();
      else this.#waiting.push(send);
    });
  }

  #received(data) {
    this.#heard = performance.now();
    try {
      if (typeof data !== "string") throw new Breach("a binary frame");
      const frame = this.#parsed(data);
      if (!isObject(frame)) throw new Breach("a frame that is no object");
      if (typeof frame.method === "string") this.#pushed(frame.method, frame.params);
      else this.#answered(frame);
    } catch (error) {
      if (!(error instanceof Breach)) throw error;
      this.breach(error);
    }
  }

  #parsed(text) {
    for (const parse of [this.#options.parse, JSON.parse]) {
      try {
        return parse(text);
      } catch {
        // The app's own parser may be one that does not take all that is JSON.
      }
    }
    throw new Breach("not JSON");
  }

  #answered(frame) {
    const done = this.#pending.get(frame.id);
    if (!done) return;
    if (!("result" in frame) && !isObject(frame.error)) throw new Breach("an answer without result or error");
    this.#pending.delete(frame.id);
    if (frame.error) done(TidelineError.of(frame.error), null);
    else done(null, frame.result);
  }

  #pushed(method, params) {
    if (!isObject(params)) throw new Breach(`${method} without params`);
    if (method === "draining") this.#back_in = params.reconnect_in_ms;
    if (method === "session.expiring") this.#renew();
    this.#to.pushed(method, params);
  }

  async #renew() {
    const { token } = this.#options;
    if (typeof token !== "function") return;
    const socket = this.#socket;
    // Without a newer one the server closes in the end with 4500, and the app is asked again.
    const fresh = await (async () => token())().catch(() => null);
    if (socket !== this.#socket || !this.isOpen || fresh === null || fresh === this.#token) return;
    this.request("session.renew", { token: fresh }, (error, result) => {
      if (error) return;
      this.#token = fresh;
      this.#token_ends = result?.expires_at ?? Infinity;
    });
  }

  /** After a silent heartbeat asks for a sign of life, and gives the line up if none comes. */
  #watch() {
    clearTimeout(this.#timers.life);
    const left = this.#heard + this.#heartbeat - performance.now();
    const again = () => this.#watch();
    this.#timers.life = setTimeout(() => {
      const heard = this.#heard;
      if (performance.now() < heard + this.#heartbeat) return again();
      this.request("ping", {}, () => {});
      this.#timers.life = setTimeout(() => (this.#heard === heard ? this.#lost(1006) : again()), this.#options.patience_ms);
    }, Math.max(left, 1));
  }

  /** The session has no token that counts (any more): as if the server had closed it for that. */
  unauthenticated() {
    this.#lost(UNAUTHENTICATED);
  }

  /** The server did what the protocol rules out, or the app can't keep up: ends the connection and comes back. */
  breach(error) {
    this.#lost(1006, { error });
  }

  #lost(code, why = {}) {
    if (this.isOver) return;
    this.#hangUp();
    this.#failPending();
    if (this.isOver) return;
    if (FOR_GOOD.has(code) || (code > UNAUTHENTICATED && code < 5000)) return this.stop({ code });
    if (code === UNAUTHENTICATED) {
      if (typeof this.#options.token !== "function") return this.stop({ code });
      this.#refused = this.#token;
    }
    const named = this.#back_in;
    this.#back_in = null; // for one attempt: those after it are as random as any
    this.#wait(this.pause(named), { code, ...why });
  }

  #failPending() {
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    const failed = new TidelineError("connection_lost", "the connection was lost before the answer", { retry: true });
    for (const done of pending) done(failed, null);
  }

  #hangUp(code) {
    clearTimeout(this.#timers.life);
    clearTimeout(this.#timers.back);
    const socket = this.#socket;
    this.#socket = null;
    this.session = null;
    if (socket?.terminate && code === undefined) socket.terminate();
    else socket?.close(code);
  }

  #wait(ms, why) {
    this.isAway = true;
    this.#become("waiting", { retry_in_ms: Math.round(ms), ...why });
    this.#timers.back = setTimeout(() => this.connect(), ms);
  }

  /** Ends for good; nothing comes back by itself. */
  stop({ code = null, error = null }, state = "stopped") {
    if (this.isOver) return;
    this.#hangUp(1000);
    this.#become(state, { code, error });
    this.#failPending();
    for (const refuse of this.#waiting.splice(0)) refuse(over(state));
    if (state === "stopped") this.#to.stopped({ code, error });
  }

  #become(state, about = {}) {
    this.state = state;
    this.#to.state({ state, ...about });
  }
}
