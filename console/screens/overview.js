// Overview: is it well, how much, since when, where; an operator's questions in their order.
//
// Owns: that page. Promises: each notice of the server is there in words, with since when and what to do; figures of the
// last hour at once; what can't be read says why in its own panel, and the rest stays. Must not: ask for /metrics itself.

import { axis, crosshair, heat, lane, spark } from "../charts.js";
import { fill, h, icon, table, write } from "../dom.js";
import { brief, bytes, clock, count, lasting, lasts, lineText, many, minute, short, visible, when } from "../format.js";
import { figures } from "../figures.js";
import { partitionTable } from "../partition-table.js";
import { server } from "../server.js";
import { failed, withPart } from "../states.js";

export const screen = {
  figures: true,
  open({ root, signal, href }) {
    const above = [state(), numbers(), charts()];
    const three = [wayPanel(), storagePanel(), logPanel(href)];
    const below = partitionPanel();
    const elements = (parts) => parts.map(({ element }) => element);
    root.classList.add("pad");
    fill(root, elements(above), h("div", { class: "three" }, elements(three)), below.element);
    const known = { partitions: null, partitions_error: null, lines: [], lines_error: null };
    const paint = () => {
      known.range = figures.columns();
      for (const part of [...above, ...three, below]) part.draw(known);
    };
    /** What is known stays where it can't be read, and why. */
    const keep = (name, reading) => reading.then(
      () => (known[name] = null),
      (error) => error.reason !== "connection_lost" && (known[name] = error),
    );
    const read = async () => {
      await Promise.all([keep("partitions_error", readPartitions(known, signal)), keep("lines_error", readLines(known, signal))]);
      if (!signal.aborted) paint();
    };
    figures.on("figures", read, { signal });
    figures.on("range", paint, { signal });
    server.on("status", paint, { signal });
    server.on("state", paint, { signal });
    const resized = new ResizeObserver(paint);
    resized.observe(root);
    signal.addEventListener("abort", () => resized.disconnect());
    paint();
    read();
    return { resume: read };
  },
};

async function readPartitions(known, signal) {
  const { partitions } = await server.call("partition.list", {}, { signal });
  known.partitions = partitions.filter(({ state }) => state !== "ended");
}

const LINES_KEPT = 200;

async function readLines(known, signal) {
  const { next, lines } = await server.call("log.tail", { after: known.next }, { signal });
  known.next = next;
  known.lines = [...known.lines, ...lines].slice(-LINES_KEPT);
}

// --- is it well?

const isGrave = ({ severity }) => severity === "critical";

/** What is so, in one sentence: [class, first words, the rest]. */
function sentence({ state, status, status_error, heard_at }, partitions) {
  if (state === "lost" || state === "over") return ["bad", "The line is lost.", `Nothing is known of the server since ${heard_at ? clock(heard_at) : "the start"}.`];
  if (!status) return status_error ? ["warn", "Nothing is known of the server’s state:", visible(status_error.message)] : ["", "", ""];
  const all = partitions ?? [];
  const stopped = all.filter((one) => one.state === "stopped");
  const named = (some) => `${some.length === 1 ? "Partition" : "Partitions"} ${some.map((one) => one.partition).join(", ")}`;
  if (stopped.length > 0) {
    const rest = stopped.length === all.length ? "no write is taken" : `the other ${all.length - stopped.length} commit`;
    return ["bad", `${named(stopped)} ${stopped.length === 1 ? "has" : "have"} stopped.`, `Writes to ${stopped.length === 1 ? "it" : "them"} are refused, reads go on; ${rest}.`];
  }
  if (!status.ready) return ["bad", "Not ready:", visible(status.reason ?? "the server says no reason")];
  const slowed = all.filter((one) => one.state !== "serving");
  const commit = all.length ? `${all.length === 1 ? "The only partition commits" : `All ${all.length} partitions commit`}` : "It commits";
  if (slowed.length > 0) return ["warn", "Serving, slower.", `${commit}; ${named(slowed).replace("P", "p")} ${slowed.length === 1 ? "is" : "are"} held back.`];
  const troubles = status.notices.filter(({ severity }) => severity !== "info");
  if (troubles.length === 0) return ["good", "Serving.", `${commit}, nothing is refused.`];
  return [troubles.some(isGrave) ? "bad" : "warn", "Serving.", `${commit}; ${many(troubles.length, "thing needs", "things need")} a look.`];
}

function state() {
  const mark = h("span", { class: "dot" });
  const said = h("p");
  const notices = h("ul", { class: "notices" });
  const element = h("section", { class: "well", "aria-label": "Is it well?" }, h("div", { class: "state" }, mark, said), notices);
  let before = "";
  return {
    element,
    draw({ partitions }) {
      const [kind, first, rest] = sentence(server, partitions);
      mark.className = `dot ${kind}`;
      const found = server.status?.notices ?? [];
      const now = JSON.stringify([kind, first, rest, found]);
      if (now === before) return;
      before = now;
      fill(said, h("b", {}, first), ` ${rest}`);
      fill(notices, found.map(row));
    },
  };
}

const row = ({ severity, since, what, advice }) =>
  h("li", { class: `notice ${severity}` }, icon(severity === "critical" ? "bad" : severity === "info" ? "next" : "warn"),
    h("p", {}, h("b", {}, visible(what)), since && ["  ", h("time", {}, `since ${since > Date.now() - 86_400_000 ? minute(since) : when(since)}`)], h("span", {}, `  ${visible(advice ?? "")}`)));

// --- how much?

function numbers() {
  const figure = (name, kind, pick, value, sub) => {
    const [big, unit, below, line] = [h("span"), h("small"), h("p", { class: "sub" }), spark()];
    return {
      element: h("div", { class: `figure ${kind}` }, h("h2", {}, name), h("p", { class: "big" }, big, unit), below, line.element),
      draw({ range }) {
        line.draw(range, pick);
        const [number, of] = value(range);
        write(big, number);
        write(unit, of);
        write(below, sub(range));
      },
    };
  };
  const newest = (name) => figures.newest?.values[name] ?? null;
  const perSecond = (name) => () => {
    const [number, of] = short(newest(name));
    return [number, `${of}/s`];
  };
  const peak = (range, name) => Math.max(0, ...range.columns.map((column) => column?.values[name] ?? 0));
  const lately = (range, share) => latency(range.columns.slice(-6), share);
  const all = [
    figure("Appends", "", (column) => column.values.appends, perSecond("appends"), (range) => `peak ${brief(peak(range, "appends"))}`),
    figure("Deliveries", "second", (column) => column.values.deliveries, perSecond("deliveries"), () => readers(newest("deliveries"), newest("appends"))),
    figure("Append p99", "", (column) => latency([column], 0.99), (range) => lasting(lately(range, 0.99)), (range) => `p50 ${lasts(lately(range, 0.5))}`),
    figure("Connections", "", (column) => column.values.connections, () => [count(newest("connections")), ""], () => `${count(newest("subscriptions"))} subscriptions`),
  ];
  return { element: h("section", { class: "panel figures", "aria-label": "How much?" }, all.map(({ element }) => element)), draw: (known) => all.forEach((one) => one.draw(known)) };
}

const readers = (deliveries, appends) => (appends > 0 && deliveries !== null ? `${brief(deliveries / appends)} readers a message` : "nothing appended");

/** A quantile of append latency over some columns, ms. */
function latency(columns, share) {
  const counts = [];
  for (const column of columns) column?.counts?.forEach((value, at) => (counts[at] = (counts[at] ?? 0) + value));
  const value = figures.quantile({ les: figures.buckets, counts }, share);
  return value === null ? null : value * 1000;
}

// --- since when?

function charts() {
  const hair = crosshair();
  const deliveries = lane({ name: "Deliveries", kind: "second", unit: "/s", hair });
  const appends = lane({ name: "Appends", unit: "/s", hair });
  const map = heat({ hair, figures });
  const axes = [axis(), axis()];
  const button = (open) => h("button", { type: "button", class: "ghost as-table", onclick: open }, "as table");
  const element = h("div", { class: "two", role: "group", "aria-label": "Since when?" },
    h("section", { class: "panel" }, h("header", {}, h("h2", {}, "Traffic"), button(trafficTable), h("p", {}, "a second")), deliveries.element, appends.element, axes[0].element),
    h("section", { class: "panel" }, h("header", {}, h("h2", {}, "Append latency"), button(latencyTable), map.key), map.element, axes[1].element));
  return {
    element,
    draw({ range, lines }) {
      const marks = events(lines);
      deliveries.draw(range, (column) => column.values.deliveries, marks);
      appends.draw(range, (column) => column.values.appends, marks);
      map.draw(range, marks);
      axes.forEach((one) => one.draw(range));
    },
  };
}

const TOGETHER_MS = 20_000;

/** Warnings and notices as marks; those that come together are one. */
function events(lines) {
  const found = lines.filter(({ level }) => ["warn", "error"].includes(level)).map((line) => ({ at: line.at, label: visible(line.message).slice(0, 36) }));
  for (const { severity, since, what } of server.status?.notices ?? []) if (since && severity !== "info") found.push({ at: since, label: visible(what).slice(0, 36) });
  found.sort((a, b) => a.at - b.at);
  return found.filter(({ at }, index) => index === 0 || at - found[index - 1].at > TOGETHER_MS);
}

/** The same figures for those who read rather than look: a row of each column of which something is known. */
function asTable(title, heads, row) {
  const rows = figures.columns().columns.filter((column) => column).reverse().map(row);
  withPart("dialog", ({ show }) => show({ title, body: h("div", { class: "scrolls", tabindex: "0" }, table(heads, rows, "n")) }));
}

const trafficTable = () =>
  asTable("Traffic, a second", ["Time", "Appends", "Deliveries"], ({ at, values }) => [clock(at), brief(values.appends), brief(values.deliveries)]);

const latencyTable = () =>
  asTable("Append latency", ["Time", "p50", "p99", "Appends"], (column) =>
    [clock(column.at), lasts(latency([column], 0.5)), lasts(latency([column], 0.99)), count(column.counts?.reduce((a, b) => a + b, 0) ?? 0)]);

// --- where?

const STEPS = [["Fill", "tideline_commit_fill_seconds"], ["Write", "tideline_commit_write_seconds"], ["Sync", "tideline_commit_sync_seconds"]];
const WHOLE = [["Answered", "tideline_request_seconds", { method: "message.append" }], ["Pushed", "tideline_feed_delay_seconds"]];

function wayPanel() {
  const body = h("tbody");
  const head = h("td", { class: "bar ticks" });
  const foot = h("p", { class: "foot" });
  const element = h("section", { class: "panel" }, h("header", {}, h("h2", {}, "Steps of an append"), h("p", { class: "legends" }, h("span", {}, h("i", { class: "sw" }), "p50"), h("span", {}, h("i", { class: "sw w" }), "to p99"))),
    h("table", { class: "way" }, h("thead", {}, h("tr", {}, h("th", {}, h("span", { class: "unseen" }, "Step")), head, h("th", { scope: "col", class: "n" }, "p50"), h("th", { scope: "col", class: "n" }, "p99"))), body), foot);
  const both = (name, where) => [0.5, 0.99].map((share) => figures.quantile(figures.histogram(name, where), share)).map((value) => (value === null ? null : value * 1000));
  return {
    element,
    draw() {
      if (!figures.now) return;
      const measured = ([name, metric, where]) => {
        const [p50, p99] = both(metric, where);
        return { name, from: 0, p50, p99, push: name === "Pushed" };
      };
      const steps = STEPS.map(measured);
      let from = 0;
      for (const one of steps) {
        one.from = from;
        from += one.p50 ?? 0;
      }
      const rows = [...steps, ...WHOLE.map(measured)];
      const most = Math.max(...rows.map(({ from: begin, p99 }) => begin + (p99 ?? 0)), 0.1);
      const step = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000].find((one) => one * 5 >= most) ?? 30_000;
      const top = step * Math.max(2, Math.ceil(most / step));
      fill(head, Array.from({ length: top / step }, (_, at) => h("span", { style: { left: `${((at * step) / top) * 100}%` } }, at * step === top - step ? lasts(at * step) : String(Math.round(at * step * 10) / 10))));
      const share = (value) => `${Math.min(100, (value / top) * 100)}%`;
      fill(body, rows.map(({ name, from: begin, p50, p99, push }) => h("tr", {}, h("th", { scope: "row" }, name),
        h("td", { class: "bar", style: { "--step": `${(step / top) * 100}%` } }, p99 !== null && [h("i", { class: push ? "w push" : "w", style: { left: share(begin), width: share(p99) } }), h("i", { class: push ? "s push" : "s", style: { left: share(begin), width: share(p50) } })]),
        [p50, p99].map((value) => h("td", { class: "n" }, value === null ? "–" : value >= 99.5 ? Math.round(value) : value.toFixed(value >= 9.95 ? 1 : 2))))));
      const batches = figures.histogram("tideline_commit_batch_closures");
      const size = figures.histogram("tideline_commit_batch_bytes");
      const syncs = figures.rate("tideline_commit_batches_total");
      write(foot, batches.count > 0 ? `A batch: ${many(Math.round(batches.sum / batches.count), "write")}, ${bytes(size.sum / size.count)} · ${syncs === null ? "–" : brief(Math.round(syncs))} syncs a second · ms` : "No batch was written in the last minute.");
    },
  };
}

function storagePanel() {
  const when_full = h("p");
  const box = h("div", { class: "holds" });
  return {
    element: h("section", { class: "panel" }, h("header", {}, h("h2", {}, "Storage"), when_full), box),
    draw() {
      const of = server.status?.storage;
      if (!of) return void (server.status_error && fill(box, failed(server.status_error, () => server.refresh())));
      const rows = [["k2", "Live rows", of.live], ["k3", "To be reclaimed", of.dead], ["k4", "Free pages", of.free], ["k1", "Commit log", of.log]];
      const whole = rows.reduce((total, [, , value]) => total + value, of.disk_free ?? 0);
      write(when_full, of.full_in_s === undefined ? "not filling" : `full in about ${lasts(of.full_in_s * 1000)}`);
      fill(box,
        h("div", { class: "stack", role: "img", "aria-label": `${rows.map(([, name, value]) => `${name} ${bytes(value)}`).join(", ")}, disk free ${bytes(of.disk_free)}` },
          rows.map(([kind, , value]) => h("i", { class: kind, style: { width: `${(value / whole) * 100}%` } }))),
        h("dl", { class: "legend" }, [...rows, ["k5", "Disk free", of.disk_free]].map(([kind, name, value]) => h("div", {}, h("dt", {}, h("b", { class: kind }), name), h("dd", {}, bytes(value))))));
    },
  };
}

const LINES_SHOWN = 6;

function logPanel(href) {
  const box = h("ul");
  return {
    element: h("section", { class: "panel log" }, h("header", {}, h("h2", {}, "Log"), h("a", { href: href({ screen: "log" }) }, "All")), box),
    draw({ lines, lines_error }) {
      if (lines_error && lines.length === 0) return void fill(box, h("li", { class: "why" }, visible(lines_error.message)));
      fill(box, lines.slice(-LINES_SHOWN).reverse().map((line) => h("li", { class: line.level }, h("time", {}, clock(line.at)), h("b", { role: "img", "aria-label": line.level }), h("span", { title: lineText(line) }, lineText(line)))));
    },
  };
}

function partitionPanel() {
  const about = h("p");
  const box = h("div", { class: "scrolls" });
  return {
    element: h("section", { class: "panel flush" }, h("header", {}, h("h2", {}, "Partitions"), about), box),
    draw({ partitions, partitions_error }) {
      if (!partitions) return void (partitions_error && fill(box, failed(partitions_error)));
      const commit = partitions.filter((one) => one.state !== "stopped").length;
      write(about, `${commit} of ${partitions.length} commit`);
      fill(box, partitionTable(partitions));
    },
  };
}
