// Messages of a chat as entries of a timeline, and back.
//
// Owns: their form: `{role, text, parts?, metadata?, reply_to?}`. Promises: the message ID is the same on both sides, so a
// message that is sent again is one. Must not: know how they travel.

/** Asks for another answer to the message `reply_to`. */
export const AGAIN = "again";

/** The entry of a message that a user sends; `parts` only where there is more than text. */
export function entryOf({ role, parts, metadata }) {
  const texts = parts.filter(({ type }) => type === "text");
  const entry = { role, text: texts.map(({ text }) => text).join("") };
  if (texts.length !== 1 || parts.length !== 1) entry.parts = parts;
  if (metadata !== undefined) entry.metadata = metadata;
  return entry;
}

/** A stored message as the AI SDK has it. */
export function uiMessageOf(message) {
  const { role, text = "", parts, metadata } = message.entry;
  const about = role === "assistant" ? { ...metadata, ...endOf(message) } : metadata;
  const shown = { id: message.message_id, role, parts: parts ?? [{ type: "text", text, ...(role === "assistant" && { state: "done" }) }] };
  return about === undefined || !Object.keys(about).length ? shown : { ...shown, metadata: about };
}

/** How an answer ended, if not as usual. */
export function endOf({ outcome, stopped_by, reason }) {
  return outcome === undefined || outcome === "done" ? {} : { outcome, stopped_by, why: reason };
}

const isOfChat = ({ entry }) => ["user", "assistant", "system", AGAIN].includes(entry?.role);

/** What a chat shows of its messages, given in their order: of several answers to one message the newest. */
export function shownOf(messages) {
  const shown = messages.filter((message) => isOfChat(message) && message.entry.role !== AGAIN);
  const newest = new Map(messages.filter(isOfChat).map((message) => [message.entry.reply_to, message]));
  return shown.filter(({ entry, sequence }) => entry.reply_to === undefined || newest.get(entry.reply_to).sequence === sequence);
}
