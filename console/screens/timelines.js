// The screen Timelines: find one, read it, write to it.
//
// Owns: how finder, timeline and detail share the page, and which of them a key reaches. Promises: everything is done by
// keys alone; the fragment is the view: `#/timelines/NAME?at=SEQUENCE&tab=…&prefix=…&by=name`. Must not: call methods.

import { fill, h } from "../dom.js";
import { tip } from "../keys.js";
import { drives, drivesOne } from "../list.js";
import { button } from "../split.js";
import { empty } from "../states.js";
import { append } from "../timelines/acts.js";
import { finder } from "../timelines/finder.js";
import { command } from "../timelines/message.js";
import { stream } from "../timelines/stream.js";

const CHOOSE = "Type the beginning of its name (/), or walk down the levels: j and k move, Enter opens, Esc goes back.";
const NONE =
  "A timeline is a row of messages, numbered and kept in order: a chat, a feed, a log of events. " +
  "It is made by its first message, which a client sends, or you, or";
const ACTS = ["follow", "go_to", "append", "edit", "recall", "copy", "link"];

export const screen = {
  open({ root, view, signal, go, href, keys }) {
    let now = view;
    let open = null;
    let any = true; // timelines, as far as is known
    const place = h("section", { class: "stream", "aria-label": "Timeline" });
    let side = h("aside", { hidden: true });

    /** Changes part of the view. */
    const show = (query, options) => go({ path: now.path, query: { ...now.query, ...query } }, options);
    const leave = (wanted, { deleted, ...options } = {}) => (go(wanted, options), deleted && find.reread());
    const found = (some) => {
      if (any === some) return;
      any = some;
      if (!open) choose();
    };
    const find = finder({ signal, show, found, open: (name) => go({ path: [name], query: { prefix: now.query.prefix, by: now.query.by } }) });

    async function first() {
      const said = await append(now.path[0]);
      if (said) (find.reread(), go({ path: [said.timeline] }));
    }

    function update(wanted) {
      const [timeline] = wanted.path;
      const same = open !== null && timeline === now.path[0];
      now = wanted;
      root.dataset.open = timeline === undefined ? "finder" : wanted.query.at ? "detail" : "stream";
      find.update(wanted.query, timeline);
      if (same) return void open.update(wanted.query);
      open?.close();
      open = null;
      side.hidden = true;
      if (timeline === undefined) return choose();
      openIt();
    }

    function openIt() {
      open?.close();
      open = stream({ box: place, side, timeline: now.path[0], query: now.query, show, go: leave, again: openIt, href, signal });
      side = open.side;
      // The finder stands where the timeline is, if nobody has said otherwise.
      const level = now.path[0].slice(0, now.path[0].lastIndexOf("/") + 1);
      if (now.query.prefix === undefined && level) show({ prefix: level }, { replace: true });
    }

    function choose() {
      if (any) return void fill(place, empty("Choose a timeline", CHOOSE));
      fill(place, empty("No timelines yet", NONE,
        command("message.append", { timeline: "room/1", entry: { text: "hello" } }),
        button("Append the first message", { key: "append", kind: "primary", title: tip("append"), onclick: first })));
    }

    const inFinder = () => open === null || find.element.contains(document.activeElement);
    const listed = drivesOne(() => (inFinder() ? { rows: find.rows, keys: drives(find.rows) } : open.reached));
    const acts = Object.fromEntries(ACTS.map((name) => [name, () => (open ? open.keys[name]() : name === "append" && first())]));

    function back() {
      if (open?.opened && !inFinder()) return show({ at: null });
      if (!inFinder()) return find.rows.items.length ? find.rows.element.focus() : find.focus();
      find.up();
    }

    keys({ ...listed, ...acts, back, search: find.focus });
    fill(root, find.element, place, side);
    update(view);
    if (view.path[0] === undefined) find.rows.element.focus();
    return { update, resume: () => open?.resume(), close: () => open?.close() };
  },
};
