// Search: messages by their words, over all timelines; timelines by what their metas say.
//
// Owns: the fields, the pages of hits and the one that is open. Promises: a search waits 150 ms and ends the one before;
// more pages come as one scrolls, and what was not read yet is said; a hit is shown as the server sent it, what was looked
// for is marked. Must not: take a query apart; the server does.

import { choice, h } from "../dom.js";
import { age, count, many, visible, when } from "../format.js";
import { server } from "../server.js";
import { asOf, button, pairs, searchField, split } from "../split.js";
import { empty, failed, load } from "../states.js";
import { badge, block, inline } from "../timelines/message.js";

const PAGE = 100;
const KEPT = 2_000;
/** Pages may be empty though there are more: after so many, going on is asked for. */
const PAGES_AT_ONCE = 20;
const HELP = "All words must be in a message. “a phrase” in quotes is found as it stands, harb* finds words that begin so, -storm leaves out messages with it. Chinese, Japanese and Korean are found by any part.";
const OFF = "The server keeps no index of messages. Switch it on in its configuration and start it again; what is stored is indexed then:";
const KINDS = [["messages", "Messages"], ["timelines", "Timelines"]];
const ORDERS = [["newest", "Newest"], ["best", "Best"]];

const parts = (pieces) => pieces.map(({ text, hit }) => (hit ? h("mark", {}, visible(text)) : visible(text)));
const named = ({ name, parts: pieces }) => [name !== "text" && h("span", { class: "kv" }, h("i", {}, visible(name))), parts(pieces), " "];

/** The cells of a hit: a message, or a timeline. */
function cells({ timeline, message, found, head, last_at, meta, members_count }) {
  const at = message ? message.timestamp : last_at;
  return [
    h("time", { title: at ? when(at) : null }, at ? age(at) : "–"),
    h("code", { class: "id" }, visible(timeline)),
    h("span", { class: "n" }, count(message ? message.sequence : head)),
    h("span", { class: "from" }, message ? visible(message.sender ?? "") : members_count ? many(members_count, "member") : ""),
    h("span", { class: "text" }, message ? (found.length ? found.map(named) : inline(message.entry)) : inline(meta)),
  ];
}

export const screen = {
  async open({ root, view, signal, go, keys }) {
    let now = view.query;
    let search = new AbortController();
    let hits = [];
    let next = null;
    let reading = false;
    let behind = false;
    const show = (query, path = []) => go({ path, query: { ...now, ...query } }, { replace: true });
    const kinds = choice("What", KINDS, (kind) => show({ kind: kind === "messages" ? null : kind }));
    const orders = choice("Order", ORDERS, (order) => show({ order: order === "newest" ? null : order }));
    const field = searchField({ label: "Words", placeholder: "Words, “a phrase”, begin*, -without", value: now.q ?? "", key: "search", changed: (q) => show({ q }) });
    const narrow = (label, name, placeholder = label) => {
      const input = h("input", { "aria-label": label, placeholder, value: now[name] ?? "", class: "mono", spellcheck: "false", autocomplete: "off", onchange: () => show({ [name]: input.value.trim() }) });
      return { element: h("label", { class: "field narrow" }, input), show: (text = "") => input === document.activeElement || (input.value = text) };
    };
    const prefix = narrow("Timelines that begin so", "in", "In room/ …");
    const sender = narrow("Sender", "by");
    const page = split({
      root, name: "hit", label: "Hits", bar: [kinds.element, field.element, prefix.element, sender.element, orders.element],
      heads: [["Time"], ["Timeline"], ["Number", "n"], ["From"], ["Text"]],
      render: cells, near_end: more, id: idOf, open: detail, go: (id) => show({}, id === null ? [] : [id]),
    });
    const { rows } = page;
    const into = () => rows.item && go({ screen: "timelines", path: [rows.item.timeline], query: { at: rows.item.message?.sequence } });
    keys({ ...page.keys, search: () => (field.input.focus(), field.input.select()), go_to: into });

    const isTimelines = () => now.kind === "timelines";
    const method = () => (isTimelines() ? "timeline.search" : "message.search");
    const asked = () => ({ query: now.q || undefined, prefix: now.in || undefined, limit: PAGE, ...(!isTimelines() && { sender: now.by || undefined, order: now.order || undefined }) });

    /** Pages until something is there; what came is added. */
    async function read(mine) {
      for (let pages = 0; pages < PAGES_AT_ONCE; pages++) {
        const answer = await server.call(method(), { ...asked(), after: next ?? undefined }, { signal: mine });
        if (mine.aborted) return;
        next = answer.next ?? null;
        behind ||= answer.behind === true;
        hits.push(...(answer.messages ?? answer.timelines));
        if (next === null || hits.length >= KEPT || (answer.messages ?? answer.timelines).length) return;
      }
    }

    async function again() {
      search.abort();
      search = new AbortController();
      const mine = AbortSignal.any([signal, search.signal]);
      [hits, next, behind] = [[], null, false];
      if (!now.q && !now.in && !now.by) return page.instead(empty("Which words?", HELP, "tideline search 'tide -storm' --text"));
      await load(page.body, () => read(mine).catch(off), (is_off) => (is_off ? empty("Messages are not indexed", OFF, "[search]\nmessages = true") : painted()), { signal: mine, keep: rows.items.length > 0 });
    }

    function off(error) {
      if (error.reason !== "search_off") throw error;
      return true;
    }

    function painted() {
      const what = isTimelines() ? "timeline" : "message";
      const behind_ = behind ? "; the index is behind: the newest may be missing" : "";
      const rest = next === null ? "" : hits.length >= KEPT ? "; there are more: narrow it down" : "; more come as you scroll";
      if (hits.length === 0 && next === null) return page.instead(empty(`No ${what} has that`, `Only what your key may read is looked at${behind_}. ${HELP}`));
      page.show([...hits], `${many(hits.length, what)}${rest}, ${asOf()}${behind_}`);
      page.named(view.path[0] || null);
    }

    async function more() {
      if (reading || next === null || hits.length >= KEPT) return;
      reading = true;
      const mine = AbortSignal.any([signal, search.signal]);
      try {
        await read(mine);
        if (!mine.aborted) painted();
      } catch (error) {
        if (!mine.aborted && error.reason !== "connection_lost") (next = null), page.instead(failed(error, again));
      } finally {
        reading = false;
      }
    }

    function detail({ timeline, epoch, message, found, ...meta }) {
      const open = button(message ? "Open in its timeline" : "Open the timeline", { key: "go_to", kind: "primary", title: "Open in its timeline (#)", onclick: into });
      if (!message) return [page.heading(h("code", {}, visible(timeline))), pairs(["Head", count(meta.head)], ["Floor", count(meta.floor)], ["Made", when(meta.created_at)], ["Members", meta.members_count && count(meta.members_count)]), h("h3", {}, "Meta"), block(meta.meta), h("div", { class: "acts" }, open)];
      return [
        page.heading(h("code", {}, visible(timeline)), ` ${count(message.sequence)}`),
        pairs(["From", message.sender && visible(message.sender)], ["At", when(message.timestamp)], ["Message ID", message.message_id && h("code", {}, visible(message.message_id))], ["Epoch", h("code", {}, visible(epoch))], ["Edited", message.edited_at && when(message.edited_at)]),
        found.length > 0 && [h("h3", {}, "Found"), h("ul", { class: "pieces" }, found.map((piece) => h("li", {}, piece.name !== "text" && badge(visible(piece.name)), " ", parts(piece.parts))))],
        h("h3", {}, "Entry"), block(message.entry), h("div", { class: "acts" }, open),
      ].flat();
    }

    function update(wanted) {
      const same = ["q", "kind", "order", "in", "by"].every((name) => (wanted.query[name] ?? "") === (now[name] ?? ""));
      view = wanted;
      now = wanted.query;
      dress();
      if (same) page.named(wanted.path[0] || null);
      else again();
    }
    function dress() {
      kinds.press(isTimelines() ? "timelines" : "messages");
      orders.press(now.order ?? "newest");
      orders.element.hidden = sender.element.hidden = isTimelines();
      field.show(now.q);
      prefix.show(now.in);
      sender.show(now.by);
    }

    dress();
    await again();
    (rows.element.isConnected ? rows.element : root).focus({ preventScroll: true });
    return { update, resume: again, close: () => search.abort() };
  },
};

const idOf = ({ timeline, message }) => (message ? `${timeline}#${message.sequence}` : timeline);
