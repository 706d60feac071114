// The list of the user's conversations, as it is now.
//
// Owns: the newest state of each conversation, and the cursor behind which news are asked for. Promises: what is unread is
// what the server computed, never counted here; after a loss the list goes on from its cursor; what the list had become
// before somebody listened is told to the first listener. Must not: follow messages, which `subscribe` does for each
// conversation that is looked at.

import { Events } from "./events.js";

const PAGE = 1_000;
const WAIT_MS = 30_000;

export class Conversations extends Events {
  #client;
  #connection;
  #known = new Map();
  #cursor;
  #unseen = null; // during a reset: those that have not come again
  #closed = false;
  #is_heard = false;
  #ended = null;

  constructor(client, connection) {
    super();
    this.#client = client;
    this.#connection = connection;
  }

  /** The first listener is told of all that is there already, when the listeners that come with it are in place, too. */
  on(event, listener) {
    const ended = this.#ended;
    if (!this.#is_heard) queueMicrotask(() => this.#tellAll(ended));
    this.#is_heard = true;
    return super.on(event, listener);
  }

  #tellAll(ended) {
    if (this.#closed) return;
    if (this.#known.size) this.emit("changed", { conversations: [...this.#known.values()], removed: [] });
    if (this.#cursor !== undefined && this.#unseen === null) this.emit("live", {});
    if (ended) this.emit("ended", ended);
  }

  /** Pinned ones first, then those with the newest activity; without hidden ones. */
  get list() {
    const pinned = ({ attributes }) => (attributes.pinned === true ? 1 : 0);
    const shown = [...this.#known.values()].filter(({ hidden }) => !hidden);
    return shown.sort((a, b) => pinned(b) - pinned(a) || b.last_at - a.last_at);
  }

  get(timeline) {
    return this.#known.get(timeline) ?? null;
  }

  /** Resolves when all are there, or when there is no server to ask: then they come later. Goes on until `close`. */
  start() {
    return new Promise((resolve, reject) => {
      const off = this.#client.on("state", ({ state }) => state === "waiting" && answer());
      const answer = (error) => {
        off();
        if (error) reject(error);
        else resolve(this);
      };
      this.#follow(answer);
      if (this.#connection.isAway) answer();
    });
  }

  close() {
    this.#closed = true;
  }

  async #follow(answer) {
    for (let done = false; !this.#closed; ) {
      try {
        done = await this.#step(done ? WAIT_MS : 0);
        if (done) answer();
      } catch (error) {
        answer(error);
        if (this.#closed || error.reason === "closed" || error.reason === "stopped") return;
        this.#ended = { reason: error.reason };
        return this.emit("ended", this.#ended);
      }
    }
  }

  /** One answer of the server; whether that was all. */
  async #step(wait_ms) {
    const asked = { cursor: this.#cursor, limit: PAGE, wait_ms: wait_ms || undefined };
    const news = await this.#client.call("conversation.sync", asked).catch((error) => this.#failed(error));
    if (this.#closed || news === null) return false;
    if (news.reset || this.#cursor === undefined) this.#unseen = new Set(this.#known.keys());
    for (const conversation of news.conversations) {
      this.#known.set(conversation.timeline, conversation);
      this.#unseen?.delete(conversation.timeline);
    }
    const removed = [...news.removed, ...((news.done && this.#unseen) || [])];
    for (const timeline of removed) this.#known.delete(timeline);
    const are_all_there = news.done && this.#unseen !== null;
    if (news.done) this.#unseen = null;
    this.#cursor = news.cursor;
    if (news.conversations.length || removed.length) this.emit("changed", { conversations: news.conversations, removed });
    if (are_all_there) this.emit("live", {});
    return news.done;
  }

  async #failed(error) {
    // A cursor that no longer counts: all come again.
    const again = error.reason === "invalid_params" && this.#cursor !== undefined;
    if (!error.retry && !again) throw error;
    if (again) this.#cursor = undefined;
    // The next call waits for a connection by itself.
    if (error.reason !== "connection_lost") {
      await new Promise((resolve) => setTimeout(resolve, this.#connection.pause(error.data.retry_after_ms)));
    }
    return null;
  }
}
