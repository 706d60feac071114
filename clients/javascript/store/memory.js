// The store that forgets with the process, and the model of the others.
//
// A store keeps, per timeline, a place and the messages from `place.first` to `place.after`, without a gap, and the
// outbox. Its interface is what is public here:
//   - place = {epoch, floor, first, after, changes}; messages and outbox items are plain JSON, in the wire's form;
//   - `apply` puts messages (new ones, newer forms of known ones, and a page of older ones where `place.first` is lower than
//     before), drops those below `place.first` and moves the place, all or nothing;
//   - `grow` puts parts, `{epoch, sequence, from, parts, text}`, to a message that is open and has those before them; `message`
//     is what comes of it, for stores to which that is easier to write;
//   - `forget` drops a timeline; with an epoch only if the place is of it, which matters where clients share a store;
//   - each call returns a promise; a write that has resolved survives what the store is for.

import { grown } from "../values.js";

export class MemoryStore {
  #timelines = new Map();
  #outbox = new Map();

  /** Names of the timelines that have a place. */
  async timelines() {
    return [...this.#timelines.keys()];
  }

  async place(timeline) {
    return this.#timelines.get(timeline)?.place ?? null;
  }

  async get(timeline, sequence) {
    const kept = this.#timelines.get(timeline);
    return kept?.messages[sequence - kept.place.first] ?? null;
  }

  /** Messages from `from` up to, without, `to`, oldest first; of more than `limit` the first, or with `newest` the last. */
  async range(timeline, { from = 0, to = Infinity, limit = Infinity, newest = false } = {}) {
    const kept = this.#timelines.get(timeline);
    if (!kept) return [];
    const { first, after } = kept.place;
    let [low, high] = [Math.max(from, first), Math.min(to, after + 1)];
    if (high - low > limit) [low, high] = newest ? [high - limit, high] : [low, low + limit];
    return low < high ? kept.messages.slice(low - first, high - first) : [];
  }

  async apply(timeline, place, messages) {
    let kept = this.#timelines.get(timeline);
    if (!kept) this.#timelines.set(timeline, (kept = { place, messages: [] }));
    const [before, { first }] = [kept.place.first, place];
    if (first > before) kept.messages.splice(0, first - before);
    if (first < before) kept.messages.unshift(...messages.slice(0, before - first));
    kept.place = place;
    for (const message of messages) kept.messages[message.sequence - first] = message;
  }

  async grow(timeline, growth) {
    const { place, messages } = this.#timelines.get(timeline) ?? {};
    const at = growth.sequence - place?.first;
    const copy = messages?.[at];
    if (place?.epoch === growth.epoch && copy?.open && copy.parts + 1 === growth.from) messages[at] = grown(copy, growth);
  }

  async forget(timeline) {
    this.#timelines.delete(timeline);
  }

  /** Unanswered messages `{timeline, message_id, order, params}`, in the order in which they were added. */
  async outbox() {
    return [...this.#outbox.values()];
  }

  async addToOutbox(item) {
    this.#outbox.set(outboxKey(item), item);
  }

  async removeFromOutbox(item) {
    this.#outbox.delete(outboxKey(item));
  }

  async close() {}

  /** The writes that lead from nothing to what is kept now. */
  *writes() {
    for (const [timeline, { place, messages }] of this.#timelines) {
      let at = 0;
      do yield ["apply", timeline, place, messages.slice(at, at + 1_000)];
      while ((at += 1_000) < messages.length);
    }
    for (const item of this.#outbox.values()) yield ["addToOutbox", item];
  }
}

const outboxKey = ({ timeline, message_id }) => JSON.stringify([timeline, message_id]);
