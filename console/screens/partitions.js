// Partitions: all that `partition.list` says of each, with the sync's time from /metrics.
//
// Owns: the table of the overview, and the screen with one partition opened. Promises: read again with each new sample
// of figures. Must not: split or merge; the command line does (`tideline partition`).

import { fill, h } from "../dom.js";
import { bytes, count, lasts, many, visible } from "../format.js";
import { figures } from "../figures.js";
import { drives } from "../keys.js";
import { server } from "../server.js";
import { load } from "../states.js";

const STATES = {
  serving: ["", "Serving", "It takes writes."],
  slowed: ["warn", "Slowed", "Writers are held back a little, because flush or compaction is behind. It passes when they have caught up; if it stays, the disk is too slow for this load."],
  busy: ["bad", "Refusing", "Its queue is full, so that writes are answered with busy. Send less, or give it a faster disk."],
  full: ["bad", "Full", "Writes are refused, as there is no room left for them. See the notices of the overview."],
  stopped: ["bad", "Stopped", "The disk has failed. Writes are refused, reads go on. Look at the log and the disk, then restart the server."],
};
const stateOf = ({ state }) => STATES[state] ?? ["warn", state, ""];

export const screen = {
  figures: true,
  async open({ root, view, signal, go, keys, href }) {
    let chosen = view.path[0] ?? null;
    let partitions = [];
    const box = h("div", { class: "all" });
    fill(root, box);
    root.classList.add("pad");
    const paint = () => {
      const one = partitions.find(({ partition }) => String(partition) === chosen);
      const shown = [h("section", { class: "panel flush" }, h("header", {}, h("h2", {}, many(partitions.length, "partition")), h("p", {}, "click one, or ", h("kbd", {}, "j"), " ", h("kbd", {}, "k"))), h("div", { class: "scrolls" }, partitionTable(partitions, { chosen, href }))), one && detail(one)];
      fill(box, shown);
    };
    const show = ({ partitions: read }) => {
      partitions = read.filter(({ state }) => state !== "ended");
      paint();
      return null;
    };
    const read = () => load(box, () => server.call("partition.list", {}, { signal }), show, { signal, keep: partitions.length > 0 });
    const move = (by) => {
      if (partitions.length === 0) return;
      const at = partitions.findIndex(({ partition }) => String(partition) === chosen);
      const next = partitions[Math.max(0, Math.min(partitions.length - 1, at + by))];
      go({ path: [String(next.partition)] }, { replace: true });
    };
    keys({ ...drives({ move, open() {}, page: 10, items: partitions, to_start: () => move(-Infinity), to_end: () => move(Infinity), select() {} }), back: () => go({ path: [] }) });
    figures.on("figures", () => partitions.length && read(), { signal });
    await read();
    return {
      resume: read,
      update(now) {
        chosen = now.path[0] ?? null;
        paint();
      },
    };
  },
};

const meter = (share, said, hot) => h("td", { class: hot ? "meter hot" : "meter" }, h("i", { class: "track" }, h("i", { style: { width: `${Math.min(100, Math.max(0, share * 100))}%` } })), h("em", {}, said));

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
      return h("tr", { class: [kind && `is-${kind}`, chosen_now && "sel"].filter(Boolean).join(" ") || null, "aria-current": chosen_now },
        h("th", { scope: "row" }, number),
        h("td", {}, h("span", { class: `st ${kind}`, title: one.reason ? visible(one.reason) : null }, name)),
        h("td", { class: "n" }, count(one.log.position)),
        ...queueAndMemory(one, slow),
        [sync === null ? null : sync * 1000, one.feed.lag_ms, one.relay.lag_ms].map((ms) => h("td", { class: "n" }, lasts(ms))));
    })));
}

function queueAndMemory({ queue, memtable, image }, slow) {
  const full = memtable.fill ?? null;
  const queued = meter(queue.fill, count(queue.writes), queue.fill >= 0.8);
  queued.classList.add("gap");
  return [queued, full === null ? h("td", {}, bytes(memtable.bytes)) : meter(full, `${Math.round(full * 100)} %`, full >= 0.9), meter(image.level0 / slow, `${count(image.level0)} of ${slow}`, image.level0 >= slow * 0.6)];
}

function detail(one) {
  const [, name, means] = stateOf(one);
  const { log, queue, memtable, image, feed, relay } = one;
  const pairs = [
    ["State", [name, one.reason && `: ${visible(one.reason)}`, " ", h("i", {}, means)]],
    ["Log", `position ${count(log.position)}, oldest ${count(log.oldest)}, ${bytes(log.bytes)}`],
    ["Held by", holds(log.holds)],
    ["Queue", `${many(queue.writes, "write")}, ${bytes(queue.bytes)}, ${Math.round(queue.fill * 100)} % full`],
    ["Memtable", `${bytes(memtable.bytes)}, ${many(memtable.frozen, "full one")} waiting to be flushed`],
    ["Image", `${many(image.runs, "run")}, ${image.level0} in level 0; ${bytes(image.used)} used, ${bytes(image.dead)} of it to be reclaimed`],
    ["Feed", `${lasts(feed.lag_ms)} behind`],
    ["Relay", `${lasts(relay.lag_ms)} behind, ${bytes(relay.backlog)} to do`],
    ["Inboxes", one.jobs ? `${many(one.jobs, "message")} not in all of them yet` : "all written"],
  ];
  return h("section", { class: "panel" }, h("header", {}, h("h2", {}, `Partition ${one.partition}`)), h("dl", { class: "pairs" }, pairs.map(([key, value]) => [h("dt", {}, key), h("dd", {}, value)])),
    h("p", { class: "foot" }, "Change their number with ", h("code", {}, `tideline partition split ${one.partition}`), "."));
}

const holds = (of) => of.map(({ by, position }) => `${visible(by)} at ${count(position)}`).join(", ") || "nobody";
