// Messages that grow, as their readers have them.
//
// Owns: which messages of a timeline are open, with their parts, and what an app holds of one. Promises: a part goes
// behind the text once, in order, and one that leaves a hole is a breach; an iterator gives the text whole, from its
// beginning to the message's end, however late it is read. Must not: store or ask anything.

import { Breach, TidelineError } from "./errors.js";
import { check, grown, growsIn, isNewer, newest, textOf } from "./values.js";

/** How many messages a `subscribe` goes on with. */
const PLACES_MAX = 64;

/** The open messages of a timeline, as they are at a place. */
export class Open {
  #messages;

  constructor(messages = []) {
    this.#messages = new Map(messages);
  }

  copy() {
    return new Open(this.#messages);
  }

  /** Messages came, or changes of some; those below `first` are not followed. Returns those that were open, in their newest form. */
  take(messages, first) {
    const changed = [];
    for (const message of messages) {
      if (message.sequence < first) continue;
      const copy = this.#messages.get(message.sequence);
      if (copy && !isNewer(message, copy)) continue;
      const whole = copy ? newest(copy, message) : message;
      if (copy) changed.push(whole);
      if (whole.open) this.#messages.set(whole.sequence, whole);
      else this.#messages.delete(whole.sequence);
    }
    return changed;
  }

  /** Parts came. Returns the message with them; null = there is nothing new in it, or it is not open here. */
  extend(growth) {
    check(growth, { sequence: "count", from: "count", parts: "count", text: "string" });
    const { sequence, from, parts } = growth;
    const copy = this.#messages.get(sequence);
    if (!copy || parts <= copy.parts) return null;
    if (from !== copy.parts + 1) throw new Breach(`parts from ${from} on of ${sequence}, which has ${copy.parts}`);
    const message = grown(copy, growth);
    this.#messages.set(sequence, message);
    return message;
  }

  /** What is below is gone. */
  drop(floor) {
    for (const sequence of this.#messages.keys()) if (sequence < floor) this.#messages.delete(sequence);
  }

  /** How far the newest of them are, for `subscribe`; undefined = there are none. */
  get places() {
    const sequences = [...this.#messages.keys()].sort((a, b) => b - a).slice(0, PLACES_MAX);
    if (sequences.length) return Object.fromEntries(sequences.map((sequence) => [sequence, this.#messages.get(sequence).parts]));
  }
}

/** A message that is open, as the app is told of it; `text` and the iterator go on with it. */
export class OpenMessage {
  #growth;

  constructor(message, growth) {
    Object.assign(this, message);
    this.#growth = growth;
  }

  /** The text with all parts that the app was told. */
  get text() {
    return this.#growth.text;
  }

  /** The message as the app was told of it last; closed in the end. */
  get newest() {
    return this.#growth.newest;
  }

  /** The text in parts: what there is at first, then what comes; ends when the message is closed or gone. */
  [Symbol.asyncIterator]() {
    return this.#growth.parts();
  }
}

class Growth {
  text = "";
  newest = null;
  #column = null; // that grows; a closed message does not say it
  #end = null; // {error}
  #waiters = [];

  take(message) {
    if (message.open) this.#column = growsIn(message);
    const text = textOf(message, this.#column ?? undefined);
    this.newest = message;
    // What was edited in the same moment as it was closed can't come as a part.
    if (text.startsWith(this.text)) this.text = text;
    if (!message.open) this.end(null);
    else this.#wake();
  }

  end(error) {
    this.#end ??= { error };
    this.#wake();
  }

  async *parts() {
    for (let at = 0; ; ) {
      if (this.text.length > at) {
        const part = this.text.slice(at);
        at = this.text.length;
        yield part;
      } else if (this.#end?.error) throw this.#end.error;
      else if (this.#end) return;
      else await new Promise((resolve) => this.#waiters.push(resolve));
    }
  }

  #wake() {
    for (const resolve of this.#waiters.splice(0)) resolve();
  }
}

/** What an app was told of open messages. */
export class Growths {
  #known = new Map(); // sequence → Growth

  /** The detail of an event as the app gets it. */
  told(event, detail) {
    if (event === "message" || event === "changed") return this.#take(detail);
    if (event === "extended") return { ...detail, message: this.#take(detail.message) };
    if (event === "older") return { ...detail, messages: detail.messages.map((message) => this.#take(message)) };
    if (event === "reset" || event === "ended") this.end(new TidelineError(detail.reason, "the timeline is not followed any more"));
    if (event === "too_old") this.end(new TidelineError("too_old", "the server has trimmed the message"), detail.floor);
    return detail;
  }

  /** Those below `floor` are followed no more. */
  end(error, floor = Infinity) {
    for (const [sequence, growth] of this.#known) {
      if (sequence >= floor) continue;
      this.#known.delete(sequence);
      growth.end(error);
    }
  }

  #take(message) {
    const { sequence } = message;
    const growth = this.#known.get(sequence) ?? (message.open ? new Growth() : null);
    growth?.take(message);
    if (!message.open) {
      this.#known.delete(sequence);
      return message;
    }
    this.#known.set(sequence, growth);
    return new OpenMessage(message, growth);
  }
}
