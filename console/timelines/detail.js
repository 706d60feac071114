// One message in full: all fields, the entry, its readers, reactions, and what may be done with it.
//
// Owns: the column at the right. Promises: it shows the newest form, also when the message is edited while it is open;
// receipts and readers are asked once it is opened and then every 5 s. Must not: follow the timeline itself.

import { fill, h, icon } from "../dom.js";
import { size } from "../entry.js";
import { bytes, clock, count, day, lasts, many, thousandths, visible } from "../format.js";
import { tip } from "../keys.js";
import { server } from "../server.js";
import { button, pairs } from "../split.js";
import { block, gone, growth, reasonOf, track } from "./message.js";

const exactly = (at) => [`${clock(at)}${thousandths(at)} `, h("i", {}, day(at))];

/** `acts`: {close, edit, recall, copy, link}; `may(right)`. */
export function detail({ timeline, signal, acts, may }) {
  const fields = h("div");
  const receipts = h("div");
  const readers = h("div");
  const reacted = h("div");
  const title = h("h2");
  const edit = button("Edit", { key: "edit", onclick: acts.edit });
  const recall = button("Recall", { key: "recall", kind: "danger", onclick: acts.recall });
  const copy = button("Copy JSON", { key: "copy", title: tip("copy"), onclick: acts.copy });
  const link = button("Copy link", { key: "link", title: tip("link"), onclick: acts.link });
  const element = h("aside", { class: "detail", "aria-label": "Message", hidden: true },
    h("header", {}, title, h("button", { type: "button", class: "ghost", "aria-label": "Close", title: tip("back", "Close"), onclick: acts.close }, icon("close"))),
    h("div", { class: "scrolls", tabindex: "0", role: "group", "aria-label": "Fields" }, fields, receipts, readers, reacted),
    h("div", { class: "acts col" }, edit, copy, link, recall));
  let shown = null;
  let asked = 0;

  function show(message) {
    element.hidden = message === null;
    if (message === shown) return;
    if (message?.sequence !== shown?.sequence) (fill(receipts), ask(message));
    shown = message;
    if (message === null) return;
    fill(title, `Message ${count(message.sequence)}`);
    fill(fields, told(message), h("h3", {}, "Entry"), message.entry ? block(message.entry) : h("p", { class: "gone" }, gone(message)));
    fill(reacted, reactions(message));
    const right = may("moderate") || may("edit");
    for (const [one, wants] of [[edit, "Edit"], [recall, "Recall"]]) {
      one.disabled = !right || !message.entry;
      one.title = right ? tip(one === edit ? "edit" : "recall") : `${wants} needs the right edit or moderate`;
    }
  }

  function told(message) {
    const { timestamp, sender, message_id, edited_at, change, expires_at, entry, pinned, recalled_by } = message;
    const grows = growth(message);
    const known = [
      ["Appended", exactly(timestamp)],
      ["Sender", sender === undefined ? h("i", {}, "none") : visible(sender)],
      ["Message ID", h("code", { title: visible(message_id) }, short(visible(message_id)))],
      edited_at && ["Edited", exactly(edited_at)],
      grows && ["Grows", grows],
      change && ["Change", count(change)],
      recalled_by && ["Recalled by", visible(recalled_by)],
      expires_at && ["Expires", exactly(expires_at)],
      pinned && ["Pinned", "for all"],
      entry && ["Size", bytes(size(entry))],
    ];
    return pairs(...known.filter(Boolean));
  }

  const short = (id) => (id.length > 22 ? `${id.slice(0, 13)}…${id.slice(-4)}` : id);

  function reactions({ reactions = {} }) {
    const names = Object.entries(reactions);
    if (!names.length) return null;
    return [h("h3", {}, "Reactions"), h("p", { class: "reacts" }, names.map(([name, { count: number, users }]) =>
      h("span", { title: `Last: ${users.map((user) => visible(user)).join(", ")}` }, visible(name), h("b", {}, count(number)))))];
  }

  /** Who has read the message. */
  async function ask(message = shown) {
    const mine = (asked += 1);
    if (!message || !members || message.hidden) return fill(receipts);
    const { sequence } = message;
    try {
      const { read_count, received_count } = await server.call("receipt.list", { timeline, sequence, limit: 1 }, { signal });
      if (mine !== asked) return;
      fill(receipts, h("h3", {}, "Read by"), h("p", { class: "reads" }, track(received_count / members, read_count / members),
        h("span", {}, h("b", {}, count(read_count)), " read"), h("span", {}, h("b", {}, count(received_count)), " received"), h("span", {}, `of ${count(members)}`)));
    } catch (error) {
      if (mine !== asked || signal.aborted) return;
      const why = error.reason === "too_many" ? `Not counted above ${many(error.data.limit ?? 1000, "member")}.` : `Not known: ${reasonOf(error)}`;
      fill(receipts, h("h3", {}, "Read by"), h("p", { class: "foot" }, why));
    }
  }

  let members = 0;

  return {
    element,
    show,
    /** What the timeline's poll has found. */
    heard({ members_count, head }, reading) {
      const first = members === 0 && members_count > 0;
      members = members_count;
      if (shown && (first || !document.hidden)) ask();
      const item = (name, value) => h("li", {}, h("span", {}, name), h("em", {}, value));
      const behind = ({ position, lag_ms }) => `${lag_ms >= 1_000 ? lasts(lag_ms) : many(head - position, "message")} behind`;
      const slow = reading?.slowest.filter(({ position }) => position < head).slice(0, 5) ?? [];
      fill(readers, reading?.count > 0 && [
        h("h3", {}, "Live readers"),
        h("ul", { class: "lag" }, item("at the edge", count(reading.at_head)), slow.map((one) => item(visible(one.user ?? one.session.slice(0, 8)), behind(one)))),
      ]);
    },
  };
}
