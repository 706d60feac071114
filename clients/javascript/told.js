// The events of a subscription on their way to the app.
//
// Owns: the events that the app has not got yet, and the oldest message that it has got. Promises: events wait for the
// first listener; each is given once, in order; after `close` none is, also not the rest of a frame. What is left then
// and comes of the store's content is for the next subscription. Must not: know what the app does with it.

import { Events } from "./events.js";

/** These come of the store's content; the others are of the moment. */
const STORED = new Set(["message", "changed", "older", "reset", "too_old"]);

export class Told extends Events {
  #waiting = [];
  #next = 0; // of those that wait
  #kept; // whether events wait before there is a listener
  #state = "new"; // "listened" from the first listener on, "closed"
  #telling = false;
  #emptied;
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
    this.#waiting.push([event, detail]);
    if (this.#state === "listened" && !this.#telling) this.#tell();
  }

  #tell() {
    this.#telling = true;
    while (this.#state === "listened" && this.size > 0) super.emit(...this.#waiting[this.#next++]);
    this.#telling = false;
    if (this.#state === "closed") return;
    [this.#waiting, this.#next] = [[], 0];
    this.#emptied();
  }

  close() {
    this.#state = "closed";
  }
}
