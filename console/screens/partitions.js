// Partitions: all that `partition.list` says of each, with the sync's time from /metrics.
//
// Owns: the table, and below it the one that is opened. Promises: read again with each new sample
// of figures. Must not: split or merge; the command line does (`tideline partition`).

import { fill, h } from "../dom.js";
import { bytes, count, lasts, many, visible } from "../format.js";
import { figures } from "../figures.js";
import { drives } from "../list.js";
import { partitionTable, stateOf } from "../partition-table.js";
import { server } from "../server.js";
import { pairs } from "../split.js";
import { load } from "../states.js";

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

function detail(one) {
  const [, name, means] = stateOf(one);
  const { log, queue, memtable, image, feed, relay } = one;
  const known = [
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
  return h("section", { class: "panel" }, h("header", {}, h("h2", {}, `Partition ${one.partition}`)), pairs(...known),
    h("p", { class: "foot" }, "Change their number with ", h("code", {}, `tideline partition split ${one.partition}`), "."));
}

const holds = (of) => of.map(({ by, position }) => `${visible(by)} at ${count(position)}`).join(", ") || "nobody";
