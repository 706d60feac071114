// The messages of one timeline: the list over the window, following, and jumps.
//
// Owns: what of the window is painted, and where the list stands. Promises: one paint a frame; a row that is read stays
// where it is while others come and go; the foot says whether all is shown, what is left out and what is newer. Must
// not: write to the timeline.

import { fill, h, write } from "../dom.js";
import { clock, count } from "../format.js";
import { hint } from "../keys.js";
import { drives, list } from "../list.js";
import { server } from "../server.js";
import { first } from "../window.js";
import { cells } from "./message.js";

const FRESH_MS = 1_500;
const ENDED = {
  deleted: "The timeline was deleted: these are its last rows",
  epoch_changed: "The timeline was replaced: these rows are of its old history",
  forbidden: "Your key may no longer read this",
};

/** `window` is what is read, `show(query)` changes the view, `empty()` is shown in place of no message, `painted()`
 *  follows each paint, `marks(message)` are put at a row's end, `again()` opens what has ended anew. */
export function messages({ window, signal, show, empty, painted, failed, marks = () => null, again }) {
  const rows = list({ label: "Messages", class: "msgs", render, open: opened, selected: moved, near_start: older, near_end: newer });
  const said = h("span");
  const newest = h("button", { type: "button", class: "link", onclick: () => toNewest() }, "Newest", h("kbd", {}, hint("newest")));
  const anew = h("button", { type: "button", class: "link", onclick: again, hidden: true }, "Open it anew");
  const right = h("span");
  const foot = h("p", { class: "edge" }, said, newest, anew, h("span", { class: "sp" }), right);
  const head = h("div", { class: "mhead", "aria-hidden": "true" }, ["Sequence", "Time", "Sender", "Entry"].map((text) => h("span", {}, text)));
  const nothing = h("div", { class: "nothing", hidden: true });
  const element = h("section", { class: "messages" }, head, rows.element, nothing, foot);
  let base = 0;
  let cursor = null; // the first sequence of the row that is selected
  let open = null; // the sequence whose detail is open
  let seen = null;
  let frame = 0;
  let busy = false;
  let last = { sequence: 0, at: 0, from: Infinity }; // what came last, for its tint
  let note = null; // {text, until}

  function render(row) {
    if (row.from) {
      const more = h("span", { class: "more" }, `${count(row.to - row.from)} more`, h("kbd", {}, hint("open")));
      return { class: "hole", cells: [h("span", { class: "seq" }, "⋯"), more] };
    }
    const fresh = row.sequence >= last.from && performance.now() - last.at < FRESH_MS;
    return { class: `${row.deleted || row.hidden ? "tomb" : ""}${fresh ? " fresh" : ""}`, cells: cells(row, marks(row)) };
  }

  function moved(row) {
    cursor = first(row);
    if (open !== null && row.sequence) show({ at: row.sequence }, { replace: true });
  }

  function opened(row) {
    if (row.from) page(() => window.fill(row));
    else show({ at: row.sequence }, { replace: open !== null });
  }

  /** What the person asks for is done at once: the window drops pages that come too late. */
  const guarded = (step) => step().catch((error) => signal.aborted || failed(error));

  const isSeen = () => rows.element.clientHeight > 0;

  /** Pages come one after the other. */
  async function page(step) {
    if (busy || server.held || !isSeen()) return;
    busy = true;
    await guarded(step);
    busy = false;
  }
  function older() {
    if (!window.atFloor) page(() => window.older());
  }
  function newer() {
    if (window.mode === "still" && !window.atHead) page(() => window.newer());
  }

  // The list is moved by the person: off the end means to read, and nothing may run away.
  rows.element.addEventListener("scroll", () => {
    if (window.mode !== "still" && !frame && isSeen() && !rows.at_end) window.still();
    change();
  }, { passive: true, signal });

  /** The list shows what the window has now. */
  function paint() {
    frame = 0;
    if (signal.aborted) return;
    nothing.hidden = window.head > 0;
    if (!nothing.hidden && !nothing.firstChild) fill(nothing, empty());
    rows.element.hidden = !nothing.hidden; // a list that is hidden can't be scrolled to its end
    if (!server.held) {
      const end = window.mode !== "still";
      tint();
      rows.items = window.rows.slice();
      rows.shift(base - window.base);
      base = window.base;
      const at = cursor === null ? -1 : window.index(cursor);
      rows.index = at >= 0 && window.rows[at] && first(window.rows[at]) === cursor ? at : -1;
      if (end) rows.to_end();
    }
    element.style.setProperty("--seq", `${Math.max(8, count(window.head).length) * 7.25}px`);
    footer();
    painted();
  }

  function tint() {
    const sequence = window.last;
    if (sequence > last.sequence) last = { sequence, at: performance.now(), from: window.mode === "live" && last.sequence ? last.sequence + 1 : Infinity };
  }

  function footer() {
    if (note && note.until < performance.now()) note = null;
    const more = window.head - window.last;
    const texts = {
      live: () => `Live edge · every message since ${since()} is here, none left out`,
      sampling: () => `Sampling · the newest 100, four times a second; holes say what is left out`,
      still: () => (more > 0 ? `Not following · ${count(more)} newer` : "Not following · this is the newest"),
    };
    const state = () => {
      if (window.over) return ended();
      if (server.state !== "open") return `As of ${clock(server.heard_at ?? Date.now())} · it goes on without a gap when the line is back`;
      if (server.held) return "Held · nothing moves until Space";
      return window.head ? texts[window.mode]() : "";
    };
    write(said, note?.text ?? state());
    anew.hidden = !window.over || !again;
    newest.hidden = window.mode !== "still" || Boolean(window.over);
    const kept = Math.max(window.head - window.floor + 1, 0);
    write(right, window.head ? `${count(window.rows.filter((row) => row.sequence).length)} read of ${count(kept)}` : "");
  }

  const since = () => {
    const hole = window.rows.findLastIndex((row) => row.from);
    const row = window.rows[hole + 1];
    return row ? clock(row.timestamp) : "now";
  };
  const ended = () => ENDED[window.over] ?? `No more comes: ${window.over}`;

  async function toNewest() {
    await guarded(async () => {
      if (!window.atHead || !window.rows.length) await window.newest();
      base = window.base;
      await window.follow();
    });
    change();
  }

  async function toOldest() {
    await guarded(() => window.oldest());
    jumped();
    rows.to_start();
  }

  /** Goes to a sequence; it is selected, and its detail opened. */
  async function to(sequence) {
    const at = window.index(sequence);
    if (window.rows[at]?.sequence !== sequence) {
      await guarded(() => window.around(sequence));
      jumped();
    } else if (!rows.items.includes(window.rows[at])) jumped();
    cursor = sequence;
    const index = window.index(sequence);
    rows.index = index;
    rows.reveal(Math.max(index - 8, 0));
    rows.reveal(Math.min(index + 8, window.rows.length - 1));
    if (!rows.at_end) window.still();
    change();
  }

  function jumped() {
    base = window.base;
    rows.items = window.rows.slice();
    rows.shift(0);
  }

  const change = () => (frame ||= requestAnimationFrame(paint));
  // A hidden page paints no frames, but the tint must end and the foot be right when it is back.
  document.addEventListener("visibilitychange", change, { signal });
  server.on("state", () => change(), { signal });
  signal.addEventListener("abort", () => cancelAnimationFrame(frame));

  return {
    element,
    rows,
    change,
    to,
    toNewest,
    keys: { ...drives(rows), newest: toNewest, oldest: toOldest },
    /** A word in the foot for some seconds. */
    say: (text) => ((note = { text, until: performance.now() + 4_000 }), change()),
    /** The row whose detail is open, or null. */
    set open(sequence) {
      open = sequence;
      if (sequence !== null) cursor = sequence;
      change();
    },
    /** The message that keys are about. */
    get current() {
      return window.selected ?? (cursor === null ? null : window.get(cursor));
    },
    /** The first and the last sequence that are seen, or null. */
    get seen() {
      const [from, to] = rows.window.map((at) => rows.items[Math.max(at, 0)]);
      if (isSeen()) seen = from ? [first(from), to.sequence ?? to.to - 1] : null;
      return seen;
    },
    follow: () => (window.mode === "still" ? toNewest() : (window.still(), change())),
  };
}
