// Partitions: all that `partition.list` says of each.
//
// Owns: that table. Promises: read again every 2 s unless held or hidden. Must not: change a partition.

import { fill, h } from "../dom.js";
import { count } from "../format.js";
import { server } from "../server.js";
import { load } from "../states.js";

export const screen = {
  async open({ root, signal }) {
    const read = () => load(root, () => server.call("partition.list", {}, { signal }), table, { signal });
    await read();
    return { resume: read };
  },
};

const table = ({ partitions }) =>
  h("section", { class: "panel" }, h("table", { class: "grid" }, h("tbody", {}, partitions.map((one) => h("tr", {}, h("th", { scope: "row" }, count(one.partition)), h("td", {}, one.state ?? "serving"))))));
void fill;
