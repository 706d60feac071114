// The pages below a subscription's range.
//
// Owns: what the app has asked for by `older`, and the one page that is on its way. Promises: one after the other; a page
// continues the range downwards without a gap, and what has changed while it was on its way is laid on it, so that it is as
// new as the range. A page that the protocol rules out is a breach. Must not: subscribe. Where a page has open messages the
// range is followed anew, so that their parts come.

import { Breach } from "./errors.js";
import { check, checkedMessages, decodeMessage, isNewer, newest } from "./values.js";

export class Older {
  #timeline;
  #client; // {connection, store}
  #range; // {place(): where the subscription is, if it is live, extend(messages): the place from then on, later(step)}
  #told;
  #wanted = []; // {count, resolve, reject}
  #page = null; // {first, below} while one is on its way

  constructor(timeline, client, range, told) {
    this.#timeline = timeline;
    this.#client = client;
    this.#range = range;
    this.#told = told;
  }

  /** Resolves with how many came. */
  want(count) {
    return new Promise((resolve, reject) => {
      this.#wanted.push({ count, resolve, reject });
      this.resume();
    });
  }

  /** Goes on with what is wanted, behind all that came: where there is no subscription, it is tried again when there is. */
  resume() {
    if (this.#wanted.length) this.#range.later(() => this.#fromStore());
  }

  /** The subscription, its connection or its history is gone: a page that is on its way does not count any more. */
  lost() {
    this.#page = null;
  }

  /** Changes came. Those below the range may belong to the page. */
  changed(messages) {
    if (this.#page === null) return;
    const { first, below } = this.#page;
    for (const message of messages) if (message.sequence < first) below.push(message);
  }

  refuseAll(error) {
    for (const { reject } of this.#wanted.splice(0)) reject(error);
  }

  async #fromStore() {
    if (!this.#wanted.length || this.#page !== null) return;
    const range = { to: this.#told.shown ?? Infinity, limit: this.#wanted[0].count, newest: true };
    const stored = await this.#client.store.range(this.#timeline, range);
    if (stored.length) this.#came(stored);
    else this.#fromServer();
  }

  #fromServer() {
    const { connection } = this.#client;
    const place = this.#range.place();
    if (!this.#wanted.length || place === null || !connection.isOpen) return;
    const { epoch, first } = place;
    if (first <= 1) return this.#came([]);
    const page = (this.#page = { first, below: [] });
    const params = { timeline: this.#timeline, from: first - 1, direction: "backward", limit: this.#wanted[0].count, epoch };
    connection.request("message.range", params, (error, reply) => {
      if (this.#page !== page) return;
      this.#page = null;
      if (error) this.#refused(error);
      // Meanwhile the server may have trimmed more, or ended the subscription.
      else if (this.#range.place()?.first !== first) this.resume();
      else this.#replied(checkedPage(page, epoch, reply));
    });
  }

  #refused(error) {
    const { connection } = this.#client;
    if (error.reason === "connection_lost" || error.reason === "epoch_changed") return; // a subscription follows
    if (error.reason === "unauthenticated") return connection.unauthenticated();
    if (error.retry) return setTimeout(() => this.resume(), connection.pause(error.data.retry_after_ms));
    this.#wanted.shift()?.reject(error);
    this.resume();
  }

  #replied(messages) {
    if (!messages.length) return this.#range.later(() => this.#came([]));
    const place = this.#range.extend(messages);
    this.#range.later(async () => {
      await this.#client.store.apply(this.#timeline, place, messages);
      this.#came(messages);
    });
  }

  #came(messages) {
    if (messages.length) this.#told.emit("older", { timeline: this.#timeline, messages: messages.map(decodeMessage) });
    this.#wanted.shift()?.resolve(messages.length);
    this.resume();
  }
}

/** The messages of a page below `first`, oldest first, with what changed meanwhile. */
function checkedPage({ first, below }, epoch, reply) {
  check(reply, { epoch: "epoch", floor: "count" });
  const messages = checkedMessages(reply.messages);
  if (reply.epoch !== epoch) throw new Breach(`a page of epoch ${reply.epoch}`);
  let next = first;
  for (const { sequence } of messages) if (sequence !== --next) throw new Breach(`a page with ${sequence} in place of ${next}`);
  if (!messages.length && reply.floor < first) throw new Breach(`nothing below ${first}, but the floor is ${reply.floor}`);
  const copies = new Map(messages.reverse().map((message) => [message.sequence, message]));
  for (const change of below) {
    const copy = copies.get(change.sequence);
    if (copy && isNewer(change, copy)) copies.set(change.sequence, newest(copy, change));
  }
  return [...copies.values()];
}
