// Answers a chat, on a back end.
//
// Owns: which messages of a timeline have no answer yet. Promises: each is answered by one message, whose ID follows from
// the one that it answers, so that a back end which is killed goes on with it; a stop ends the model. Must not: know a model.

import { AGAIN, shownOf, uiMessageOf } from "./entries.js";

/** How many messages of a chat the model is given. */
const LOADED = 500;
/** Nobody looks at what is pushed here: of parts it needs to know where an answer is that an earlier run has begun. */
const WINDOW_MS = 1_000;

/**
 * Answers what users write in a timeline, until `close` of what it resolves with. `model({messages, signal, text})` gives the
 * texts of an answer, one after the other; `messages` are those of the AI SDK, and `text` is what an earlier run has
 * written of this answer: it goes on behind it. `entry` is more of the answer's entry.
 */
export async function answerChat(client, timeline, model, { entry = {}, failed = () => {} } = {}) {
  const messages = new Map();
  const asked = []; // messages that are to be answered, one after the other
  const followed = await client.subscribe(timeline, { rewind: LOADED, replay: LOADED, with: ["parts"], window_ms: WINDOW_MS });
  let answering = null;
  const put = (message) => {
    const is_new = !messages.has(message.sequence);
    messages.set(message.sequence, message);
    if (!is_new || !["user", AGAIN].includes(message.entry?.role)) return;
    asked.push(message);
    answering ??= next();
  };
  async function next() {
    // Answers that are there already come in the same turns.
    await new Promise((resolve) => setTimeout(resolve));
    for (let question; (question = asked.shift()); ) await answer(question).catch(failed);
    answering = null;
  }
  async function answer(question) {
    const { message_id } = question;
    const id = `${message_id}.re`;
    const known = [...messages.values()].find((message) => message.message_id === id);
    if (known && !known.open) return;
    const reply_to = question.entry.role === AGAIN ? question.entry.reply_to : message_id;
    const writing = client.open(timeline, { role: "assistant", reply_to, ...entry }, { message_id: id });
    try {
      const { text } = await writing.opened;
      const before = [...messages.values()].filter(({ sequence, open }) => sequence <= question.sequence && !open);
      const shown = shownOf(before.sort((a, b) => a.sequence - b.sequence)).map(uiMessageOf);
      for await (const part of model({ messages: shown, signal: writing.signal, text })) await writing.write(part);
      await writing.finish();
    } catch (error) {
      // Stopped, or the client ends: then the next run goes on.
      if (writing.signal.aborted) return;
      await writing.finish({ outcome: "failed" }).catch(() => {});
      throw error;
    }
  }
  followed.on("message", put);
  followed.on("changed", put);
  const forget = (floor) => {
    for (const sequence of messages.keys()) if (sequence < floor) messages.delete(sequence);
    asked.splice(0, Infinity, ...asked.filter(({ sequence }) => sequence >= floor));
  };
  followed.on("reset", () => forget(Infinity));
  followed.on("too_old", ({ floor }) => forget(floor));
  return followed;
}
