// One timeline, open: its head, its facts, the ribbon, tabs, and the message that is looked at.
//
// Owns: the window of the timeline, what is asked of it every 5 s, and how the parts work together. Promises: the view
// in the fragment is what is shown; after a loss it goes on without a gap; a timeline that ends says so. Must not: know
// how others are found.

import { fill, h, icon, set, svg, write } from "../dom.js";
import { show as dialog } from "../dialog.js";
import { json } from "../entry.js";
import { brief, count, day, minute, visible } from "../format.js";
import { hint, tip } from "../keys.js";
import { drives } from "../list.js";
import { beat, server } from "../server.js";
import { empty, failed, load } from "../states.js";
import { PUSHES, Window } from "../window.js";
import * as acts from "./acts.js";
import { detail } from "./detail.js";
import { chip, command, copy, inline, kept, reasonOf } from "./message.js";
import { messages } from "./messages.js";
import { members, readers, settings } from "./tabs.js";

const POLL_MS = 5_000;
const TABS = [["messages", "Messages"], ["members", "Members"], ["readers", "Readers"], ["settings", "Settings"]];

/** `show(query, options)` changes the view, `go` leaves it, `again` opens it anew; `box` is filled, `side` gets the detail. */
export function stream({ box, side, timeline, query, show, go, again, href, signal: leave }) {
  const ends = new AbortController();
  const signal = AbortSignal.any([leave, ends.signal]);
  const call = (method, params) => server.call(method, params, { signal });
  const may = (right) => server.can(right, timeline);
  let info = null;
  let reading = null; // timeline.readers, or null where that may not be asked
  let reading_error = null;
  let asked = query;
  let tab = null;
  let moments = []; // [share of the ribbon, timestamp]
  let known_head = 0; // when the moments were read

  const window = new Window(timeline, call, () => list.change());
  const side_acts = { close: () => show({ at: null }), edit: () => act("edit"), recall: () => act("recall"), copy: copyMessage, link: copyLink };
  const about = detail({ timeline, signal, acts: side_acts, may });
  const list = messages({ window, signal, show, again, painted, empty: nothing, failed: (error) => list.say(`Could not be read: ${reasonOf(error)}`) });

  // --- the head

  const rate = h("em");
  const follow = h("button", { type: "button", class: "follow", title: tip("follow"), onclick: list.follow },
    h("span", { class: "dot" }), h("span"), rate, h("kbd", {}, hint("follow")));
  const name = timeline.lastIndexOf("/") + 1;
  const told = h("p", { class: "about" });
  const values = h("dl", { class: "facts" });
  const fact = Object.fromEntries(["Head", "Floor", "Changes", "Members", "Readers", "Epoch"].map((title) => {
    const value = h("dd", {}, "–");
    values.append(h("div", {}, h("dt", {}, title), value));
    return [title, value];
  }));
  const facts = h("div", { class: "facts-line" }, values,
    h("p", { class: "legend2", "aria-hidden": "true" }, h("b", { class: "e" }), "edited", h("b", { class: "r" }), "recalled"));
  const edits = svg("path", { class: "e" });
  const recalls = svg("path", { class: "r" });
  const here = svg("rect", { y: 0, height: 18, rx: 2 });
  const ribbon = svg("svg", { viewBox: "0 0 1000 18", preserveAspectRatio: "none", role: "img", onclick: pointed },
    svg("rect", { class: "track", y: 2, width: 1000, height: 14, rx: 3 }), edits, recalls, here);
  const axis = h("p", {});
  const jump = h("input", { placeholder: "Go to sequence or time", "aria-label": "Go to sequence or time", autocomplete: "off", spellcheck: "false", onkeydown: jumped });
  const tabs = h("nav", { class: "tabs", "aria-label": "Of this timeline" },
    TABS.map(([key, title]) => {
      const of = { tab: key === "messages" ? null : key };
      const onclick = (event) => (event.preventDefault(), show(of));
      return h("a", { href: href({ path: [timeline], query: { ...query, ...of } }), data: { key }, onclick }, title);
    }),
    h("span", { class: "sp" }), h("label", { class: "field jump", title: tip("go_to") }, jump, h("kbd", {}, hint("go_to"))));
  const other = h("section", { class: "other", hidden: true });
  const menu = h("details", { class: "menu", onkeydown: closes, onclick: (event) => event.target.closest("button") && (menu.open = false) },
    h("summary", { "aria-label": "More: configure, trim, delete", title: "More: configure, trim, delete" }, icon("more")),
    h("div", {}, button("Configure", "manage", () => act("configure")), button("Trim", "manage", () => act("trim"), "danger"),
      button("Delete", "manage", () => act("remove"), "danger")));
  const adds = button("Append", "append", () => act("append"), null, "append");

  function button(text, right, onclick, kind = null, key = null) {
    const allowed = may(right);
    const title = allowed ? key && tip(key) : `${text} needs the right ${right}`;
    return h("button", { type: "button", class: kind, disabled: !allowed, title, onclick }, text, key && h("kbd", {}, hint(key)));
  }

  function closes(event) {
    if (event.key !== "Escape" || !menu.open) return;
    event.stopPropagation();
    menu.open = false;
    menu.firstChild.focus();
  }

  const copyName = async () => (await copy(timeline, dialog)) && list.say("The ID is copied");

  const head = () => [
    h("header", { class: "tl" },
      h("h2", {}, h("code", { title: visible(timeline) }, h("i", {}, visible(timeline.slice(0, name))), visible(timeline.slice(name))),
        h("button", { type: "button", class: "ghost", "aria-label": "Copy the ID", title: "Copy the ID", onclick: copyName }, icon("copy"))),
      h("div", { class: "acts" }, follow, adds, menu), told),
    facts, h("div", { class: "ribbon" }, ribbon, axis), tabs, list.element, other,
  ];

  function chips() {
    const { settings: { retention, members_only, fan_out }, meta } = info;
    const title = typeof meta.title === "string" ? visible(meta.title.slice(0, 200)) : inline(meta);
    fill(told, title.length > 0 && h("span", { class: "title" }, title),
      members_only && chip("members only"), chip(`fan-out ${fan_out}`), chip(`kept ${kept(retention)}`));
  }

  /** After each paint of the list: figures and ribbon. A key may have the list painted before the timeline is known. */
  function painted() {
    if (!info) return;
    const { head, floor } = window;
    write(fact.Head, count(head));
    write(fact.Floor, count(floor));
    write(fact.Changes, count(Math.max(window.changes, info.change_head)));
    write(fact.Members, count(info.members_count));
    write(fact.Readers, reading ? count(reading.count) : "–");
    set(fact.Readers, "title", reading_error ? `Not known: ${reading_error}` : null);
    const epoch = window.epoch ?? info.epoch;
    write(fact.Epoch, epoch.length > 8 ? `${epoch.slice(0, 7)}…` : epoch);
    set(fact.Epoch, "title", epoch);
    const on = window.mode !== "still";
    set(follow, "aria-pressed", String(on));
    write(follow.children[1], on ? (window.mode === "sampling" ? "Sampling" : "Following") : "Follow");
    write(rate, window.head ? `${brief(window.rate(window.mode === "sampling" ? 2_000 : 10_000))} /s` : "");
    drawRibbon();
    write(axis.lastChild ?? axis, axis.lastChild ? count(head) : "");
    about.show(window.selected);
  }

  // --- the ribbon: floor to head, edits and recalls of what was read, and what is seen

  function share(sequence) {
    const { floor, head } = window;
    return head > floor ? Math.min(Math.max((sequence - floor) / (head - floor), 0), 1) : 1;
  }

  function drawRibbon() {
    const marks = { edited: new Set(), recalled: new Set() };
    for (const [sequence, kind] of window.marks) if (sequence >= window.floor) marks[kind].add(Math.round(share(sequence) * 1000));
    const path = (places, from, to) => [...places].map((x) => `M${x} ${from}V${to}`).join("");
    set(edits, "d", path(marks.edited, 5, 13));
    set(recalls, "d", path(marks.recalled, 3, 15));
    const { seen } = list;
    const from = seen ? share(seen[0]) * 1000 : 0;
    const width = seen ? Math.max(share(seen[1]) * 1000 - from, 12) : 0;
    set(here, "x", Math.min(from, 1000 - width));
    set(here, "width", width);
    set(ribbon, "aria-label", seen ? `Sequences ${count(window.floor)} to ${count(window.head)}; the view shows ${count(seen[0])} to ${count(seen[1])}` : "No messages");
  }

  function drawAxis() {
    const short = moments.length && moments.every(([, at]) => day(at) === day(moments[0][1]));
    fill(axis, h("span", {}, count(window.floor)), moments.map(([, at]) => h("span", {}, short ? minute(at) : day(at))), h("span", {}, count(window.head)));
  }

  /** When the messages at a quarter, half and three quarters were appended. */
  async function readMoments() {
    const { floor, head } = window;
    known_head = head;
    const read = async (part) => {
      const { messages } = await call("message.range", { timeline, from: Math.floor(floor + (head - floor) * part), limit: 1 });
      return messages.map(({ timestamp }) => [part, timestamp]);
    };
    if (head - floor > 8) moments = (await Promise.all([0.25, 0.5, 0.75].map(read))).flat();
    drawAxis();
  }

  function pointed(event) {
    const { left, width } = ribbon.getBoundingClientRect();
    goTo(Math.round(window.floor + ((event.clientX - left) / width) * (window.head - window.floor)));
  }

  // --- jumps

  async function jumped(event) {
    if (event.key !== "Enter") return;
    event.preventDefault();
    const text = jump.value.trim();
    const plain = text.replace(/[\s,.'_#]/g, "");
    if (!text) return;
    if (/^\d+$/.test(plain) && !/^\d{4}-/.test(text)) return found(Number(plain));
    const at = moment(text);
    if (Number.isNaN(at)) return list.say("Give a sequence, or a time as 14:31, 2026-03-12 or 2026-03-12 14:31");
    try {
      found(await window.seek(at));
    } catch (error) {
      if (!signal.aborted) list.say(`Could not be read: ${reasonOf(error)}`);
    }
  }

  function moment(text) {
    if (!/^\d{1,2}:\d{2}(:\d{2})?$/.test(text)) return Date.parse(text.includes(":") || !/^\d{4}-\d\d-\d\d$/.test(text) ? text : `${text}T00:00`);
    const [hours, minutes, seconds = 0] = text.split(":").map(Number);
    return new Date().setHours(hours, minutes, seconds, 0);
  }

  function found(sequence) {
    jump.value = "";
    list.rows.element.focus();
    goTo(sequence);
  }

  function goTo(sequence) {
    if (window.head < window.floor) return;
    show({ at: Math.min(Math.max(sequence, window.floor), window.head), tab: null });
  }

  // --- what is done

  async function act(kind) {
    const message = list.current;
    const known = { ...info, head: window.head, floor: window.floor, epoch: window.epoch ?? info.epoch };
    if ((kind === "edit" || kind === "recall") && !message?.entry) return list.say(message ? "It has no entry any more" : "Select a message first (j, k)");
    const right = { append: "append", edit: "edit", recall: "edit" }[kind] ?? "manage";
    if (!may(right) && !(right === "edit" && may("moderate"))) return list.say(`${kind} needs the right ${right}`);
    if (kind === "append") {
      const said = await acts.append(timeline);
      if (said) await list.toNewest();
      if (said?.duplicate) list.say(`It was there already, as message ${count(said.sequence)}`);
      return;
    }
    if (kind === "edit" || kind === "recall") return (await acts[kind](timeline, known.epoch, message)) && window.resume();
    if (kind === "trim") return (await acts.trim(timeline, known, window.selected?.sequence)) && window.resume();
    if (kind === "configure") return (await acts.configure(timeline, known)) && poll();
    if (await acts.remove(timeline, known)) go({ path: [], query: { prefix: asked.prefix, by: asked.by } }, { deleted: timeline });
  }

  async function copyMessage() {
    const message = list.current;
    if (!message) return list.say("Select a message first (j, k)");
    if (await copy(json(message, 2), dialog)) list.say(`Message ${count(message.sequence)} is copied as JSON`);
  }

  async function copyLink() {
    const at = list.current?.sequence;
    const link = new URL(href({ path: [timeline], query: { at, tab: asked.tab } }), location.href);
    if (await copy(link.href, dialog)) list.say("The link is copied");
  }

  // --- states

  function nothing() {
    if (window.floor > 1) return empty("Nothing is kept", `Everything up to ${count(window.head)} was trimmed or has expired.`);
    return empty("No messages yet", "They appear here as they come. Append the first (a), or by", command("message.append", { timeline, entry: { text: "hello" } }));
  }

  const poll = beat(POLL_MS, async () => {
    if (!server.awake || !info || window.over) return;
    const readings = may("observe") ? call("timeline.readers", { timeline }) : Promise.reject(new Error("it needs the right observe"));
    const [got, seen] = await Promise.allSettled([call("timeline.get", { timeline }), readings]);
    if (signal.aborted) return;
    if (got.status === "fulfilled") info = got.value;
    reading = seen.value ?? null;
    reading_error = seen.reason?.message ?? null;
    chips();
    if (window.head > 2 * known_head) readMoments().catch(() => {});
    about.heard(info, reading);
    tab?.heard?.(info, reading, reading_error);
    list.change();
  }, signal);

  async function begin() {
    await load(box, async () => {
      info = await call("timeline.get", { timeline });
      await window.newest();
    }, head, { signal });
    if (signal.aborted || !info || !window.epoch) return;
    chips();
    // Who types somewhere already, stays there.
    if (!document.activeElement?.closest("input, textarea, dialog")) list.rows.element.focus({ preventScroll: true });
    for (const method of PUSHES) server.on(method, (push) => push.timeline === timeline && window.pushed(method, push), { signal });
    server.on("timeline.changed", (push) => push.timeline === timeline && renamed(push), { signal });
    readMoments().catch(() => drawAxis());
    poll();
    await turn(asked);
    if (!asked.at || list.rows.at_end) await list.toNewest();
  }

  function renamed({ meta, version }) {
    info = { ...info, meta, version };
    chips();
  }

  /** Shows what the fragment asks for. */
  async function turn(wanted) {
    const before = asked;
    asked = wanted;
    const key = TABS.some(([key]) => key === wanted.tab) ? wanted.tab : "messages";
    for (const link of tabs.querySelectorAll("a")) set(link, "aria-current", link.dataset.key === key ? "page" : null);
    if (key !== (tab?.key ?? "messages") || (!tab && key !== "messages")) openTab(key);
    list.element.hidden = key !== "messages";
    other.hidden = key === "messages";
    list.change();
    const at = Number(wanted.at);
    if (!Number.isSafeInteger(at) || at < 1) {
      await window.select(null);
      list.open = null;
      return;
    }
    if (before.at === wanted.at && window.selected?.sequence === at) return;
    if (window.rows[window.index(at)]?.sequence !== at || before === wanted) await list.to(at);
    try {
      await window.select(at);
      list.open = at;
    } catch (error) {
      if (!signal.aborted) list.say(`Message ${count(at)}: ${reasonOf(error)}`);
    }
  }

  function openTab(key) {
    const made = { members, readers, settings }[key];
    tab = made ? { key, ...made({ box: other, timeline, signal, go, href, call, head: () => window.head, configure: () => act("configure"), may }) } : null;
    tab?.heard?.(info, reading, reading_error);
  }

  const visibility = () => (window.idle = document.hidden);
  document.addEventListener("visibilitychange", visibility, { signal });
  signal.addEventListener("abort", () => window.close());
  side.replaceWith(about.element);
  begin().catch((error) => {
    if (signal.aborted) return;
    fill(box, failed(error, () => begin()));
    if (!error.reason) throw error;
  });

  return {
    list,
    side: about.element,
    update: (wanted) => info && turn(wanted).catch(() => {}),
    resume: () => info && (window.resume(), poll()),
    close: () => ends.abort(),
    keys: {
      follow: list.follow,
      go_to: () => jump.focus(),
      append: () => act("append"),
      edit: () => act("edit"),
      recall: () => act("recall"),
      copy: copyMessage,
      link: copyLink,
    },
    /** The list that keys reach: {rows, keys}. Where no row is selected, the last one is the first. */
    get reached() {
      const { rows, keys } = tab?.rows ? { rows: tab.rows, keys: drives(tab.rows) } : list;
      const last = () => rows.select(rows.items.length - 1);
      return { rows, keys: rows.index < 0 ? { ...keys, next: last, previous: last } : keys };
    },
    get opened() {
      return window.selected !== null;
    },
  };
}
