// The events of a subscription on their way to the app.
//
// Owns: the events that the app has not got yet, and the oldest message that it has got. Promises: events wait for the
// first listener; each is given once, in order; after `close` none is, also not the rest of a frame. What is left then
// and comes of the store's content is for the next subscription. Parts of a message that wait are one event. Must not:
// know what the app does with it.

import { TidelineError } from "./errors.js";
import { Events } from "./events.js";
import { Growths } from "./growing.js";

/** These come of the store's content; the others are of the moment. */
const STORED = new Set(["message", "changed", "extended", "older", "reset", "too_old"]);

export class Told extends Events {
  #waiting = [];
  #next = 0; // of those that wait
  #kept; // whether events wait before there is a listener
  #state = "new"; // "listened" from the first listener on, "closed"
  #telling = false;
  #emptied;
  #extended = new Map(); // sequence → its event that waits, if no other one of it came since
  #growths = new Growths();
  /** The sequence of the oldest message that the app was told of this history; null = of none. */
  shown = null;

  /** `emptied` is called when all that waited has been told. */
  constructor(is_kept, emptied) {
    super();
    this.#kept = is_kept;
    this.#emptied = emptied;
  }

  /** How many wait. */
  get size() {
    return this.#waiting.length - this.#next;
  }

  /** What was to be told when it was closed, and has come since. */
  get left() {
    return this.#state === "closed" ? this.#waiting.slice(this.#next).filter(([event]) => STORED.has(event)) : [];
  }

  on(event, listener) {
    const off = super.on(event, listener);
    if (this.#state === "new") {
      this.#state = "listened";
      this.#kept = this.#telling = true;
      // In a turn of its own, so that listeners that are added together hear all.
      queueMicrotask(() => this.#tell());
    }
    return off;
  }

  emit(event, detail) {
    if (event === "older") this.shown = detail.messages[0].sequence;
    else if (event === "message") this.shown ??= detail.sequence;
    else if (event === "reset" || event === "too_old") this.shown = null;
    if (!this.#kept) return;
    if (!this.#joins(event, detail)) this.#waiting.push([event, detail]);
    if (this.#state === "listened" && !this.#telling) this.#tell();
  }

  /** Whether it went into an event that waits. */
  #joins(event, detail) {
    if (event !== "extended") {
      if (STORED.has(event)) this.#extended.clear();
      return false;
    }
    const { sequence } = detail.message;
    const waits = this.#extended.get(sequence);
    if (waits) Object.assign(waits, detail, { from: waits.from, text: waits.text + detail.text });
    else this.#extended.set(sequence, detail);
    return waits !== undefined;
  }

  #tell() {
    this.#telling = true;
    while (this.#state === "listened" && this.size > 0) {
      const [event, detail] = this.#waiting[this.#next++];
      if (event === "extended") this.#extended.delete(detail.message.sequence);
      super.emit(event, this.#growths.told(event, detail));
    }
    this.#telling = false;
    if (this.#state === "closed") return;
    [this.#waiting, this.#next] = [[], 0];
    this.#emptied();
  }

  close() {
    this.#state = "closed";
    this.#growths.end(new TidelineError("closed", "the subscription was closed"));
  }
}
