// Messages on their way out.
//
// Owns: which messages are not answered yet, and when each is sent. Promises: a message is in the store before it is
// sent, and stays there until the server has answered, so it survives a reload and a crash; it is repeated with the same
// message ID, so it is stored once; messages go out in the order of the calls. Must not: look into what is sent.

import { Breach, TidelineError } from "./errors.js";
import { decode, encodeEntry, isCount, isObject } from "./values.js";

const UNANSWERED_MAX = 100;

export class Outbox {
  #client; // {connection, store, failed(error), told(event, detail)}
  #items = new Map(); // key → item, in order
  #unsent = [];
  #unanswered = 0;
  #order = 0;
  #timer = null; // while the server can't take messages,
  #paused_until = 0; // up to then

  constructor(client) {
    this.#client = client;
  }

  /** What an earlier run left. */
  async load() {
    const left = await this.#client.store.outbox();
    for (const params of left.sort((a, b) => a.order - b.order)) {
      this.#items.set(keyOf(params), { kept: params, stored: true, waiters: [] });
      this.#order = params.order;
    }
  }

  /** Unanswered messages, in order: `{timeline, message_id, params}`. */
  list() {
    return [...this.#items.values()].map(({ kept }) => kept);
  }

  /** Resolves with the server's answer: `{sequence, timestamp, message_id, epoch, duplicate}`. */
  append(timeline, entry, { message_id = newId(), ...options } = {}) {
    return new Promise((resolve, reject) => {
      const { connection, store } = this.#client;
      if (connection.isOver) throw new TidelineError(connection.state, `the client is ${connection.state}`);
      // As it is stored: a copy that later changes of the app's objects can't reach.
      const params = JSON.parse(JSON.stringify({ timeline, message_id, entry: encodeEntry(entry), ...options }));
      const key = keyOf({ timeline, message_id });
      const waiter = { resolve, reject };
      const known = this.#items.get(key);
      if (known) {
        if (JSON.stringify(known.kept.params) === JSON.stringify(params)) return known.waiters.push(waiter);
        throw new TidelineError("message_id_conflict", "another message with this ID is on its way", { code: 409 });
      }
      const item = { kept: { timeline, message_id, order: ++this.#order, params }, stored: false, waiters: [waiter] };
      this.#items.set(key, item);
      this.#unsent.push(item);
      const stored = () => {
        item.stored = true;
        this.#client.told("kept", { timeline, message_id, entry: decode(params).entry });
        this.#send();
      };
      store.addToOutbox(item.kept).then(stored, (error) => this.#client.failed(error));
    });
  }

  /** A new connection is there: everything that is unanswered goes again. */
  resume() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#unanswered = 0;
    this.#unsent = [...this.#items.values()];
    for (const item of this.#unsent) item.asked = false;
    this.#send();
  }

  stop(error) {
    clearTimeout(this.#timer);
    for (const { waiters } of this.#items.values()) for (const { reject } of waiters.splice(0)) reject(error);
  }

  #send() {
    const { connection } = this.#client;
    if (this.#timer !== null) return;
    while (connection.isOpen && this.#unanswered < UNANSWERED_MAX && this.#unsent[0]?.stored) {
      const item = this.#unsent.shift();
      this.#unanswered += 1;
      item.asked = true;
      connection.request("message.append", item.kept.params, (error, result) => this.#answered(item, error, result));
    }
  }

  #answered(item, error, result) {
    // After these the next connection sends it again.
    if (error?.reason === "connection_lost") return;
    if (error?.reason === "unauthenticated") return this.#client.connection.unauthenticated();
    if (!error) checkAnswer(result);
    this.#unanswered -= 1;
    if (error?.retry) {
      item.asked = false;
      return this.#pause(this.#client.connection.pause(error.data.retry_after_ms));
    }
    this.#items.delete(keyOf(item.kept));
    this.#done(item, error, result);
    this.#send();
  }

  async #done({ kept, waiters }, error, result) {
    try {
      await this.#client.store.removeFromOutbox(kept);
    } catch (failure) {
      this.#client.failed(failure);
    }
    for (const { resolve, reject } of waiters) error ? reject(error) : resolve(result);
    if (waiters.length) return;
    // Of an earlier run: nobody waits.
    const { timeline, message_id } = kept;
    if (error) this.#client.told("refused", { timeline, message_id, reason: error.reason, error });
    else this.#client.told("sent", { timeline, ...result });
  }

  /** The server can't take it now. All wait, so that those behind don't pass it. */
  #pause(ms) {
    const until = performance.now() + ms;
    if (this.#timer !== null && until <= this.#paused_until) return;
    this.#paused_until = until;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#unsent = [...this.#items.values()].filter((item) => !item.asked);
      this.#send();
    }, ms);
  }
}

function checkAnswer(result) {
  const appended = isObject(result) && isCount(result.sequence) && result.sequence > 0 && typeof result.epoch === "string";
  const scheduled = isObject(result) && typeof result.scheduled === "string";
  if (!appended && !scheduled) throw new Breach("not the answer of an append");
}

const keyOf = ({ timeline, message_id }) => JSON.stringify([timeline, message_id]);

// Not crypto.randomUUID, which browsers have on secure pages only.
const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
