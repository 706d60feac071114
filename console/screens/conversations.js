// The screen Conversations: the list of one user, as their own client sees it, and why something is unread.
//
// Owns: a connection that acts for the user, its list and the conversation that is open. Promises: what is shown is what
// the server answers to that user, hidden and cleared messages included; nothing is marked as read; what is unread is
// explained by the numbers it comes from. Must not: write as the user.

import { as } from "../acting.js";
import { fill, h, icon, write } from "../dom.js";
import { age, count, many, visible } from "../format.js";
import { drives, drivesOne, list } from "../list.js";
import { server } from "../server.js";
import { empty, load } from "../states.js";
import { badge, chip, command, inline, reasonOf, track } from "../timelines/message.js";
import { messages } from "../timelines/messages.js";
import { PUSHES, Window } from "../window.js";

const WHOSE =
  "Type a user (/): you see the list as their client does. With authentication, your key must be allowed to act for them " +
  "(act_as). Nothing is marked as read.";

export const screen = {
  open({ root, view, signal, go, keys }) {
    let now = view;
    let person = null; // {user, client, known, close()}
    let open = null; // {timeline, update(conversation), close(), list}
    const field = h("input", { "aria-label": "User", placeholder: "User", autocomplete: "off", spellcheck: "false", onkeydown: asked });
    const totals = h("p", { class: "crumbs" });
    const place = h("div", { class: "found" });
    const rows = list({ label: "Conversations", row_height: 46, class: "talks", render, open: ({ timeline }) => go({ path: now.path, query: { at: timeline } }) });
    const right = h("section", { class: "stream", "aria-label": "Conversation" });
    const left = h("aside", { class: "finder", "aria-label": "Conversations of a user" },
      h("label", { class: "field", title: "The user whose list it is (/)" }, icon("find"), field, h("kbd", {}, "/")), totals, place);

    function asked(event) {
      if (event.key === "ArrowDown") (event.preventDefault(), rows.element.focus(), rows.index < 0 && rows.select(0));
      if (event.key === "Enter" && field.value) (event.preventDefault(), go({ path: [field.value] }));
    }

    function render({ timeline, peer, meta, last_message, last_at, unread, mentions, attributes, hidden }) {
      const { pinned, muted } = attributes;
      const name = peer ?? (typeof meta.title === "string" ? meta.title : timeline);
      const entry = last_message?.entry;
      const said = entry ? (typeof entry.text === "string" ? visible(entry.text.slice(0, 120)) : inline(entry)) : "⊘";
      return {
        class: timeline === open?.timeline ? "on" : "",
        cells: [
          h("span", { class: "talk" }, h("b", {}, visible(name)), pinned && badge("pinned"), muted && badge("muted"), hidden && badge("hidden")),
          h("time", {}, age(last_at)),
          h("span", { class: "said" }, last_message?.sender && `${visible(last_message.sender)}: `, last_message && said),
          h("span", { class: unread === 0 ? null : muted ? "unread muted" : "unread" }, unread > 0 && [mentions ? "@ " : "", count(unread)]),
        ],
      };
    }

    /** Connects as the user and follows their list. */
    function become(user) {
      const ends = new AbortController();
      person = { user, client: null, known: null, signal: AbortSignal.any([signal, ends.signal]), close: () => ends.abort() };
      fill(totals);
      fill(right);
      return load(place, () => connect(person), () => null, { signal: person.signal }).then(() => person?.known && begin());
    }

    /** Where none is named, the first with something unread is opened. */
    function begin() {
      const first = person.known.list.find(({ unread }) => unread > 0) ?? person.known.list[0];
      if (now.query.at === undefined && first) go({ path: now.path, query: { at: first.timeline } }, { replace: true });
      else openOne(now.query.at);
    }

    /** There must be a session before another one makes sense: it may be the key that is asked for. */
    async function connect(mine) {
      await server.call("ping", {}, mine);
      const client = (mine.client = as(mine.user));
      mine.signal.addEventListener("abort", () => client.close().catch(() => {}));
      const refused = (code) => Object.assign(new Error(`closed with ${code}`), { reason: "forbidden" });
      const stopped = new Promise((_, reject) => client.on("stopped", ({ error, code }) => reject(error ?? refused(code))));
      stopped.catch(() => {});
      const known = await Promise.race([client.conversations(), stopped]);
      mine.known = known;
      mine.signal.addEventListener("abort", () => known.close());
      if (mine.signal.aborted) return;
      known.on("changed", heard);
      heard();
    }

    let counting = 0;
    function heard() {
      const { known, user, client } = person;
      if (!known) return;
      const at = rows.item?.timeline;
      rows.items = known.list;
      rows.index = known.list.findIndex(({ timeline }) => timeline === at);
      if (rows.items.length) rows.element.parentElement === place || fill(place, rows.element);
      else fill(place, h("p", { class: "none" }, visible(user), " is a member of no timeline."));
      if (open) open.update(known.get(open.timeline));
      else if (!now.query.at) choose();
      clearTimeout(counting);
      counting = setTimeout(async () => {
        const all = await client.call("conversation.count").catch(() => null);
        if (!all || person?.client !== client) return;
        const unread = `${count(all.unread)}${all.more ? " or more" : ""} unread`;
        fill(totals, h("span", {}, many(all.conversations, "conversation")), h("span", { class: "sp" }), h("b", {}, unread));
      }, 200);
    }

    function choose() {
      const { known, user } = person ?? {};
      const join = () => command("member.add", { timeline: "room/1", members: [{ user }] });
      if (!person) fill(right, empty("Whose conversations?", WHOSE));
      else if (known && !known.list.length) fill(right, empty(`${visible(user)} has no conversations`, "A conversation is a timeline with members.", join()));
      else fill(right, empty("Choose a conversation", "j and k move, Enter opens it."));
    }

    function openOne(timeline) {
      if (open?.timeline === timeline && timeline !== undefined) return;
      open?.close();
      open = null;
      rows.repaint();
      if (timeline === undefined || !person?.known) return choose();
      open = conversation(right, person, timeline, { go });
      open.update(person.known.get(timeline));
      const at = rows.items.findIndex((one) => one.timeline === timeline);
      if (at >= 0) (rows.index = at), rows.reveal(at);
    }

    function update(wanted) {
      now = wanted;
      const [user] = wanted.path;
      root.dataset.open = wanted.query.at ? "stream" : "finder";
      if (document.activeElement !== field) field.value = user ?? "";
      if (user === person?.user) return openOne(wanted.query.at);
      open?.close();
      open = null;
      person?.close();
      person = null;
      fill(place);
      fill(totals);
      if (user) become(user);
      else choose();
    }

    const inLeft = () => !open || left.contains(document.activeElement);
    const listed = drivesOne(() => (inLeft() ? { rows, keys: drives(rows) } : open.list));
    const back = () => {
      if (document.activeElement === field) return rows.element.focus();
      if (!inLeft()) return rows.element.focus();
      if (open) go({ path: now.path });
      else field.focus();
    };
    keys({ ...listed, back, follow: () => open?.list.follow(), search: () => (field.focus(), field.select()) });
    fill(root, left, right);
    update(view);
    const beat = setInterval(() => document.hidden || rows.repaint(), 10_000);
    signal.addEventListener("abort", () => clearInterval(beat));
    return { update, close: () => (open?.close(), person?.close()) };
  },
};

/** One conversation as the user sees it. */
function conversation(box, { user, client, signal: leave }, timeline, { go }) {
  const ends = new AbortController();
  const signal = AbortSignal.any([leave, ends.signal]);
  let known = null;
  const title = h("h2");
  const about = h("p", { class: "about" });
  const why = h("div", { class: "why" });
  const window = new Window(timeline, (method, params) => client.call(method, params), () => shown.change());
  const shown = messages({ window, signal, marks, painted: () => {}, empty: () => empty("Nothing to see", `${visible(user)} sees no message of this timeline.`),
    failed: (error) => shown.say(`Could not be read: ${reasonOf(error)}`),
    show: ({ at }) => go({ screen: "timelines", path: [timeline], query: { at } }) });

  /** Why a message counts as unread, or does not. */
  function marks({ sequence, sender, deleted, hidden, entry }) {
    if (!known || sequence <= known.read) return null;
    const why = hidden ? "hidden" : deleted ? null : sender === user ? "own" : "unread";
    const names = Array.isArray(entry?.mentions) && (entry.mentions.includes(user) || entry.mentions.includes("*"));
    return [why === "unread" && names && h("span", { class: "badge new" }, "@"), why && h("span", { class: why === "unread" ? "badge new" : "badge" }, why)];
  }

  function explain({ head, floor, read, received, unread, mentions, hides, visible_from, cleared, attributes, joined_at, role, members_count }) {
    const from = Math.max(read, floor - 1);
    const above = Math.max(head - from, 0);
    const who = visible(user);
    const kept = Math.max(head - floor + 1, 1);
    const share = (sequence) => Math.max(sequence - floor + 1, 0) / kept;
    const facts = [["Unread", unread], ["Mentions", mentions ?? 0], ["Read", read], ["Received", received], ["Head", head], ["Sees from", floor], ["Hidden", hides]];
    const is = (number) => (number === 1 ? "is" : "are");
    const start = read >= floor - 1 ? `what ${who} has read (${count(read)})` : `${count(floor - 1)}, the last before what ${who} sees`;
    const others = `${count(above - unread)} of them ${is(above - unread)} ${who}’s own, recalled or hidden`;
    const rest = above === unread ? "all of them are unread" : `${others}, so ${count(unread)} ${is(unread)} unread`;
    const named = mentions ? `, and ${count(mentions)} name${mentions === 1 ? "s" : ""} ${who}` : "";
    const limits = [
      visible_from > 1 && `${who} joined with the right to see from ${count(visible_from)} on.`,
      cleared > 0 && `Everything up to ${count(cleared)} was cleared.`,
      attributes.muted && "It is muted: in the sum of all conversations it counts by mentions only.",
    ];
    fill(why,
      h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, count(value))))),
      h("p", { class: "reads" }, track(share(received), share(read))),
      h("p", {}, above === 0 ? `${who} has read everything up to the head.` : `${many(above, "message")} above ${start}; ${rest}${named}.`,
        limits.filter(Boolean).map((text) => ` ${text}`)));
    fill(about, chip(visible(role)), chip(many(members_count, "member")), chip(`joined ${age(joined_at)} ago`),
      h("button", { type: "button", class: "link", onclick: () => go({ screen: "timelines", path: [timeline] }) }, "The timeline"));
  }

  function update(conversation) {
    if (!conversation) {
      if (known) shown.say(`${visible(user)} is no member any more`);
      return;
    }
    known = conversation;
    const { peer, meta } = conversation;
    const named = peer ? `With ${visible(peer)}` : typeof meta.title === "string" ? visible(meta.title) : null;
    fill(title, named && h("span", {}, named), h("code", { class: named && "id" }, visible(timeline)));
    explain(conversation);
    shown.change();
  }

  fill(box, h("header", { class: "tl" }, title, about), why, shown.element);
  const until = (off) => signal.addEventListener("abort", off);
  for (const method of PUSHES) until(client.on(method, (push) => push.timeline === timeline && window.pushed(method, push)));
  until(client.on("state", ({ state }) => state === "open" && window.resume()));
  signal.addEventListener("abort", () => window.close());
  shown.toNewest();
  shown.rows.element.focus({ preventScroll: true });
  return { timeline, update, list: shown, close: () => ends.abort() };
}
