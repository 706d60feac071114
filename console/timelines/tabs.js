// The other tabs of a timeline: members, readers, settings.
//
// Owns: how they look. Promises: members come in pages as they are scrolled to; readers are the slowest first, of a
// number that the server knows; what is not allowed says which right it needs. Must not: change anything itself.

import { fill, h, write } from "../dom.js";
import { block, command, kept, reasonOf } from "./message.js";
import { age, clock, count, day, lasts, many, visible } from "../format.js";
import { list } from "../list.js";
import { server } from "../server.js";
import { pairs } from "../split.js";
import { empty, failed, load } from "../states.js";

const PAGE = 200;
const KEPT = 2_000;

const head = (kind, ...titles) => h("div", { class: `mhead ${kind}`, "aria-hidden": "true" }, titles.map((title) => h("span", {}, title)));

export function members({ box, timeline, signal, go, call, head: newest }) {
  let next;
  let reading = false;
  const rows = list({ label: "Members", class: "members", near_end: more, render, open: ({ user }) => go({ screen: "conversations", path: [user], query: { at: timeline } }) });
  const foot = h("p", { class: "edge" });

  const figure = (value) => h("span", { class: "n" }, count(value));
  function render({ user, role, read, received, visible_from, joined_at }) {
    return [
      h("span", { class: "from" }, visible(user)), h("span", {}, visible(role)), figure(read), figure(received),
      figure(Math.max(newest() - read, 0)), figure(visible_from), h("time", {}, `${day(joined_at)} ${clock(joined_at)}`),
    ];
  }

  async function page(after) {
    const found = await call("member.list", { timeline, after, limit: PAGE });
    next = found.next;
    rows.items = [...rows.items, ...found.members];
    const rest = next === undefined ? "" : rows.items.length < KEPT ? ", more as you scroll" : ": the first ones";
    write(foot, `${count(rows.items.length)} of ${many(found.members_count, "member")}${rest} · Enter: the conversations of a member`);
  }
  async function more() {
    if (reading || next === undefined || rows.items.length >= KEPT) return;
    reading = true;
    await page(next).catch((error) => signal.aborted || write(foot, `No more could be read: ${reasonOf(error)}`));
    reading = false;
  }
  const titles = head("members", "User", "Role", "Read", "Received", "Behind", "Sees from", "Joined");
  const none = "Without members a timeline is for everybody who may read it. With the first member it becomes a conversation:";
  const nobody = () => empty("No members", none, command("member.add", { timeline, members: [{ user: "ann" }] }));
  load(box, () => page(), () => (rows.items.length ? [titles, rows.element, foot] : nobody()), { signal });
  return { rows };
}

export function readers({ box, go, href, head: newest }) {
  const rows = list({ label: "Readers", class: "readers", render, open: ({ session }) => go({ screen: "sessions", path: [session] }) });
  const own = server.session?.session.replaceAll("-", "");

  function render({ session, user, position, lag_ms }) {
    return [
      h("span", { class: "from" }, session === own ? "this console" : visible(user ?? "nobody")), h("span", { class: "seq" }, session),
      h("span", { class: "n" }, count(position)), h("span", { class: "n" }, count(Math.max(newest() - position, 0))),
      h("span", { class: "n" }, lasts(lag_ms)),
    ];
  }

  const foot = h("p", { class: "edge" });
  const sessions = h("a", { class: "link", href: href({ screen: "sessions" }) }, "All sessions");
  let shown = null;
  return {
    rows,
    heard(_, reading, error) {
      const state = reading ? (reading.count ? "rows" : "empty") : error ? "error" : null;
      if (reading) rows.items = reading.slowest;
      if (reading) {
        const all = many(reading.count, "connection subscribes", "connections subscribe");
        write(foot, `${all}, ${count(reading.at_head)} at the edge; the slowest ${count(reading.slowest.length)} are listed · Enter: the session`);
      }
      if (state === shown || !state) return;
      shown = state;
      if (state === "rows") fill(box, head("readers", "User", "Session", "Position", "Behind", "Lag"), rows.element, foot);
      else if (state === "empty") fill(box, empty("No readers", "Nobody subscribes to this timeline just now.", null, sessions));
      else fill(box, failed({ reason: "not_known", message: error }));
    },
  };
}

export function settings({ box, configure, may }) {
  const place = h("div", { class: "pad settings" });
  fill(box, place);
  const time = (at) => `${day(at)} ${clock(at)}, ${age(at)} ago`;
  let shown = "";
  return {
    heard(info) {
      const { settings: { retention, members_only, fan_out, fan_out_members_max, edit }, settings_version, meta, version, created_at, updated_at } = info;
      const mark = `${settings_version} ${version}`;
      if (mark === shown) return;
      shown = mark;
      fill(place,
        h("section", {}, h("h3", {}, "Settings in force"), pairs(
          ["Kept", kept(retention)],
          ["Readers", members_only ? "members only" : "everybody who may read it"],
          ["Fan-out", `${fan_out}${fan_out === "auto" ? `, up to ${many(fan_out_members_max, "member")}` : ""}`],
          ["Edits", `${edit.by === "sender" ? "by the sender" : "by anyone"}${edit.window_ms ? `, for ${lasts(edit.window_ms)}` : ""}`],
          ["Version", settings_version ? count(settings_version) : "never set: as the policy says"],
        ), h("button", { type: "button", disabled: !may("manage"), title: may("manage") ? null : "Configure needs the right manage", onclick: configure }, "Configure")),
        h("section", {}, h("h3", {}, "Meta, the app’s own"), block(meta),
          pairs(["Version", count(version)], ["Updated", time(updated_at)], ["Created", time(created_at)])));
    },
  };
}
