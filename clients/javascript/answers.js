// The messages that the app writes while others read them.
//
// Owns: which these are, and what an earlier run left of some. Promises: their number is bounded; what was left goes on
// by itself. Must not: look into one.

import { Answer } from "./answer.js";
import { TidelineError } from "./errors.js";
import { keyOf, newId } from "./outbox.js";

/** Messages that are written at a time. */
const ANSWERS_MAX = 1_000;

export class Answers {
  #client; // {connection, outbox, store, call(method, params), told(event, detail), failed(error)}
  #written = new Map(); // key → Answer, until it is over
  #left = new Map(); // key → Answer of an earlier run

  constructor(client) {
    this.#client = client;
  }

  /** What an earlier run left in the outbox: it goes on by itself. */
  load(items) {
    const groups = new Map();
    for (const item of items) {
      const key = keyOf({ timeline: item.timeline, message_id: item.answer });
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(item);
    }
    for (const [key, kept] of groups) {
      const [{ timeline, answer: message_id }] = kept;
      const answer = new Answer(this.#client, timeline, message_id, () => this.#left.delete(key));
      this.#left.set(key, answer);
      answer.goOn(kept);
    }
  }

  open(timeline, entry, options, ready) {
    const { message_id = newId(), column, idle_ms, ...rest } = options;
    const key = keyOf({ timeline, message_id });
    if (this.#written.has(key)) throw new TidelineError("message_id_conflict", "a message with this ID is being written", { code: 409 });
    if (this.#written.size >= ANSWERS_MAX) {
      throw new TidelineError("too_many", `more than ${ANSWERS_MAX} messages are being written`, { code: 413, limit: ANSWERS_MAX });
    }
    const answer = new Answer(this.#client, timeline, message_id, () => this.#written.delete(key));
    this.#written.set(key, answer);
    const open = column === undefined && idle_ms === undefined ? true : { column, idle_ms };
    const is_known = options.message_id !== undefined;
    ready.then(() => answer.begin(entry, { ...rest, message_id, open }, is_known, this.#left.get(key)), () => {});
    return answer;
  }

  /** A new connection is there. */
  resume() {
    for (const answer of this.#all) answer.resume();
  }

  stop(error) {
    for (const answer of this.#all) answer.stop(error);
  }

  /** A subscription has got the end of a message. */
  closed(timeline, message) {
    for (const answer of this.#all) if (answer.timeline === timeline) answer.closed(message);
  }

  get #all() {
    return [...this.#left.values(), ...this.#written.values()];
  }
}
