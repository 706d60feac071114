// A client of one server, for one user.
//
// Owns: how connection, subscriptions, outbox and store are put together. Promises: connects by itself, at once and
// after each loss, until it is closed or the server says not to come back. Its parts each have a file of their own.

import { Answers } from "./answers.js";
import { Connection } from "./connection.js";
import { Conversations } from "./conversations.js";
import { over, TidelineError } from "./errors.js";
import { Events } from "./events.js";
import { checkTrace, isChange, Outbox } from "./outbox.js";
import { MemoryStore } from "./store/memory.js";
import { Subscription } from "./subscription.js";
import { decode, decodeMessage, encode } from "./values.js";

export class Client extends Events {
  #connection;
  #outbox;
  #answers;
  #subscriptions = new Map();
  #earlier = new Map(); // timeline → its last subscription, as long as that writes or has something left to tell
  #ready;
  #parts; // what the parts see of the client

  /**
   * `url` is ws://HOST/v1/connect. Options: `user` (where the server asks nobody who they are) or `token` (a text, or a
   * function that gets one, also async), `device`, `store` (or a promise of one; else memory), `WebSocket`.
   */
  constructor(url, { store = new MemoryStore(), ...options } = {}) {
    super();
    if (!/^wss?:$/.test(new URL(url).protocol)) throw new TypeError(`${url} is not ws:// or wss://`);
    this.#connection = new Connection(url, options, {
      opened: () => this.#opened(),
      pushed: (method, params) => this.#pushed(method, params),
      state: (detail) => this.#became(detail),
      stopped: (why) => this.#stopped(why),
    });
    this.#parts = {
      connection: this.#connection,
      outbox: null,
      store: null,
      append: (...args) => this.append(...args),
      open: (...args) => this.open(...args),
      messages: (...args) => this.messages(...args),
      call: (...args) => this.call(...args),
      told: (event, detail) => this.emit(event, detail),
      failed: (error) => this.#connection.stop({ error }),
      closed: (timeline, message) => this.#answers.closed(timeline, message),
      gone: (subscription) => this.#gone(subscription),
    };
    this.#outbox = this.#parts.outbox = new Outbox(this.#parts);
    this.#answers = new Answers(this.#parts);
    this.#ready = this.#begin(store);
    this.#ready.catch((error) => this.#connection.stop({ error }));
  }

  async #begin(store) {
    this.#parts.store = await store;
    this.#answers.load(await this.#outbox.load());
    this.#connection.connect();
  }

  /** "connecting", "open", "waiting" (to come back), "stopped" or "closed". */
  get state() {
    return this.#connection.state;
  }

  /** What `session.open` answered: user, limits, server; null while there is no session. */
  get session() {
    return this.#connection.session;
  }

  /** Comes back now, in place of waiting. */
  reconnect() {
    return this.#connection.connect();
  }

  /**
   * Follows a timeline from where the store is; without a place there, from its beginning, or with `rewind` from its
   * newest so many messages. `with` asks for "signals", "presence", "members", "receipts", "parts"; of "parts" those that come
   * within `window_ms` come together. `replay` (true, or how many) tells stored messages first; `create: false` refuses an
   * unknown timeline. Resolves when the server has answered, or when there is none to answer: then with what the store has.
   */
  async subscribe(timeline, options = {}) {
    await this.#ready;
    if (this.#connection.isOver) throw over(this.state);
    if (this.#subscriptions.has(timeline)) {
      throw new TidelineError("already_subscribed", `${timeline} is subscribed already`, { code: 409 });
    }
    const subscription = new Subscription(timeline, options, this.#parts);
    this.#subscriptions.set(timeline, subscription);
    return subscription.start(this.#earlier.get(timeline));
  }

  /**
   * Appends a message; resolves when the server has it on disk. It is kept and repeated until then, also by the next
   * run on the same store. Options: those of `message.append`, as `message_id`, `expect_head`, `expires_in_ms`, and
   * `traceparent` as of `call`, which is kept with the message.
   */
  async append(timeline, entry, options) {
    return this.#ready.then(() => this.#outbox.append(timeline, entry, options));
  }

  /**
   * Appends a message that is written while others read it, and returns its `Answer`, to `write` to and to `finish`. All is
   * kept and repeated as with `append`. Options: `column` ("text" if not said) and `idle_ms`, as in the protocol, and those
   * of `append`; with a `message_id` that is there it goes on behind its text (`await answer.opened`).
   */
  open(timeline, entry = {}, options = {}) {
    if (this.#connection.isOver) throw over(this.state);
    return this.#answers.open(timeline, entry, options, this.#ready);
  }

  /** Messages that are not answered yet. */
  get outbox() {
    return this.#outbox.messages;
  }

  /** Edits, deletions, reactions, pins and read positions that are not answered yet. */
  get changes() {
    return this.#outbox.changes;
  }

  /**
   * Any method of the protocol. Waits for a connection; not repeated if that is lost before the answer. But what comes to
   * the same if it is done twice (see `changes`) is kept and repeated as messages are. `traceparent` says which step of a W3C
   * trace it is a part of.
   */
  async call(method, params = {}, { traceparent } = {}) {
    checkTrace(traceparent);
    await this.#ready;
    if (isChange(method, params)) return this.#outbox.change(method, params, traceparent);
    return decode(await this.#connection.call(method, encode(params), traceparent ?? undefined));
  }

  /** The list of the user's conversations, kept up to date. Resolves when all are there, or there is no server to ask. */
  conversations() {
    return new Conversations(this, this.#connection).start();
  }

  /** Stored messages of a timeline, oldest first: `{from, to, limit, newest}`. */
  async messages(timeline, range) {
    await this.#ready;
    return (await this.#parts.store.range(timeline, range)).map(decodeMessage);
  }

  /** Forgets what is stored of a timeline; not while it is subscribed. */
  async forget(timeline) {
    await this.#ready;
    if (this.#subscriptions.has(timeline)) throw new TidelineError("already_subscribed", `${timeline} is subscribed`);
    await this.#earlier.get(timeline)?.left();
    this.#earlier.delete(timeline);
    await this.#parts.store.forget(timeline);
  }

  /** Ends the connection and closes the store. What is in the outbox stays there. */
  async close() {
    await this.#ready.catch(() => {});
    this.#connection.stop({}, "closed");
    this.#over("closed");
    await Promise.all(Array.from(this.#earlier.values(), (subscription) => subscription.left()));
    await this.#outbox.stored();
    await this.#parts.store?.close();
  }

  #opened() {
    for (const subscription of [...this.#subscriptions.values()]) subscription.resume();
    this.#outbox.resume();
    this.#answers.resume();
  }

  #became(detail) {
    if (detail.state !== "open") for (const subscription of this.#subscriptions.values()) subscription.lost();
    if (detail.state === "waiting") for (const subscription of this.#subscriptions.values()) subscription.away();
    this.emit("state", detail);
  }

  #gone(subscription) {
    const { timeline } = subscription;
    if (this.#subscriptions.get(timeline) === subscription) this.#subscriptions.delete(timeline);
    this.#earlier.set(timeline, subscription);
    subscription.left().then((left) => {
      if (!left.length && this.#earlier.get(timeline) === subscription) this.#earlier.delete(timeline);
    });
  }

  #pushed(method, params) {
    const subscription = this.#subscriptions.get(params.timeline);
    if (subscription) subscription.pushed(method, params);
    else this.emit(method, decode(params));
  }

  #stopped(why) {
    this.#over("stopped");
    this.emit("stopped", why);
  }

  #over(state) {
    for (const subscription of [...this.#subscriptions.values()]) subscription.close(over(state));
    this.#outbox.stop(over(state));
    this.#answers.stop(over(state));
  }
}

