// Partitions as a table: on the overview and on their own screen.
//
// Owns: that table, and what each state means. Must not: read anything by itself but the newest figures.

import { h } from "./dom.js";
import { bytes, count, lasts, visible } from "./format.js";
import { figures } from "./figures.js";

const STATES = {
  serving: ["", "Serving", "It takes writes."],
  slowed: ["warn", "Slowed", "Writers are held back a little, because flush or compaction is behind. It passes when they have caught up; if it stays, the disk is too slow for this load."],
  busy: ["bad", "Refusing", "Its queue is full, so that writes are answered with busy. Send less, or give it a faster disk."],
  full: ["bad", "Full", "Writes are refused, as there is no room left for them. See the notices of the overview."],
  stopped: ["bad", "Stopped", "The disk has failed. Writes are refused, reads go on. Look at the log and the disk, then restart the server."],
};
export const stateOf = ({ state }) => STATES[state] ?? ["warn", state, ""];

const meter = (share, said, hot, more = "") => h("td", { class: `meter ${hot ? "hot" : ""} ${more}` }, h("i", { class: "track" }, h("i", { style: { width: `${Math.min(100, Math.max(0, share * 100))}%` } })), h("em", {}, said));

/** The table of partitions; with `href` each is a link to itself. */
export function partitionTable(partitions, { chosen = null, href = null } = {}) {
  const slow = figures.sum("tideline_limit", { limit: "level0_slow_runs" }) || 16;
  const heads = ["No.", "State", ["Log position", "n"], ["Queue", "gap"], "Memtable", "Level-0 runs", ["Sync p99", "n"], ["Feed lag", "n"], ["Relay lag", "n"]];
  return h("table", { class: "grid" },
    h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col", class: Array.isArray(head) ? head[1] : null }, Array.isArray(head) ? head[0] : head)))),
    h("tbody", {}, partitions.map((one) => {
      const [kind, name] = stateOf(one);
      const sync = figures.now ? figures.quantile(figures.histogram("tideline_commit_sync_seconds", { partition: one.partition }), 0.99) : null;
      const number = href ? h("a", { href: href({ path: [String(one.partition)] }) }, one.partition) : one.partition;
      const chosen_now = String(one.partition) === chosen;
      return h("tr", { class: `${kind && `is-${kind}`} ${chosen_now ? "sel" : ""}`, "aria-current": chosen_now },
        h("th", { scope: "row" }, number),
        h("td", {}, h("span", { class: `st ${kind}`, title: one.reason ? visible(one.reason) : null }, name)),
        h("td", { class: "n" }, count(one.log.position)),
        meter(one.queue.fill, count(one.queue.writes), one.queue.fill >= 0.8, "gap"),
        h("td", {}, bytes(one.memtable.bytes)),
        meter(one.image.level0 / slow, `${count(one.image.level0)} of ${slow}`, one.image.level0 >= slow * 0.6),
        [sync === null ? null : sync * 1000, one.feed.lag_ms, one.relay.lag_ms].map((ms) => h("td", { class: "n" }, lasts(ms))));
    })));
}
