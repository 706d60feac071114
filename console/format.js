// Figures and texts as people read them.
//
// Owns: how numbers, bytes, times and texts look. Promises: a text from outside shows its control and direction
// characters; the same value looks the same everywhere. Must not: make elements.

const WHOLE = new Intl.NumberFormat("en");

/** 48,213; also of a BigInt. */
export const count = (value) => (value === null || value === undefined ? "–" : WHOLE.format(value));

/** [86.4, "k"], [5,214, ""], [0.03, ""]: three digits that count, and the thousands they are of. */
export function short(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return ["–", ""];
  const size = Math.abs(value);
  if (size >= 999_500_000) return [digits(value / 1e9), "G"];
  if (size >= 999_500) return [digits(value / 1e6), "M"];
  if (size >= 9_999.5) return [digits(value / 1e3), "k"];
  if (size >= 999.5) return [count(Math.round(value)), ""];
  return [digits(value), ""];
}

function digits(value) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 99.95 || (Number.isInteger(value) && size < 1000)) return count(Math.round(value));
  if (size >= 0.995) return value.toFixed(1);
  return value.toFixed(2);
}

/** "86.4 k", "5,214". */
export const brief = (value) => short(value).filter(Boolean).join(" ");

/** "18.6 GB": thousands, as disks are sold. */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  let at = 0;
  let size = Number(value);
  while (size >= 999.5 && at < units.length - 1) [size, at] = [size / 1000, at + 1];
  return `${at === 0 || size >= 99.95 ? Math.round(size) : size.toFixed(1)} ${units[at]}`;
}

/** A time that was measured: [2.6, "ms"], [1.2, "s"]. */
export function lasting(ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return ["–", ""];
  if (ms >= 86_400_000) return [digits(ms / 86_400_000), "days"];
  if (ms >= 3_600_000) return [digits(ms / 3_600_000), "h"];
  if (ms >= 60_000) return [digits(ms / 60_000), "min"];
  if (ms >= 999.5) return [digits(ms / 1000), "s"];
  return [digits(ms), "ms"];
}

/** "2.6 ms". */
export const lasts = (ms) => lasting(ms).filter(Boolean).join(" ");

/** "now", "4 s", "9 min", "3 h", "12 days": how long ago. */
export function age(at) {
  const seconds = Math.max(0, Math.floor((Date.now() - at) / 1000));
  if (seconds < 2) return "now";
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

const two = (value) => String(value).padStart(2, "0");

/** "14:31" */
export function minute(at) {
  const date = new Date(at);
  return `${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** "14:31:52" */
export const clock = (at) => `${minute(at)}:${two(new Date(at).getSeconds())}`;

/** ".118" */
export const thousandths = (at) => `.${String(new Date(at).getMilliseconds()).padStart(3, "0")}`;

/** "today", "12 Mar", "12 Mar 2024" */
export function day(at) {
  const [date, today] = [new Date(at), new Date()];
  if (date.toDateString() === today.toDateString()) return "today";
  const named = date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return date.getFullYear() === today.getFullYear() ? named : `${named} ${date.getFullYear()}`;
}

/** "14:31:52" of today, "12 Mar 14:31" of another day. */
export const when = (at) => (day(at) === "today" ? clock(at) : `${day(at)} ${minute(at)}`);

/** "1 message", "3 messages" */
export const many = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 || number === 1n ? one : more}`;

// C0, C1, soft hyphen, direction and zero-width characters, variation of lines, byte order mark, halves of a pair.
const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const NAMED = { "\n": "⏎", "\t": "⇥" };

/** A text in which nothing hides: control, direction and zero-width characters become ‹U+202E›; line ends ⏎. With
 *  `lines` true, line ends and tabs stay. */
export const visible = (text, { lines = false } = {}) =>
  String(text).replace(HIDDEN, (hidden) => {
    if (NAMED[hidden]) return lines ? hidden : NAMED[hidden];
    return `‹U+${hidden.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}›`;
  });

/** A line of the server's log as one text: the message, then its fields. */
export const lineText = ({ message, fields }) =>
  visible([message, ...Object.entries(fields ?? {}).map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)].join("  "));
