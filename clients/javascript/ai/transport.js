// A transport of the AI SDK's chats (`useChat`, `Chat`) over timelines.
//
// Owns: which messages each chat has, and the streams of answers. Promises: an answer is whole, once, in order, wherever
// its reading begins; a page that goes or stops listening ends nothing for others. Must not: ask a model, which
// `answerChat` does on a back end.

import { AGAIN, endOf, entryOf, shownOf, uiMessageOf } from "./entries.js";

/** How many messages of a chat are loaded. */
const LOADED = 500;
/** Letters of an answer that come within it are drawn together: three frames of a screen, and a fifth of the bytes. */
const WINDOW_MS = 50;
/** How often it is looked whether a chat has come to rest, ms. */
const LOOKS_MS = 20;

export class TidelineChatTransport {
  resumeStreamIsReplay = true;
  #client;
  #name;
  #window_ms;
  #off = null;
  #chats = new Map(); // ID → promise of a Conversation

  /**
   * `client` is a `Client` of `tideline`; `timeline` says which timeline a chat is (`chat/ID` if it does not). What comes of an
   * answer within `window_ms` (50 if it is not given, up to 1,000; 0 = nothing waits) comes together.
   */
  constructor({ client, timeline = (chatId) => `chat/${chatId}`, window_ms = WINDOW_MS }) {
    this.#client = client;
    this.#name = timeline;
    this.#window_ms = window_ms;
  }

  /** The messages of a chat up to now, for `messages` of `Chat` or `useChat`; one that is being answered comes by `resumeStream`. */
  async messages(chatId) {
    return (await this.#conversation(chatId)).list();
  }

  async sendMessages({ trigger, chatId, messages, abortSignal }) {
    const conversation = await this.#conversation(chatId);
    const asked = messages.findLast(({ role }) => role === "user");
    if (!asked) throw new TypeError("a chat without a message of the user has nothing to send");
    const again = trigger === "regenerate-message";
    const entry = again ? { role: AGAIN, text: "", reply_to: asked.id } : entryOf(asked);
    const { sequence } = await conversation.timeline.append(entry, again ? {} : { message_id: asked.id });
    const holds = (message) => message.sequence > sequence && message.entry?.role === "assistant" && message.entry.reply_to === asked.id;
    return conversation.stream(holds, abortSignal);
  }

  async reconnectToStream({ chatId, abortSignal }) {
    const conversation = await this.#conversation(chatId);
    const open = conversation.open;
    return open ? conversation.stream(({ sequence }) => sequence === open.message.sequence, abortSignal) : null;
  }

  /** Stops the answer that is being written, for all who look on. Resolves when it is stopped, or if there is none. */
  async stop(chatId, reason) {
    const conversation = await this.#conversation(chatId);
    const open = conversation.open?.message;
    if (open) await conversation.timeline.call("message.stop", { sequence: open.sequence, reason });
  }

  /**
   * Keeps a `Chat` (of `@ai-sdk/react`, or any `AbstractChat`) as its timeline is: what is sent and answered on other tabs and
   * devices comes here too. Returns what ends that.
   */
  follow(chat) {
    let ends = () => {};
    let is_over = false;
    this.#conversation(chat.id).then((conversation) => {
      if (!is_over) ends = conversation.follow(chat);
    }, () => {});
    return () => {
      is_over = true;
      ends();
    };
  }

  /** Ends the subscriptions; the client goes on. */
  close() {
    this.#off?.();
    this.#off = null;
    this.#end("closed");
    for (const conversation of this.#chats.values()) conversation.then(({ timeline }) => timeline.close(), () => {});
    this.#chats.clear();
  }

  #end(reason) {
    for (const conversation of this.#chats.values()) conversation.then((one) => one.end(reason), () => {});
  }

  #conversation(chatId) {
    this.#off ??= this.#client.on("state", ({ state }) => ["stopped", "closed"].includes(state) && this.#end(state));
    let conversation = this.#chats.get(chatId);
    if (!conversation) {
      conversation = Conversation.of(this.#client, this.#name(chatId), this.#window_ms);
      this.#chats.set(chatId, conversation);
      const forget = () => this.#chats.delete(chatId);
      conversation.then(({ timeline }) => timeline.on("ended", forget), forget);
    }
    return conversation;
  }
}

/** The messages of one chat, as they are now. */
class Conversation {
  timeline;
  #messages = new Map(); // sequence → {message, growing}, the message as it was told last, and as it was told when it was open
  #listeners = new Set();
  #left = new WeakSet(); // answers (`growing`) that somebody here has stopped listening to,
  #given_up = new Set(); // and what holds for those that had not begun then
  #over = null; // the error, when nothing comes any more

  static async of(client, name, window_ms) {
    const conversation = new Conversation();
    conversation.timeline = await client.subscribe(name, { rewind: LOADED, replay: LOADED, with: ["parts"], window_ms });
    conversation.#listen();
    // What has come is told in the turns that follow the first listener.
    await new Promise((resolve) => setTimeout(resolve));
    return conversation;
  }

  #listen() {
    const { timeline } = this;
    const put = (message) => {
      const growing = this.#messages.get(message.sequence)?.growing ?? (message.open ? message : null);
      this.#messages.set(message.sequence, { message, growing });
      for (const holds of this.#given_up) if (holds(message)) this.#leave({ growing }, holds);
      this.#tell();
    };
    timeline.on("message", put);
    timeline.on("changed", put);
    timeline.on("reset", ({ reason }) => {
      this.#messages.clear();
      this.#given_up.clear();
      this.#tell(endError(reason));
    });
    timeline.on("too_old", ({ floor }) => {
      for (const sequence of this.#messages.keys()) if (sequence < floor) this.#messages.delete(sequence);
      this.#tell();
    });
    timeline.on("ended", ({ reason }) => this.end(reason));
  }

  /** Nothing comes any more. */
  end(reason) {
    this.#over ??= endError(reason);
    this.#tell(this.#over);
  }

  #tell(error) {
    for (const listener of [...this.#listeners]) listener(error);
  }

  #on(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get #shown() {
    const sorted = [...this.#messages.values()].sort((a, b) => a.message.sequence - b.message.sequence);
    const shown = new Set(shownOf(sorted.map(({ message }) => message)));
    return sorted.filter(({ message }) => shown.has(message));
  }

  /** What is whole. */
  list() {
    return this.#shown.filter(({ message }) => !message.open).map(({ message }) => uiMessageOf(message));
  }

  /** The answer that is being written. */
  get open() {
    return this.#shown.findLast(({ message }) => message.open && message.entry.role === "assistant") ?? null;
  }

  #find(holds) {
    return this.#shown.find(({ message }) => holds(message));
  }

  #answer(holds, abortSignal) {
    return new Promise((resolve, reject) => {
      const look = (error = this.#over) => {
        const found = this.#find(holds);
        if (!found && !error) return;
        off();
        if (found) resolve(found);
        else reject(error);
      };
      const off = this.#on(look);
      abortSignal?.addEventListener("abort", off, { once: true });
      look();
    });
  }

  /** The stream of the first message for which `holds`, also if it is still to come. */
  stream(holds, abortSignal) {
    const left = (one = this.#find(holds)) => (one ? this.#leave(one, holds) : this.#given_up.add(holds));
    return streamOf(() => this.#answer(holds, abortSignal), abortSignal, left);
  }

  #leave({ growing }, holds) {
    if (growing) this.#left.add(growing);
    this.#given_up.delete(holds);
  }

  follow(chat) {
    const begun = new WeakSet(); // answers whose stream this chat has been given
    let timer = null;
    const is_busy = () => chat.status === "submitted" || chat.status === "streaming";
    const look = () => {
      clearTimeout(timer);
      timer = null;
      // A chat that is busy has the answer, and gets all else when it rests.
      if (is_busy()) {
        timer = setTimeout(look, LOOKS_MS);
        return;
      }
      const { open } = this;
      const list = this.list();
      if (!isSame(list, chat.messages, open)) chat.messages = list;
      if (!open || begun.has(open.growing) || this.#left.has(open.growing)) return;
      begun.add(open.growing);
      chat.resumeStream();
      timer = setTimeout(look, LOOKS_MS);
    };
    const off = this.#on(look);
    look();
    return () => {
      clearTimeout(timer);
      off();
    };
  }
}

/** Whether a chat shows these messages; of one that is being written it may show some. */
function isSame(list, messages, open) {
  const shown = open ? messages.filter(({ id }) => id !== open.message.message_id) : messages;
  const texts = (all) => JSON.stringify(all.map(({ id, parts }) => [id, parts.filter(({ type }) => type !== "step-start").map((part) => part.text ?? part)]));
  return texts(list) === texts(shown);
}

const endError = (reason) => Object.assign(new Error(`the chat is not followed any more: ${reason}`), { reason });

/** The stream of an answer, as the AI SDK reads it. `abortSignal` ends the stream, not the answer: `left` is told of it. */
function streamOf(answer, abortSignal, left) {
  let one; // not there before it has begun
  let parts = null;
  return new ReadableStream({
    start(controller) {
      const told = (chunk) => abortSignal?.aborted || controller.enqueue(chunk);
      const abort = () => {
        left(one);
        parts?.return?.();
        controller.close();
      };
      if (abortSignal?.aborted) return abort();
      abortSignal?.addEventListener("abort", abort, { once: true });
      const done = () => abortSignal?.removeEventListener("abort", abort);
      const run = async () => {
        one = await answer();
        parts = one.growing ? one.growing[Symbol.asyncIterator]() : [one.message.entry.text ?? ""].values();
        await tell(one, parts, told);
      };
      const ended = (end) => (error) => {
        done();
        if (!abortSignal?.aborted) end(error);
      };
      run().then(ended(() => controller.close()), ended((error) => controller.error(error)));
    },
    cancel() {
      parts?.return?.();
    },
  });
}

async function tell({ message, growing }, parts, told) {
  told({ type: "start", messageId: message.message_id });
  told({ type: "text-start", id: "text" });
  for (let part; !(part = await parts.next()).done; ) if (part.value) told({ type: "text-delta", id: "text", delta: part.value });
  told({ type: "text-end", id: "text" });
  const messageMetadata = endOf(growing?.newest ?? message);
  told({ type: "finish", ...(Object.keys(messageMetadata).length && { messageMetadata }) });
}
