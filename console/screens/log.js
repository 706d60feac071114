// Log: the newest lines of the server's log, as they come.
//
// Owns: following `log.tail`, the filters by level and text. Promises: at most 2,000 lines are kept, the oldest go; lines
// that the server had let go of before they were read are a row that says so; nothing moves while one reads further up.
// Must not: hide a line that the filters let through.

import { choice, fill, h, write } from "../dom.js";
import { clock, count, lineText, many, thousandths, visible, when } from "../format.js";
import { hint, tip } from "../keys.js";
import { drives, list } from "../list.js";
import { server } from "../server.js";
import { searchField } from "../split.js";
import { empty, failed } from "../states.js";

const KEPT = 2_000;
const WAIT_MS = 20_000;
const LEVELS = ["error", "warn", "info", "debug"];

export const screen = {
  open({ root, view, signal, go, keys }) {
    const lines = []; // also {dropped}
    let next;
    let following = true;
    let level = LEVELS.includes(view.query.level) ? view.query.level : "info";
    let wanted = view.query.text ?? "";
    let ends = new AbortController();

    const about = h("p", { class: "foot" });
    const trouble = h("div");
    const search = searchField({ label: "Lines that hold", placeholder: "Lines that hold …", value: wanted, key: "search", changed: (text) => go({ path: [], query: { ...shown(), text } }, { replace: true }) });
    const levels = choice("Level", LEVELS.map((one) => [one, one]), (level) => go({ path: [], query: { ...shown(), level } }, { replace: true }));
    const follow = h("button", { type: "button", class: "follow", title: tip("follow"), onclick: toggle }, "Following", h("kbd", {}, hint("follow")));
    const rows = list({ label: "Lines of the log", row_height: 24, class: "lines", render: line, selected: () => set(false), open: () => detail.focus() });
    const detail = h("pre", { class: "json", tabindex: "0", hidden: true, "aria-label": "The line as JSON" });
    const none = h("div", { class: "none", hidden: true });
    fill(root, h("header", { class: "bar" }, levels.element, search.element, h("span", { class: "sp" }), follow), trouble, none, rows.element, detail, about);
    rows.element.addEventListener("scroll", () => following && !rows.at_end && set(false));
    keys({ ...drives(rows), newest: () => set(true), follow: toggle, search: () => search.input.focus(), back: () => (detail.hidden ? rows.element.focus() : (detail.hidden = true)) });

    const shown = () => ({ level, text: wanted });
    const passes = (one) => one.dropped !== undefined || !wanted || lineText(one).toLowerCase().includes(wanted.toLowerCase()) || one.target.includes(wanted);

    function set(now) {
      following = now;
      follow.setAttribute("aria-pressed", String(now));
      write(follow.firstChild, now ? "Following" : "Follow");
      if (now) rows.to_end();
      else if (rows.item && rows.item.dropped === undefined) fill(detail, visible(JSON.stringify(rows.item, null, 2), { lines: true }));
      detail.hidden = now || !rows.item;
    }
    function toggle() {
      set(!following);
    }
    function paint() {
      levels.press(level);
      const passing = lines.filter(passes);
      rows.items = passing;
      none.hidden = passing.length > 0 || next === undefined;
      rows.element.hidden = !none.hidden;
      if (!none.hidden) fill(none, empty(lines.length ? "No line holds that" : `No line of level ${level} or above yet`, lines.length ? `${many(lines.length, "line")} of level ${level} or above were looked at.` : "The server says little while all is well. What it says from now on comes by itself.", lines.length ? null : "tideline send lobby 'the tide is in' --user ann"));
      write(about, `${count(passing.length)} of ${many(lines.filter((one) => one.dropped === undefined).length, "line")}, since ${lines.length ? when(lines[0].at) : "–"}. The server keeps its newest 2,000.`);
      if (following) rows.to_end();
    }
    function take({ lines: came, next: on, dropped }) {
      if (dropped) lines.push({ dropped, at: came[0]?.at ?? Date.now() });
      lines.push(...came);
      const surplus = Math.max(0, lines.length - KEPT);
      lines.splice(0, surplus);
      next = on;
      if (came.length || dropped || rows.items.length === 0) paint();
      if (surplus && !following) rows.shift(-surplus);
    }
    /** Reads until the screen is left or the level is another one. */
    async function tail() {
      ends.abort();
      ends = new AbortController();
      const mine = AbortSignal.any([signal, ends.signal]);
      lines.length = 0;
      next = undefined;
      while (!mine.aborted) {
        try {
          take(await server.call("log.tail", { after: next, level, wait_ms: next === undefined ? undefined : WAIT_MS }, { signal: mine }));
          fill(trouble);
        } catch (error) {
          if (mine.aborted || error.reason === "connection_lost") continue;
          return void fill(trouble, failed(error, tail));
        }
      }
    }
    tail();
    set(true);
    return {
      update({ query }) {
        wanted = query.text ?? "";
        const now = LEVELS.includes(query.level) ? query.level : "info";
        if (now === level) return paint();
        level = now;
        tail();
      },
      close: () => ends.abort(),
    };
  },
};

const line = (one) =>
  one.dropped !== undefined
    ? { class: "hole", cells: [h("span", { class: "all-of" }, `${many(one.dropped, "line")} went by unread: the server keeps its newest 2,000`)] }
    : { class: one.level, cells: [h("time", {}, clock(one.at), h("i", {}, thousandths(one.at))), h("span", { class: "level" }, one.level), h("span", { class: "target" }, visible(one.target.replace(/^tideline::/, ""))), h("span", { class: "said" }, lineText(one))] };
