// A message that the app writes while others read it.
//
// Owns: what was written and is not answered yet, as parts, and the end. Promises: a part is in the store before it is
// sent, and stays there until it is answered, so it survives a reload and a crash; it is repeated as it was; one of a
// message is on its way at a time, and what is written meanwhile is one part; a part never ends within a letter. What
// waits is bounded. Must not: append the message, which the outbox does.

import { Breach, TidelineError } from "./errors.js";
import { decode, encode, isCount, isObject, textOf } from "./values.js";

/** Letters (of UTF-16) that are joined to one part. */
const PART_MAX = 8_192;
/** Letters of a message that may wait before `write` waits for room, */
const ROOM = 65_536;
/** and before it refuses. */
const QUEUED_MAX = 1_048_576;

export class Answer {
  /** Resolves when the server has the message: `{sequence, epoch, text, parts}`. */
  opened;
  #client;
  #forget;
  #opening; // {resolve, reject} of `opened`
  #abort = new AbortController();
  #place = null; // {sequence, epoch}
  #last = null; // number of the last part that was made; null until it is known where to go on
  #answered = 0;
  #before = ""; // the text of runs before
  #parts = []; // {part, text, stored, sent}
  #buffer = ""; // what is in no part yet
  #written = 0; // letters in all, and how many of them are
  #stored = 0; // in the store, and
  #queued = 0; // not answered
  #waiters = []; // {letters, resolve, reject} of `write`
  #end = null; // {params, stored, promise, resolve, reject}
  #over = null; // the error that all further writing gets
  #is_left = false; // of an earlier run: nobody writes any more
  #heir = null; // the answer of this run that goes on with it
  #storing = false;
  #dropping = null; // a promise, while an answered part is being removed
  #asking = false;
  #timer = null;
  #settled = deferred();

  constructor(client, timeline, message_id, forget) {
    this.timeline = timeline;
    this.message_id = message_id;
    this.#client = client;
    this.#forget = forget;
    this.#opening = deferred();
    this.opened = this.#opening.promise;
  }

  /** Its number; null until the server has it. */
  get sequence() {
    return this.#place?.sequence ?? null;
  }

  /** How many parts the server has on disk. */
  get parts() {
    return this.#answered;
  }

  /** The text as it was when this run began to write. */
  get text() {
    return this.#before;
  }

  /** Is aborted, with the reason, when the message can't be written any more: stopped, refused, or the client ends. */
  get signal() {
    return this.#abort.signal;
  }

  /**
   * Puts a text behind what was written; throws if the message can't be written any more. What it returns resolves when
   * the text is in the store and there is room for more; it need not be awaited.
   */
  write(text) {
    if (typeof text !== "string") throw new TidelineError("invalid_params", "text: a string", { code: -32602, field: "text" });
    if (this.#over) throw this.#over;
    if (this.#end) throw new TidelineError("message_closed", "the message was finished", { code: 409 });
    if (this.#queued + text.length > QUEUED_MAX) {
      const data = { code: 413, limit: QUEUED_MAX, actual: this.#queued + text.length };
      throw new TidelineError("too_large", "more is written than can wait: await what `write` returns", data);
    }
    this.#buffer += text;
    this.#written += text.length;
    this.#queued += text.length;
    const waiter = { ...deferred(), letters: this.#written - halfOf(this.#buffer).length };
    this.#waiters.push(waiter);
    this.#pump();
    this.#wake();
    return waiter.promise;
  }

  /** Closes the message behind all that was written; resolves with it. `outcome` is "done", "cancelled" or "failed". */
  finish({ outcome = "done", set, remove } = {}) {
    if (this.#over) return Promise.reject(this.#over);
    if (!this.#end) {
      // As it is stored: a copy that later changes of the app's objects can't reach.
      const params = JSON.parse(JSON.stringify(encode({ outcome, set, remove })));
      this.#end = { params, stored: false, ...deferred() };
      this.#pump();
    }
    return this.#end.promise;
  }

  // ---- of the client

  /** With an ID that the app knows the message may be there: then it goes on behind its text. */
  async begin(entry, options, is_known, left) {
    if (left) left.#heir = this;
    if (!is_known) this.#last = 0;
    this.#pump();
    try {
      const placed = (result) => this.#placed(result);
      const { duplicate } = await this.#client.outbox.append(this.timeline, entry, options, placed);
      if (is_known && (duplicate || left)) await this.#goOnBehind(left);
      this.#last ??= 0;
      const { sequence, epoch } = this.#place;
      this.#opening.resolve({ sequence, epoch, text: this.#before, parts: this.#last });
      this.#pump();
      this.#send();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Behind what the message has, when the parts that an earlier run left are answered. */
  async #goOnBehind(left) {
    await left?.#settled.promise;
    const message = await this.#get();
    if (!message.open) throw closedError(message);
    this.#last = this.#answered = message.parts;
    this.#before = textOf(message);
  }

  /** Its newest form; asked again where the server can't answer now, or the connection ends before the answer. */
  async #get() {
    const { timeline, sequence } = this;
    for (;;) {
      try {
        return (await this.#client.call("message.get", { timeline, sequence })).message;
      } catch (error) {
        if (!error.retry) throw error;
        // The next call waits for a connection by itself.
        const pause = error.reason === "connection_lost" ? 0 : this.#client.connection.pause(error.data.retry_after_ms);
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  }

  /** The outbox has the answer of the append, and forgets the message when this is done. */
  #placed({ sequence, epoch }) {
    this.#place = { sequence, epoch };
    return this.#client.store.addToOutbox(this.#item("", { place: this.#place }));
  }

  /** What an earlier run left: parts, perhaps the end, and the place, if the append was answered. */
  goOn(kept) {
    this.#is_left = true;
    for (const { place, part, text, end, parts } of kept) {
      if (place) this.#place = place;
      else if (end) this.#end = { params: end, stored: true, parts, ...deferred() };
      else this.#parts.push({ part, text, stored: true, sent: true });
    }
    this.#parts.sort((a, b) => a.part - b.part);
    this.#last = this.#parts.at(-1)?.part ?? this.#end?.parts ?? 0;
    if (this.#place) return this.#settle();
    const appending = this.#client.outbox.again(this.timeline, this.message_id, (result) => this.#placed(result));
    appending.then(() => this.#settle(), (error) => this.#fail(error));
  }

  resume() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#asking = false;
    this.#send();
  }

  /** The client ends. What is in the store stays there. */
  stop(error) {
    clearTimeout(this.#timer);
    this.#refuse(error);
  }

  closed(message) {
    // A request that is on its way gets an answer that says the same.
    if (message.sequence === this.sequence && !this.#asking) this.#fail(closedError(message));
  }

  // ---- parts

  /** Puts what was written into the store: into the last part, if that was not sent, or into a new one. */
  #pump() {
    if (this.#storing || this.#over || this.#last === null) return;
    const half = this.#end ? "" : halfOf(this.#buffer);
    const taken = this.#buffer.slice(0, this.#buffer.length - half.length);
    if (taken) {
      this.#buffer = half;
      const part = this.#partFor(taken.length);
      part.text += taken.toWellFormed();
      part.stored = false;
      this.#keep(part, String(part.part), { part: part.part, text: part.text }, taken.length);
    } else if (this.#end && !this.#end.stored) {
      this.#keep(this.#end, "end", { end: this.#end.params, parts: this.#last }, 0);
    }
  }

  #partFor(letters) {
    const last = this.#parts.at(-1);
    if (last && !last.sent && last.text.length + letters <= PART_MAX) return last;
    this.#parts.push({ part: ++this.#last, text: "", stored: false, sent: false });
    return this.#parts.at(-1);
  }

  #keep(what, name, more, letters) {
    this.#storing = true;
    this.#client.store
      .addToOutbox(this.#item(name, more))
      .then(() => {
        this.#storing = false;
        if (this.#over) return this.#drop(name);
        what.stored = true;
        this.#stored += letters;
        this.#send();
        this.#pump();
        this.#wake();
      })
      .catch((error) => this.#client.failed(error));
  }

  #item(name, more) {
    const { timeline, message_id } = this;
    return { timeline, message_id: `${message_id}\n${name}`, answer: message_id, order: 0, ...more };
  }

  #drop(name) {
    return this.#client.store.removeFromOutbox(this.#item(name)).catch((error) => this.#client.failed(error));
  }

  /** The next part, or the end behind the last one. */
  #send() {
    if (this.#asking || this.#timer !== null || this.#over || !this.#place || !this.#client.connection.isOpen) return;
    const [part] = this.#parts;
    if (part?.stored) {
      part.sent = true;
      this.#ask("message.extend", { part: part.part, text: part.text }, (result) => this.#taken(part, result));
    } else if (!part && this.#end?.stored && !this.#dropping) {
      // Otherwise a crash could bring back a part that would be sent again behind the end.
      this.#ask("message.finish", { parts: this.#last, ...this.#end.params }, (result) => this.#finished(result));
    }
  }

  #ask(method, params, done) {
    const { connection } = this.#client;
    this.#asking = true;
    connection.request(method, { timeline: this.timeline, ...this.#place, ...params }, (error, result) => {
      // After these the next connection sends it again.
      if (this.#over || error?.reason === "connection_lost") return;
      if (error?.reason === "unauthenticated") return connection.unauthenticated();
      if (error?.retry) {
        this.#timer = setTimeout(() => this.resume(), connection.pause(error.data.retry_after_ms));
      } else if (error) this.#refused(error);
      else done(result);
    });
  }

  #taken(part, result) {
    if (!isObject(result) || !isCount(result.parts) || result.parts < part.part) throw new Breach("not the answer of a part");
    this.#asking = false;
    this.#parts.shift();
    this.#answered = part.part;
    this.#queued -= part.text.length;
    const dropping = this.#drop(String(part.part)).then(() => {
      if (this.#dropping !== dropping) return;
      this.#dropping = null;
      if (this.#is_left) this.#settle();
      else this.#send();
    });
    this.#dropping = dropping;
    this.#send();
    this.#wake();
  }

  #finished(result) {
    if (!isObject(result) || !isObject(result.message)) throw new Breach("not the answer of an end");
    this.#drop("end");
    this.#end.resolve(decode(result).message);
    this.#overWith(new TidelineError("message_closed", "the message was finished", { code: 409 }));
    if (this.#is_left) this.#told("sent", this.#place);
  }

  /** Of an earlier run, and all of it is answered: the rest is up to the next writer, or to the server. */
  #settle() {
    if (this.#over || this.#parts.length || this.#end) return this.#send();
    this.#overWith(new TidelineError("closed", "nobody writes the message"));
  }

  async #refused(error) {
    if (error.reason === "message_closed") {
      // Who stopped it, and why.
      const message = await this.#get().catch(() => null);
      if (message?.outcome) return this.#fail(closedError(message));
    }
    // Nothing more can be put behind it, so its readers need not wait for more.
    if (error.reason === "too_large" || error.reason === "too_many") this.#giveUp();
    this.#fail(error);
  }

  #giveUp() {
    const { timeline } = this;
    const params = { timeline, ...this.#place, parts: this.#answered, outcome: "failed" };
    this.#client.call("message.finish", params).catch(() => {});
  }

  /** The end for good. */
  #fail(error) {
    if (this.#over) return;
    for (const { part } of this.#parts) this.#drop(String(part));
    if (this.#end?.stored) this.#drop("end");
    if (this.#is_left && !this.#heir) this.#told("refused", { reason: error.reason, error });
    this.#overWith(error);
  }

  #told(event, about) {
    const { timeline, message_id } = this;
    this.#client.told(event, { timeline, message_id, ...about });
  }

  #overWith(error) {
    if (!this.#heir && this.#place) this.#drop("");
    this.#refuse(error);
    this.#settled.resolve();
  }

  #refuse(error) {
    this.#over ??= error;
    this.#forget();
    this.#abort.abort(error);
    this.#opening.reject(error);
    this.#end?.reject(error);
    for (const { reject } of this.#waiters.splice(0)) reject(error);
  }

  #wake() {
    const { length } = this.#waiters;
    if (this.#queued > ROOM) return;
    const kept = this.#waiters.findIndex(({ letters }) => letters > this.#stored);
    for (const { resolve } of this.#waiters.splice(0, kept < 0 ? length : kept)) resolve();
  }
}

/** Half a letter at the end of a text: what completes it is not there yet. */
const halfOf = (text) => (/[\uD800-\uDBFF]$/.test(text) ? text.at(-1) : "");

function closedError({ outcome, parts, stopped_by, reason, abandoned }) {
  const what = stopped_by === undefined ? `the message is closed: ${outcome ?? "it is gone"}` : `stopped by ${stopped_by || "somebody"}`;
  const why = reason === undefined ? "" : `: ${reason}`;
  return new TidelineError("message_closed", what + why, { code: 409, outcome, parts, stopped_by, why: reason, abandoned });
}

/** A promise that need not be looked at, and its ends. */
function deferred() {
  let ends;
  const promise = new Promise((resolve, reject) => (ends = { resolve, reject }));
  promise.catch(() => {});
  return { promise, ...ends };
}
