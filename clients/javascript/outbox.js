// What is on its way out: messages, and those changes that do no harm if they are made twice.
//
// Owns: what is not answered yet, and when each is sent. Promises: it is in the store before it is sent, and stays there
// until the server has answered, so it survives a reload and a crash; a message is repeated with the same ID, so it is
// stored once; all go out in the order of the calls, and of the changes of a timeline one at a time, so that none passes
// another. Parts of messages lie in the store beside it. Must not: look into what is sent.

import { Breach, over, TidelineError } from "./errors.js";
import { decode, encode, encodeEntry, isCount, isObject } from "./values.js";

const UNANSWERED_MAX = 100;
const APPEND = "message.append";
const CHANGES = new Set([
  "message.update", "message.delete", "message.recall", "message.hide",
  "message.stop", "reaction.add", "reaction.remove", "pin.add", "pin.remove", "read.set",
]);

/** Whether a call is kept and repeated: a change of one timeline that comes to the same if it is made twice. */
export const isChange = (method, { timeline, expect_change, force }) =>
  CHANGES.has(method) && typeof timeline === "string" && expect_change === undefined && force !== true;

export class Outbox {
  #client; // {connection, store, failed(error), told(event, detail)}
  #items = new Map(); // key → item, in order
  #unsent = [];
  #unanswered = 0;
  #changing = new Set(); // timelines of which a change is not answered
  #order = 0;
  #timer = null; // while the server can't take messages,
  #paused_until = 0; // up to then

  constructor(client) {
    this.#client = client;
  }

  /** What an earlier run left. Returns what belongs to messages that were being written. */
  async load() {
    const left = await this.#client.store.outbox();
    for (const kept of left.filter(({ answer }) => answer === undefined).sort((a, b) => a.order - b.order)) {
      this.#items.set(keyOf(kept), { kept, stored: true, adding: null, waiters: [], is_left: true });
      this.#order = kept.order;
    }
    return left.filter(({ answer }) => answer !== undefined);
  }

  /** Unanswered messages, in order: `{timeline, message_id, entry}`. */
  get messages() {
    return this.#list().filter(isMessage).map(({ timeline, message_id, params }) => ({ timeline, message_id, entry: decode(params).entry }));
  }

  /** Unanswered changes, in order: `{timeline, method, params}`. */
  get changes() {
    return this.#list().filter((kept) => !isMessage(kept)).map(({ timeline, method, params }) => ({ timeline, method, params: decode(params) }));
  }

  #list() {
    return Array.from(this.#items.values(), ({ kept }) => kept);
  }

  /**
   * Resolves with the server's answer: `{sequence, timestamp, message_id, epoch, duplicate}`. The message stays in the
   * store until `before(answer)` is done, too.
   */
  append(timeline, entry, { message_id = newId(), traceparent, ...options } = {}, before) {
    return new Promise((resolve, reject) => {
      this.#open();
      checkTrace(traceparent);
      // As it is stored: a copy that later changes of the app's objects can't reach.
      const params = copyOf({ timeline, message_id, entry: encodeEntry(entry), ...options });
      const known = this.#items.get(keyOf({ timeline, message_id }));
      if (known && JSON.stringify(known.kept.params) !== JSON.stringify(params)) {
        throw new TidelineError("message_id_conflict", "another message with this ID is on its way", { code: 409 });
      }
      if (known) known.waiters.push({ resolve, reject, before });
      else this.#keep({ timeline, message_id, params, ...(traceparent && { traceparent }) }, [{ resolve, reject, before }]);
    });
  }

  /** The same of a message that an earlier run left. */
  again(timeline, message_id, before) {
    return new Promise((resolve, reject) => {
      const known = this.#items.get(keyOf({ timeline, message_id }));
      if (!known) throw new TidelineError("message_not_found", "its message is not in the outbox");
      known.waiters.push({ resolve, reject, before });
    });
  }

  /** Resolves with the server's answer. The change is one of the history that the store has. */
  change(method, params, traceparent) {
    return new Promise((resolve, reject) => {
      this.#open();
      const { timeline } = params;
      const kept = { timeline, message_id: newId(), method, params: copyOf(encode(params)), ...(traceparent && { traceparent }) };
      const superseded = method === "read.set" ? this.#superseded(kept.params) : [];
      const waiters = [...superseded.flatMap((item) => item.waiters.splice(0)), { resolve, reject }];
      const named = async () => {
        const place = params.epoch === undefined ? await this.#client.store.place(timeline) : null;
        if (place) kept.params.epoch = place.epoch;
      };
      this.#keep(kept, waiters, named, superseded);
    });
  }

  #open() {
    const { state, isOver } = this.#client.connection;
    if (isOver) throw over(state);
  }

  /** Gives up the read positions that are not sent and that this one covers. They stay in the store until it is there. */
  #superseded({ timeline, epoch, read = 0, received = 0 }) {
    const given_up = [];
    for (const item of this.#items.values()) {
      const { method, params } = item.kept;
      if (item.asked || method !== "read.set" || params.timeline !== timeline || (epoch !== undefined && params.epoch !== epoch)) continue;
      if ((params.read ?? 0) > read || (params.received ?? 0) > received) continue;
      given_up.push(item);
      this.#items.delete(keyOf(item.kept));
      this.#unsent = this.#unsent.filter((one) => one !== item);
    }
    return given_up;
  }

  #keep(kept, waiters, before = async () => {}, superseded = []) {
    const item = { kept: { ...kept, order: ++this.#order }, stored: false, adding: null, asked: false, waiters };
    this.#items.set(keyOf(kept), item);
    this.#unsent.push(item);
    const { timeline, message_id, params } = kept;
    item.adding = before()
      .then(() => this.#client.store.addToOutbox(item.kept))
      .then(() => Promise.all(superseded.map((one) => Promise.resolve(one.adding).then(() => this.#remove(one.kept)))))
      .then(() => {
        item.stored = true;
        if (isMessage(kept)) this.#client.told("kept", { timeline, message_id, entry: decode(params).entry });
        this.#send();
      })
      .catch((error) => this.#client.failed(error));
  }

  /** A new connection is there: everything that is unanswered goes again. */
  resume() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#unanswered = 0;
    this.#changing.clear();
    this.#unsent = [...this.#items.values()];
    for (const item of this.#unsent) item.asked = false;
    this.#sendLeft().catch((error) => this.#client.failed(error));
  }

  /**
   * Sends, but first sees which changes of an earlier run are still in the store: that run may be another tab, which has
   * sent them since, and newer ones.
   */
  async #sendLeft() {
    const left = this.#unsent.filter(({ kept, is_left }) => is_left && !isMessage(kept));
    for (const item of left) item.stored = false;
    const stored = new Set(left.length ? (await this.#client.store.outbox()).map(keyOf) : []);
    for (const item of left) {
      item.stored = stored.has(keyOf(item.kept));
      if (!item.stored) this.#items.delete(keyOf(item.kept));
    }
    this.#unsent = this.#unsent.filter(({ kept }) => this.#items.has(keyOf(kept)));
    this.#send();
  }

  stop(error) {
    clearTimeout(this.#timer);
    for (const { waiters } of this.#items.values()) for (const { reject } of waiters.splice(0)) reject(error);
  }

  /** Resolves when all is in the store. */
  async stored() {
    await Promise.all(Array.from(this.#items.values(), ({ adding }) => adding));
  }

  #send() {
    const { connection } = this.#client;
    if (this.#timer !== null) return;
    while (connection.isOpen && this.#unanswered < UNANSWERED_MAX && this.#unsent[0]?.stored) {
      const [item] = this.#unsent;
      const { method = APPEND, params, timeline, traceparent } = item.kept;
      if (method !== APPEND && this.#changing.has(timeline)) return;
      if (method !== APPEND) this.#changing.add(timeline);
      this.#unsent.shift();
      this.#unanswered += 1;
      item.asked = true;
      connection.request(method, params, (error, result) => this.#answered(item, error, result), traceparent);
    }
  }

  #answered(item, error, result) {
    // After these the next connection sends it again.
    if (error?.reason === "connection_lost") return;
    if (error?.reason === "unauthenticated" && this.#endsSession(item)) return this.#client.connection.unauthenticated();
    if (!error && isMessage(item.kept)) checkAnswer(result);
    this.#unanswered -= 1;
    if (!isMessage(item.kept)) this.#changing.delete(item.kept.timeline);
    if (error?.retry) {
      item.asked = false;
      return this.#pause(this.#client.connection.pause(error.data.retry_after_ms));
    }
    this.#items.delete(keyOf(item.kept));
    this.#done(item, error, result);
    this.#send();
  }

  /** A session without a user has no read positions and no reactions; that is no fault of its token. */
  #endsSession({ kept }) {
    return isMessage(kept) || this.#client.connection.session?.user !== undefined;
  }

  async #done({ kept, waiters }, error, result) {
    if (!error) await Promise.all(waiters.map(({ before }) => before?.(result))).catch((failure) => this.#client.failed(failure));
    await this.#remove(kept);
    for (const { resolve, reject } of waiters) error ? reject(error) : resolve(isMessage(kept) ? result : decode(result));
    if (waiters.length) return;
    // Of an earlier run: nobody waits.
    const { timeline, message_id, method, params } = kept;
    const about = isMessage(kept) ? { timeline, message_id } : { timeline, method, params: decode(params) };
    if (error) this.#client.told("refused", { ...about, reason: error.reason, error });
    else this.#client.told("sent", isMessage(kept) ? { timeline, ...result } : about);
  }

  #remove(kept) {
    return this.#client.store.removeFromOutbox(kept).catch((failure) => this.#client.failed(failure));
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

const isMessage = ({ method = APPEND }) => method === APPEND;

const copyOf = (params) => JSON.parse(JSON.stringify(params));

function checkAnswer(result) {
  const appended = isObject(result) && isCount(result.sequence) && result.sequence > 0 && typeof result.epoch === "string";
  const scheduled = isObject(result) && typeof result.scheduled === "string";
  if (!appended && !scheduled) throw new Breach("not the answer of an append");
}

/** Throws for what is no text. One that is not well formed is ignored by the server, as the standard asks. */
export function checkTrace(traceparent) {
  if (traceparent === undefined || traceparent === null || typeof traceparent === "string") return;
  throw new TidelineError("invalid_params", "traceparent: a string", { code: -32602, field: "traceparent" });
}

export const keyOf = ({ timeline, message_id }) => JSON.stringify([timeline, message_id]);

// Not crypto.randomUUID, which browsers have on secure pages only.
export const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
