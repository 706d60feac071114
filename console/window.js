// A window over one timeline: at most 2,000 of its messages, in order, and a hole wherever some are left out.
//
// Owns: which messages are at hand, how pages join them, and how the newest are followed: by a subscription, or over 500
// a second by reading the newest 100 four times a second. Promises: between two rows nothing is missing unless a hole
// stands there, saying how many; an edit reaches every row, in each mode, and so does what a message grows by (not while it
// samples); what is below the floor is not shown. Must not: touch the page.

const PAGE = 200;
const KEPT = 2_000;
const NEWEST = 100;
const FLOOD = 500; // messages a second
const CALM = 300;
const OPEN_MAX = 64; // that a sync takes
const TICK_MS = { live: 1_000, sampling: 250, still: 2_000 };

/** The pushes that a window takes. */
export const PUSHES = ["message", "message.changed", "message.extended", "reaction", "subscription.ended"];

/** The first sequence of a row, be it a message or a hole. */
export const first = (row) => row.sequence ?? row.from;
const change = (message) => message.change ?? 0;
const isNewer = (newer, old) => change(newer) > change(old) || (change(newer) === change(old) && newer.open && newer.parts > old.parts);

export class Window {
  rows = []; // messages, and holes {from, to}: `to` is behind the last that is left out
  base = 0; // moves with the first row: falls by what is put before it, rises by what is dropped there
  mode = "still"; // or "live", "sampling"
  over = null; // why there is nothing more to come: "deleted", "epoch_changed", "forbidden" …
  idle = false; // nobody looks: nothing is read
  selected = null; // a message that stays at hand when its row goes
  marks = new Map(); // sequence → "edited" or "recalled", of what was read
  head = 0;
  floor = 1;
  changes = 0;
  epoch;
  #call;
  #told;
  #clock;
  #turn = {}; // what belongs to an older one comes too late
  #timer = null;
  #since = 0; // when the mode began
  #subscribed = false;
  #asking = false;
  #points = []; // {at, head} of the last seconds
  #burst = { since: 0, head: 0 };

  /** `call(method, params)` asks the server, `told()` hears that something changed. */
  constructor(timeline, call, told, clock = { now: () => performance.now(), after: (ms, step) => setTimeout(step, ms), stop: (timer) => clearTimeout(timer) }) {
    this.timeline = timeline;
    this.#call = (method, params) => call(method, { timeline, epoch: this.epoch, ...params });
    this.#told = told;
    this.#clock = clock;
  }

  /** The last sequence that has a row, or would be next to one. */
  get last() {
    const row = this.rows.at(-1);
    return row ? (row.sequence ?? row.to - 1) : this.floor - 1;
  }

  get atHead() {
    return this.last >= this.head;
  }

  get atFloor() {
    return !this.rows.length || first(this.rows[0]) <= this.floor;
  }

  index(sequence) {
    let [low, high] = [0, this.rows.length];
    while (low < high) {
      const mid = (low + high) >> 1;
      if (first(this.rows[mid]) < sequence) low = mid + 1;
      else high = mid;
    }
    return low;
  }

  get(sequence) {
    const row = this.rows[this.index(sequence)];
    if (row?.sequence === sequence) return row;
    return this.selected?.sequence === sequence ? this.selected : null;
  }

  /** Keeps this message at hand, reading it if need be; null = none. */
  async select(sequence) {
    this.selected = sequence === null ? null : this.get(sequence);
    if (sequence === null || this.selected) return this.selected;
    const { message } = await this.#call("message.get", { sequence });
    return (this.selected = message);
  }

  // Jumps: other rows in place of these.

  newest() {
    return this.#jump([{ direction: "backward", limit: PAGE }]);
  }

  oldest() {
    return this.#jump([{ limit: PAGE }]);
  }

  /** Half a page before `sequence`, and half a page from it on. */
  around(sequence) {
    const limit = PAGE / 2;
    return this.#jump([{ direction: "backward", from: sequence, limit }, { from: sequence + 1, limit }]);
  }

  /** The first sequence at or after `time`, found by halves. */
  async seek(time) {
    let [low, high] = [this.floor, this.head];
    while (low < high) {
      const mid = Math.floor((low + high) / 2);
      const { messages } = await this.#call("message.range", { from: mid, limit: 1 });
      if (messages.length && messages[0].timestamp < time) low = messages[0].sequence + 1;
      else high = mid;
    }
    return low;
  }

  async #jump(pages) {
    this.still();
    const turn = (this.#turn = {});
    const replies = await Promise.all(pages.map((page) => this.#call("message.range", page)));
    if (turn !== this.#turn) return;
    this.rows = [];
    this.epoch = replies[0].epoch;
    for (const [at, reply] of replies.entries()) {
      const messages = pages[at].direction ? reply.messages.reverse() : reply.messages;
      this.#put(this.rows.length, 0, messages);
      this.#reach(reply);
    }
    // The selected message was read before: what changed since then is still to come.
    if (!this.selected) this.changes = Math.min(...replies.map((reply) => reply.change_head));
    this.#next();
    this.#told();
  }

  // Pages: rows before, behind and between these.

  async older() {
    if (this.atFloor) return;
    if (this.rows.length + PAGE > KEPT) this.still(); // the newest rows make room
    await this.#page({ direction: "backward", from: first(this.rows[0]) - 1, limit: PAGE }, ({ messages }) => {
      this.#put(0, 0, messages.reverse());
      this.base -= messages.length;
      this.rows.length = Math.min(this.rows.length, KEPT);
    });
  }

  async newer() {
    if (this.atHead || this.mode !== "still") return;
    await this.#page({ from: this.last + 1, limit: PAGE }, ({ messages }) => this.#append(messages));
  }

  /** Opens a hole: its first page. */
  fill(hole) {
    this.still();
    return this.#page({ from: hole.from, to: hole.to, limit: PAGE }, ({ messages, next }) => {
      const at = this.rows.indexOf(hole);
      if (at < 0) return;
      const rest = next < hole.to ? [{ from: next, to: hole.to }] : [];
      this.#put(at, 1, [...messages, ...rest]);
      if (at < KEPT / 2) this.rows.length = Math.min(this.rows.length, KEPT);
      else this.#drop();
    });
  }

  async #page(params, put) {
    const turn = this.#turn;
    const reply = await this.#call("message.range", params).catch((error) => {
      if (turn === this.#turn) this.#failed(error);
      throw error;
    });
    if (turn !== this.#turn) return;
    put(reply);
    this.#reach(reply);
    this.#told();
  }

  // Following.

  /** Shows each message as it comes; from the newest ones, if the rows are far from them. */
  async follow() {
    if (this.over || this.mode !== "still") return;
    if (this.head - this.last > PAGE || !this.rows.length) await this.newest();
    this.#become("live");
    await this.#subscribe();
  }

  /** Leaves the rows as they are. That there is more, and what was edited, is still heard. */
  still() {
    if (this.mode === "still") return;
    this.#unsubscribe();
    this.#become("still");
    this.#told();
  }

  /** A new connection is there: goes on where the last one ended. */
  resume() {
    this.#subscribed = false;
    this.#next(0);
  }

  close() {
    this.#turn = {};
    this.#clock.stop(this.#timer);
    if (this.mode === "live") this.#unsubscribe();
    this.over = "closed";
  }

  async #subscribe() {
    if (this.#asking || this.#subscribed) return;
    this.#asking = true;
    const turn = this.#turn;
    try {
      const reply = await this.#asked({ after: this.last, changes_after: this.changes, create: false, limit: NEWEST, with: ["parts"] });
      this.#subscribed = reply.state === "ok" || reply.state === "too_old";
      if (turn !== this.#turn || this.mode !== "live") return this.#unsubscribe();
      if (!this.#subscribed) return this.#end(reply.state);
      this.#burst = { since: this.#clock.now(), head: reply.head };
      this.#came(reply.messages, reply);
      this.changed(reply.changed ?? [], reply.change_head);
      if (this.head - this.last > KEPT) this.#sample();
    } catch (error) {
      if (turn === this.#turn) this.#failed(error);
    } finally {
      this.#asking = false;
    }
  }

  #asked(params) {
    return this.#call("subscribe", params).catch(async (error) => {
      if (error.reason !== "already_subscribed") throw error;
      await this.#call("unsubscribe", { epoch: undefined });
      return this.#call("subscribe", params);
    });
  }

  #unsubscribe() {
    if (!this.#subscribed) return;
    this.#subscribed = false;
    this.#call("unsubscribe", { epoch: undefined }).catch(() => {}); // the connection's end did it
  }

  /** A push of this timeline. */
  pushed(method, params) {
    if (params.epoch !== undefined && params.epoch !== this.epoch) return;
    if (method === "message" && this.mode === "live") this.#came(params.messages, params);
    else if (method === "message.changed" || method === "reaction") this.changed(params.messages, params.change_head);
    else if (method === "message.extended") this.#grow([params]);
    else if (method === "subscription.ended" && this.#subscribed) {
      this.#subscribed = false;
      if (!params.resubscribe) this.#end(params.reason);
      else if (this.mode === "live") this.#subscribe();
    }
  }

  #came(messages, reach) {
    this.#append(messages);
    this.#reach(reach);
    const now = this.#clock.now();
    if (now - this.#burst.since > 1_000) this.#burst = { since: now, head: this.head };
    else if (this.head - this.#burst.head > FLOOD) this.#sample();
    this.#told();
  }

  #sample() {
    this.#unsubscribe();
    this.#become("sampling");
    this.#next(0);
  }

  #become(mode) {
    this.mode = mode;
    this.#since = this.#clock.now();
    this.#next();
  }

  /** Newer forms of messages: edits, recalls, pins, reactions. */
  changed(messages, change_head = 0) {
    for (const newer of messages) {
      const old = this.get(newer.sequence);
      if (!old || !isNewer(newer, old)) continue;
      const message = "message_id" in newer ? newer : reacted(old, newer);
      this.#replace(message);
      this.#mark(message);
    }
    this.changes = Math.max(this.changes, change_head);
    if (messages.length) this.#told();
  }

  #replace(message) {
    const at = this.index(message.sequence);
    if (this.rows[at]?.sequence === message.sequence) this.rows[at] = message;
    if (this.selected?.sequence === message.sequence) this.selected = message;
  }

  /** Parts of open messages. */
  #grow(all) {
    for (const { sequence, from, parts, text } of all) {
      const old = this.get(sequence);
      if (!old?.open || parts <= old.parts) continue;
      const column = old.open.column ?? "text";
      if (from === old.parts + 1) this.#replace({ ...old, parts, entry: { ...old.entry, [column]: (old.entry[column] ?? "") + text } });
      // The row was read by itself, and is not where the subscription takes it to be.
      else this.#call("message.get", { sequence }).then(({ message }) => this.changed([message]), (error) => this.#failed(error));
    }
    if (all.length) this.#told();
  }

  /** The open messages at hand, and their parts. */
  get #open() {
    const open = [...this.rows, this.selected].filter((row) => row?.open);
    return Object.fromEntries(open.slice(-OPEN_MAX).map(({ sequence, parts }) => [sequence, parts]));
  }

  /** Messages a second, over the last `ms`. */
  rate(ms = 10_000) {
    const [now, points] = [this.#clock.now(), this.#points];
    const then = points.findLast(({ at }) => at <= now - ms) ?? points[0];
    return then && now > then.at ? (this.head - then.head) / Math.max((now - then.at) / 1_000, 1) : 0;
  }

  #next(ms = TICK_MS[this.mode]) {
    this.#clock.stop(this.#timer);
    this.#timer = this.over ? null : this.#clock.after(ms, () => this.#tick());
  }

  async #tick() {
    const [turn, began] = [this.#turn, this.#clock.now()];
    try {
      if (!this.idle) await this.#read(() => turn !== this.#turn);
    } catch (error) {
      if (turn === this.#turn) this.#failed(error);
    }
    if (turn !== this.#turn || this.over) return;
    const now = this.#clock.now();
    if (!this.idle) this.#points.push({ at: now, head: this.head });
    while (this.#points[1]?.at <= now - 10_000) this.#points.shift();
    if (this.mode === "sampling" && now - this.#since > 2_000 && this.rate(2_000) < CALM) this.#become("live");
    this.#next(Math.max(TICK_MS[this.mode] - (now - began), 50));
    this.#told();
  }

  async #read(late) {
    if (this.mode === "live") return this.#subscribe();
    if (this.mode === "still") return this.#changes(late);
    const reply = await this.#call("message.range", { direction: "backward", limit: NEWEST });
    if (late() || this.mode !== "sampling") return;
    this.#append(reply.messages.reverse());
    this.#reach(reply);
    if (reply.change_head > this.changes) await this.#changes(late);
  }

  /** What was edited since, and how far the timeline is, without its messages. */
  async #changes(late) {
    const position = { after: this.head, epoch: this.epoch, changes_after: this.changes, open: this.#open };
    const { timelines } = await this.#call("sync", { timeline: undefined, epoch: undefined, positions: { [this.timeline]: position }, limit: NEWEST });
    const news = timelines[this.timeline];
    if (!news || late()) return;
    if (news.state !== "ok" && news.state !== "too_old") return this.#end(news.state);
    this.#reach(news);
    this.changed(news.changed ?? [], news.change_head);
    this.#grow(news.grown ?? []);
  }

  /** Rows from the newest on; what lies between is a hole. */
  #append(messages) {
    const fresh = messages.filter(({ sequence }) => sequence > this.last);
    if (!fresh.length) return;
    const gap = this.rows.length && fresh[0].sequence > this.last + 1;
    this.#put(this.rows.length, 0, gap ? [{ from: this.last + 1, to: fresh[0].sequence }, ...fresh] : fresh);
    this.#drop();
  }

  #put(at, gone, rows) {
    this.rows.splice(at, gone, ...rows);
    for (const row of rows) if (row.sequence) this.#mark(row);
  }

  #drop(count = this.rows.length - KEPT) {
    if (count <= 0) return;
    this.rows.splice(0, count);
    this.base += count;
  }

  #mark({ sequence, edited_at, deleted }) {
    if (deleted) this.marks.set(sequence, "recalled");
    else if (edited_at) this.marks.set(sequence, "edited");
    if (this.marks.size > KEPT) this.marks.delete(this.marks.keys().next().value);
  }

  #reach({ head, floor = 1 }) {
    this.head = Math.max(this.head, head);
    if (floor <= this.floor) return;
    this.floor = floor;
    this.#drop(this.index(floor));
  }

  #failed(error) {
    if (error.reason === "connection_lost" || error.retry) return; // `resume` or the next tick goes on
    this.#end(error.reason);
  }

  #end(reason) {
    if (this.over) return;
    this.#subscribed = false;
    this.mode = "still";
    this.over = reason;
    this.#clock.stop(this.#timer);
    this.#told();
  }
}

function reacted({ reactions: _, ...message }, { change, reactions }) {
  return Object.keys(reactions).length ? { ...message, change, reactions } : { ...message, change };
}
