// How a message looks: a row's cells, its entry, and what stands in the place of one that is gone.
//
// Owns: that look, for all screens that show messages. Promises: what a sender wrote is text, and what hides is seen.
// Must not: know where the message comes from.

import { h } from "../dom.js";
import { line, lines } from "../entry.js";
import { bytes, clock, count, day, lasts, many, thousandths, visible, when } from "../format.js";

const CLASS = { name: "name", number: "num", bytes: "bin" };

/** One line of an entry. */
export function inline(entry) {
  const shown = [];
  for (const [kind, text] of line(entry)) {
    if (kind === "name") shown.push(h("span", { class: "kv" }, h("i", {}, text)));
    else shown.at(-1).append(kind === "text" ? text : h("span", { class: CLASS[kind] }, text));
  }
  return shown;
}

/** The whole entry; what is cut is said below. */
export function block(entry) {
  const { tokens, cut } = lines(entry);
  const shown = tokens.map(([kind, text]) => (CLASS[kind] ? h("span", { class: CLASS[kind] }, text) : text));
  return [
    h("pre", { class: "json", tabindex: "0", "aria-label": "Entry" }, shown),
    cut > 0 && h("p", { class: "foot" }, `${count(cut)} more characters are not shown. Copy JSON has them.`),
  ];
}

/** Why there is no entry. */
export function gone({ recalled_by, reason, expired, hidden }) {
  if (hidden) return "Hidden by this user";
  if (expired) return "Expired";
  const by = recalled_by ? `Recalled by ${visible(recalled_by)}` : recalled_by === undefined ? "Deleted" : "Recalled";
  return reason ? `${by}: ${visible(reason)}` : by;
}

function stamp(at) {
  const date = day(at);
  const short = { today: clock(at) }[date] ?? (date.length > 6 ? date : when(at)); // of another year only the day
  return h("time", { title: `${date} ${clock(at)}${thousandths(at)}` }, short, date === "today" && h("i", {}, thousandths(at)));
}

/** Sequence, time, sender, entry, marks. */
export function cells(message, ...marks) {
  const { sequence, timestamp, sender, entry, edited_at, pinned, deleted, open, parts } = message;
  return [
    h("span", { class: "seq" }, count(sequence)),
    stamp(timestamp),
    h("span", { class: "from" }, visible(sender ?? "")),
    h("span", { class: "entry" }, entry ? inline(entry) : h("span", { class: "gone" }, gone(message))),
    h("span", { class: "marks" }, open && h("span", { class: "badge new" }, `open · ${count(parts)}`), ended(message), pinned && badge("pinned"), edited_at && !deleted && badge("edited"), marks),
  ];
}

/** The mark of one that did not come to its end by itself. */
const ended = ({ outcome, abandoned }) => outcome && outcome !== "done" && badge(outcome === "cancelled" ? "stopped" : abandoned ? "abandoned" : "failed");

/** How a message grows or has grown, in words; null if it was never open. */
export function growth({ open, parts, outcome, abandoned, stopped_by, reason }) {
  if (!open && !outcome) return null;
  const grown = `${many(parts ?? 0, "part")}${open?.column ? ` of ${visible(open.column)}` : ""}`;
  if (open) return `open · ${grown}`;
  if (abandoned) return `closed, because no part came · ${grown}`;
  if (outcome !== "cancelled") return `closed as ${outcome} · ${grown}`;
  return `stopped${stopped_by ? ` by ${visible(stopped_by)}` : ""}${reason ? `: ${visible(reason)}` : ""} · ${grown}`;
}

/** How far it was received and read: shares from 0 to 1. */
export const track = (received, read) =>
  h("span", { class: "track" }, [["got", received], [null, read]].map(([kind, share]) => h("i", { class: kind, style: { width: `${Math.min(share, 1) * 100}%` } })));

/** The command line that calls a method. */
export const command = (method, params) =>
  visible(`tideline call --url ${location.origin} ${method} \\\n  '${JSON.stringify(params).replaceAll("'", "'\\''")}'`, { lines: true });

export const chip = (text) => h("span", { class: "chip" }, text);
export const badge = (text) => h("span", { class: "badge" }, text);

/** What a retention keeps, in words. */
export const kept = ({ age_ms, messages, bytes: size }) =>
  [age_ms && lasts(age_ms), messages && `newest ${count(messages)}`, size && bytes(size)].filter(Boolean).join(", ") || "for ever";

/** What is said of an error in one word or line. */
export const reasonOf = (error) => visible(error.reason ?? error.message);

/** Into the clipboard; where the browser refuses that, what to copy is shown. */
export async function copy(text, show) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    await show({ title: "Copy this", body: h("textarea", { rows: 12, readonly: true, value: text, "aria-label": "What to copy" }) });
    return false;
  }
}
