// One timeline, followed: the client's loop of the protocol.
//
// Owns: the place of a timeline, what is applied and in which order, and when to subscribe again. Promises: a message
// is applied if its sequence is the next one, and a change if its number is above that of the copy; the place moves with
// the messages, in one write of the store; the app hears of each only after that, once, in order. A frame that the
// protocol rules out is not applied at all. Must not: know sockets or other timelines.
//
// What came is checked when it comes, against `#at` (the place of all that came). Then it waits in `#steps` until the
// store has taken what came before. Where more waits than `WAITING_MAX`, for the store or for the app, the server keeps the
// rest until there is room.

import { Breach, TidelineError } from "./errors.js";
import { Open } from "./growing.js";
import { Older } from "./older.js";
import { Steps } from "./steps.js";
import { Told } from "./told.js";
import { check, checkedMessages, checkedReactions, decode, decodeMessage, isCount, isNewer, newest } from "./values.js";

const WAITING_MAX = 10_000;
/** Among so many of the newest stored messages those are looked for that are open. */
const LOOKED_AT = 1_000;

export class Subscription {
  #client; // {connection, store, failed(error), gone(subscription)}
  #options;
  #at = null; // {epoch, floor, first, after, changes}
  #open = new Open(); // the open messages at `#at`
  #restored = false; // the store has said what it has
  #asking = false; // a subscribe is not answered yet
  #live = false; // between a subscribe's answer and its end
  #full = false; // not subscribed until there is room
  #closed = false;
  #steps;
  #told;
  #older;
  #gathered = null; // {fresh, place} or {growth, message} of the last step, as long as more can be put to it
  #waiting = 0; // frames that came and are not stored
  #resets = 0; // without a message in between
  #timer = null;
  #answer = null; // of the app's `subscribe`

  constructor(timeline, options, client) {
    this.timeline = timeline;
    this.head = 0;
    this.#options = options;
    this.#client = client;
    this.#steps = new Steps((error) => this.#failed(error));
    this.#told = new Told(options.listen !== false, () => this.#room());
    const range = {
      place: () => (this.#live ? this.#at : null),
      extend: (messages) => this.#extend(messages),
      later: (step) => this.#later(step),
    };
    this.#older = new Older(timeline, client, range, this.#told);
  }

  /** Up to where messages are stored or on their way there. */
  get position() {
    return this.#at?.after ?? 0;
  }

  /** Calls `listener` at each such event. All wait for the first listener, so none is missed after an `await`. */
  on(event, listener) {
    return this.#told.on(event, listener);
  }

  append(entry, options) {
    return this.#client.append(this.timeline, entry, options);
  }

  /** A message that is written while others read it; see `Client.open`. */
  open(entry, options) {
    return this.#client.open(this.timeline, entry, options);
  }

  /** Stored messages, oldest first: `{from, to, limit, newest}`. */
  messages(range) {
    return this.#client.messages(this.timeline, range);
  }

  call(method, params, options) {
    return this.#client.call(method, { timeline: this.timeline, ...params }, options);
  }

  /**
   * Has up to `count` messages come as the event `older`: those before the oldest that the app was told here, from the
   * store, else from the server. Resolves with how many; 0 = there are none.
   */
  async older(count = 100) {
    if (!isCount(count) || count === 0) throw new TidelineError("invalid_params", "count: a number from 1", { field: "count" });
    if (this.#closed) throw new TidelineError("closed", "the subscription was closed");
    return this.#older.want(count);
  }

  /** Ends the subscription; what is stored stays. No event comes any more. */
  async close(why = new TidelineError("closed", "the subscription was closed")) {
    this.#told.close();
    if (this.#closed) return;
    const asked = this.#live || this.#asking;
    this.#steps.drop();
    this.#end(why);
    const { connection } = this.#client;
    if (asked && connection.isOpen) await connection.call("unsubscribe", { timeline: this.timeline }).catch(() => {});
  }

  /** Resolves when nothing is written to the store any more, with the events that were stored and not told. */
  async left() {
    await this.#steps.done();
    return this.#told.left;
  }

  /** From the store to the first answer; begins when `earlier`, the timeline's subscription before, has left. */
  start(earlier) {
    return new Promise((resolve, reject) => {
      this.#answer = { resolve, reject };
      this.#steps.add(() => this.#restore(earlier).catch((error) => this.#over(error)));
    });
  }

  async #restore(earlier) {
    const left = (await earlier?.left()) ?? [];
    const { store, connection } = this.#client;
    const place = await store.place(this.timeline);
    const { replay } = this.#options;
    if (replay && place && !this.#closed) {
      const limit = replay === true ? Infinity : replay;
      for (const message of await store.range(this.timeline, { limit, newest: true })) {
        this.#told.emit("message", decodeMessage(message));
      }
    } else {
      for (const [event, detail] of left) this.#told.emit(event, detail);
    }
    if (this.#closed) return;
    if (place && this.#wantsParts) this.#open.take(await store.range(this.timeline, { limit: LOOKED_AT, newest: true }), place.first);
    this.#at = place;
    this.#restored = true;
    this.#ask();
    if (connection.isAway) this.away();
  }

  get #wantsParts() {
    return this.#options.with?.includes("parts") === true;
  }

  /** There is no server to ask: what the store has is there, and the rest comes when there is. */
  away() {
    if (!this.#restored) return;
    this.#answer?.resolve(this);
    this.#answer = null;
  }

  /** A new connection is there. */
  resume() {
    this.lost();
    if (this.#steps.isBusy) this.#later(() => this.#ask());
    else this.#ask();
  }

  /** The connection is gone. */
  lost() {
    this.#live = this.#asking = false;
    this.#older.lost();
    clearTimeout(this.#timer);
  }

  #ask() {
    const { connection } = this.#client;
    if (!this.#restored || this.#closed || this.#live || this.#asking || !connection.isOpen) return;
    this.#full = this.#isFull;
    if (this.#full) return;
    this.#asking = true;
    const { rewind, create, with: wanted, window_ms } = this.#options;
    const asked = this.#at;
    const from = asked
      ? { after: asked.after, epoch: asked.epoch, changes_after: asked.changes, open: this.#wantsParts ? this.#open.places : undefined }
      : rewind === undefined
        ? { after: 0, changes_after: 0 }
        : { rewind };
    const params = { timeline: this.timeline, ...from, create, with: wanted, window_ms: window_ms || undefined };
    connection.request("subscribe", params, (error, reply) => {
      if (this.#closed) return;
      this.#asking = false;
      if (error) this.#refused(error);
      else this.#replied(reply, asked);
    });
  }

  get #isFull() {
    return this.#waiting > WAITING_MAX || this.#told.size > WAITING_MAX;
  }

  /** Something that waited is gone. */
  #room() {
    if (!this.#full || this.#waiting > 0 || this.#told.size > 0) return;
    this.#full = false;
    this.#ask();
  }

  #askLater(ms) {
    const { connection } = this.#client;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.resume(), connection.pause(ms));
  }

  #refused(error) {
    if (error.reason === "connection_lost") return;
    if (error.reason === "unauthenticated") return this.#client.connection.unauthenticated();
    if (error.reason === "already_subscribed") return this.#unsubscribe(() => this.#askLater());
    if (error.retry) return this.#askLater(error.data.retry_after_ms);
    if (error.reason === "epoch_changed" && this.#at) return this.#startOver(error.reason);
    this.#over(error);
  }

  /** Not to be taken up again: the app's first `subscribe` is refused, a later one has ended. */
  #over(error) {
    if (!this.#answer) this.#later(() => this.#told.emit("ended", { timeline: this.timeline, reason: error.reason }));
    this.#end(error);
  }

  #end(why) {
    this.lost();
    this.#closed = true;
    this.#older.refuseAll(why);
    this.#answer?.reject(why);
    this.#client.gone(this);
  }

  #unsubscribe(then) {
    this.#live = false;
    this.#client.connection.request("unsubscribe", { timeline: this.timeline }, (error) => {
      if (!this.#closed && error?.reason !== "connection_lost") then();
    });
  }

  /** The answer of a `subscribe` that was sent from the place `asked`. */
  #replied(reply, asked) {
    check(reply, { state: "string" });
    if (reply.state === "epoch_changed") return this.#startOver("epoch_changed");
    if (reply.state !== "ok" && reply.state !== "too_old") {
      return this.#unsubscribe(() => this.#startOver(reply.state));
    }
    check(reply, { epoch: "epoch", floor: "count", head: "count", change_head: "count", more: "boolean" });
    const { epoch, floor, head, change_head, state } = reply;
    const messages = checkedMessages(reply.messages);
    const changed = checkedMessages(reply.changed ?? []);
    if (asked && state === "ok" && epoch !== asked.epoch) throw new Breach("another epoch, and state ok");
    const rewound = !asked && this.#options.rewind !== undefined;
    let after = asked?.after ?? (rewound ? (messages[0]?.sequence ?? head + 1) - 1 : 0);
    if (state === "ok" && (floor > after + 1 || head < after)) throw new Breach(`ok, but not from ${after} on`);
    if (state === "too_old") {
      if (floor <= after + 1) throw new Breach(`too old, but the floor is ${floor}`);
      after = floor - 1;
    }
    const first = asked ? Math.max(asked.first, floor) : after + 1;
    const { fresh, copies, last } = this.#sorted(messages, after);
    if (last > head) throw new Breach("a message above the head");
    this.#known(changed, last);
    const open = this.#open.copy();
    const followed = open.take([...fresh, ...copies, ...changed], first);
    open.drop(first);
    const grown = (reply.grown ?? []).map((growth) => [growth, open.extend(growth)]);
    this.#open = open;
    this.#at = { epoch, floor, first, after: last, changes: Math.max(asked?.changes ?? 0, change_head) };
    this.#live = true;
    this.head = head;
    if (fresh.length) this.#resets = 0;
    const told = state === "too_old" ? [["too_old", { timeline: this.timeline, floor }]] : [];
    this.#apply(fresh, [...copies, ...changed], told, followed, asked?.changes ?? 0);
    for (const [growth, message] of grown) this.#grow(growth, message);
    this.#later(() => {
      this.#answer?.resolve(this);
      this.#answer = null;
      this.#told.emit("live", { timeline: this.timeline });
    });
    this.#older.resume();
  }

  #startOver(reason) {
    this.#live = false;
    this.#older.lost();
    this.head = 0;
    this.#forget(reason);
    this.#resets += 1;
    if (this.#resets > 1) this.#askLater();
    else this.#later(() => this.#ask());
  }

  /** What there was of the epoch that was followed goes, once it is all there. */
  #forget(reason) {
    if (this.#at === null) return;
    const { epoch } = this.#at;
    this.#at = null;
    this.#open = new Open();
    this.#later(async () => {
      await this.#client.store.forget(this.timeline, epoch);
      this.#told.emit("reset", { timeline: this.timeline, reason });
    });
  }

  /** A push of this timeline. Throws a breach if the protocol rules it out. */
  pushed(method, params) {
    if (!this.#live) return;
    if (this.#isFull) return this.#pause();
    if (method === "message") this.#messagePushed(params);
    else if (method === "message.changed" || method === "reaction") this.#changePushed(method, params);
    else if (method === "message.extended") this.#extendedPushed(params);
    else if (method === "subscription.ended") this.#ended(params);
    else this.#later(() => this.#told.emit(method, decode(params)));
  }

  /** The server keeps this frame and what comes behind it. */
  #pause() {
    this.#older.lost();
    this.#unsubscribe(() => {
      this.#full = true;
      this.#room();
    });
  }

  #messagePushed(params) {
    check(params, { epoch: "epoch", head: "count" });
    this.#ofThisEpoch(params);
    const { fresh, copies, last } = this.#sorted(checkedMessages(params.messages), this.#at.after);
    this.#at = { ...this.#at, after: last };
    this.head = Math.max(params.head, last);
    if (fresh.length) this.#resets = 0;
    this.#apply(fresh, copies, [], this.#open.take([...fresh, ...copies], this.#at.first));
  }

  #extendedPushed(params) {
    check(params, { epoch: "epoch" });
    this.#ofThisEpoch(params);
    this.#grow(params, this.#open.extend(params));
  }

  #changePushed(method, params) {
    check(params, { epoch: "epoch", change_head: "count" });
    this.#ofThisEpoch(params);
    const messages = method === "reaction" ? checkedReactions(params.messages) : checkedMessages(params.messages);
    this.#known(messages, this.#at.after);
    const { changes } = this.#at;
    this.#at = { ...this.#at, changes: Math.max(changes, params.change_head) };
    this.#apply([], messages, [], this.#open.take(messages, this.#at.first), changes);
  }

  #ofThisEpoch({ epoch }) {
    if (epoch !== this.#at.epoch) throw new Breach(`a push of epoch ${epoch}`);
  }

  /** Messages by what they are to a reader at `last`: the next ones, or copies of what it has. */
  #sorted(messages, last) {
    const [fresh, copies] = [[], []];
    for (const message of messages) {
      if (message.sequence > last + 1) throw new Breach(`a gap: ${message.sequence} after ${last}`);
      if (message.sequence > last) last = fresh.push(message) && message.sequence;
      else copies.push(message);
    }
    return { fresh, copies, last };
  }

  #known(changed, last) {
    for (const { sequence } of changed) if (sequence > last) throw new Breach(`a change of ${sequence}, above ${last}`);
  }

  #ended(params) {
    check(params, { reason: "string", resubscribe: "boolean" });
    const { reason, resubscribe } = params;
    this.#live = false;
    if (reason === "deleted" || reason === "epoch_changed") {
      if (resubscribe) return this.#startOver(reason);
      this.#forget(reason);
    }
    if (!resubscribe) return this.#over(new TidelineError(reason, "the subscription ended"));
    if (reason === "too_old") this.resume();
    else this.#askLater();
  }

  /**
   * Stores messages and the place as they are now, then tells the app; `followed` are those that were open here, and
   * `before` was the change position before they came.
   */
  #apply(fresh, changed, told, followed, before = this.#at.changes) {
    this.#waiting += 1;
    for (const message of followed) if (!message.open) this.#client.closed(this.timeline, message);
    this.#older.changed(changed);
    const last = this.#gathered;
    if (last?.fresh && !changed.length && !told.length) {
      for (const message of fresh) last.fresh.push(message);
      last.place = this.#at;
      last.frames += 1;
      return;
    }
    const batch = { fresh, place: this.#at, frames: 1 };
    this.#later(() => this.#store(batch, changed, told, followed, before), changed.length ? null : batch);
  }

  async #store(batch, changed, told, followed, before) {
    if (this.#gathered === batch) this.#gathered = null;
    const { fresh, place } = batch;
    const newer = changed.length ? await this.#newer(changed, fresh, followed, before) : [];
    await this.#client.store.apply(this.timeline, place, newer.length ? [...fresh, ...newer] : fresh);
    this.#waiting -= batch.frames;
    for (const [event, detail] of told) this.#told.emit(event, detail);
    for (const message of fresh) this.#told.emit("message", decodeMessage(message));
    for (const message of newer) this.#told.emit("changed", decodeMessage(message));
    if (place.after === this.head && fresh.length) this.#told.emit("caught_up", { timeline: this.timeline, head: this.head });
    this.#room();
  }

  /** A page came below the range. The server tells parts of those that it knows to be open here. */
  #extend(page) {
    this.#at = { ...this.#at, first: page[0].sequence };
    this.#open.take(page, page[0].sequence);
    if (this.#wantsParts && page.some(({ open }) => open)) this.#unsubscribe(() => this.resume());
    return this.#at;
  }

  /** Stores parts that came to a message, then tells the app. Without a message there are none. */
  #grow({ sequence, from, parts, text }, message) {
    if (message === null) return;
    this.#waiting += 1;
    const last = this.#gathered;
    if (last?.growth?.sequence === sequence) {
      Object.assign(last.growth, { parts, text: last.growth.text + text });
      last.message = message;
      last.frames += 1;
      return;
    }
    const batch = { growth: { epoch: this.#at.epoch, sequence, from, parts, text }, message, frames: 1 };
    this.#later(() => this.#storeGrowth(batch), batch);
  }

  async #storeGrowth(batch) {
    if (this.#gathered === batch) this.#gathered = null;
    const { growth, message } = batch;
    const { from, parts, text } = growth;
    await this.#client.store.grow(this.timeline, growth, message);
    this.#waiting -= batch.frames;
    this.#told.emit("extended", { timeline: this.timeline, message: decodeMessage(message), from, parts, text });
    this.#room();
  }

  /**
   * Of `changed` those that are newer than the copies that are stored, merged with them. Another tab may have stored them
   * first, and the app here has not been told: the end of a message that was open here, and what lies between the change
   * position here, `before`, and that of the store.
   */
  async #newer(changed, fresh, followed, before) {
    const were_open = new Set(followed.map(({ sequence }) => sequence));
    const stored = (await this.#client.store.place(this.timeline))?.changes ?? 0;
    const is_untold = ({ sequence, change }) => were_open.has(sequence) || (change > before && change <= stored);
    const copies = new Map(fresh.map((message) => [message.sequence, message]));
    const newer = [];
    for (const message of changed) {
      const copy = copies.get(message.sequence) ?? (await this.#client.store.get(this.timeline, message.sequence));
      if (copy === null || !(isNewer(message, copy) || (is_untold(message) && !isNewer(copy, message)))) continue;
      const merged = newest(copy, message);
      copies.set(message.sequence, merged);
      newer.push(merged);
    }
    return newer;
  }

  /** Does `step` after all that came before it. */
  #later(step, gathered = null) {
    if (this.#closed) return;
    this.#gathered = gathered;
    this.#steps.add(step);
  }

  /** The store failed; its content stays as it was. */
  #failed(error) {
    this.#end(error);
    this.#client.failed(error);
  }
}
