// Charts of time, drawn in SVG.
//
// Owns: the axes, lines, the heat map of a histogram, sparks, one crosshair for all charts of a screen. Promises: zero
// base for lines, at most three gridlines, a gap where nothing is known. Must not: read figures by itself.

import { fill, h, svg, write } from "./dom.js";
import { brief, clock, lasts, minute } from "./format.js";

const LEFT = 44;

/** 0 and up to three gridlines up to a round top that holds `most`. */
function ticks(most) {
  if (!(most > 0)) return [0, 1];
  const size = 10 ** Math.floor(Math.log10(most));
  const top = [1, 1.5, 2, 3, 4, 6, 8, 10].find((one) => one * size >= most) * size;
  const parts = Number.isInteger((top / size) * 10 / 2) ? 2 : 3;
  return Array.from({ length: parts + 1 }, (_, at) => (top * at) / parts);
}

/** Runs of neighbours that are not null: [[{x, y}…]…]. */
function runs(spots) {
  const found = [[]];
  for (const spot of spots) {
    if (spot) found.at(-1).push(spot);
    else if (found.at(-1).length) found.push([]);
  }
  return found.filter((run) => run.length);
}

const xy = ({ x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`;
const linePath = (spots) => runs(spots).map((run) => `M${run.map(xy).join("L")}${run.length === 1 ? "h1" : ""}`).join("");
const areaPath = (spots, base) => runs(spots).map((run) => `M${run[0].x.toFixed(1)} ${base}L${run.map(xy).join("L")}L${run.at(-1).x.toFixed(1)} ${base}Z`).join("");

/** What all charts of a screen share: where the pointer is, as a time. */
export function crosshair() {
  const charts = [];
  const move = (at) => charts.forEach((chart) => chart.point(at));
  return (element, chart, time) => {
    charts.push(chart);
    element.addEventListener("pointermove", (event) => move(time(event.offsetX)));
    element.addEventListener("pointerleave", () => move(null));
  };
}

const MARKS_MAX = 12;

function marksOf(marks, x, range, bottom, labelled) {
  const inside = marks.filter(({ at }) => at >= range.from && at <= range.to).slice(-MARKS_MAX);
  return inside.map(({ at, label }, index) => [
    svg("path", { class: "mark", d: `M${x(at).toFixed(1)} 0V${bottom}` }, svg("title", {}, `${clock(at)} ${label}`)),
    labelled && index === inside.length - 1 && svg("text", { class: x(at) > 280 ? "marked r" : "marked", x: x(at) + (x(at) > 280 ? -6 : 6), y: 14 }, label),
  ]);
}

/** One series over time with its name and newest value above. `draw(range, pick, marks)`; `pick(column)` is its value. */
export function lane({ name, kind = "", unit = "", hair }) {
  const figure = h("span");
  const element = h("div", { class: `lane ${kind}` }, h("p", { class: "lane-name" }, h("i", { class: `sw ${kind}` }), name, figure));
  const height = 64;
  const drawn = svg("svg", { class: `chart ${kind}`, height, role: "img", "aria-label": name });
  element.append(drawn);
  let shown = null;
  const chart = {
    element,
    draw(range, pick, marks) {
      const width = drawn.clientWidth || 500;
      const values = range.columns.map((column) => (column ? (pick(column) ?? null) : null));
      const grid = ticks(Math.max(0, ...values.filter((value) => value !== null)));
      const [top, bottom] = [4, height - 2];
      const x = (at) => LEFT + ((at - range.from) / (range.to - range.from)) * (width - LEFT);
      const y = (value) => bottom - (value / grid.at(-1)) * (bottom - top);
      const spots = values.map((value, at) => value === null ? null : { x: x(range.columns[at].at), y: y(value) });
      fill(
        drawn,
        grid.map((value) => [svg("path", { class: "grid", d: `M${LEFT} ${y(value).toFixed(1)}H${width}` }), svg("text", { class: "r", x: LEFT - 8, y: y(value) + 4 }, brief(value).replace(" ", ""))]),
        svg("path", { class: "fill", d: areaPath(spots, bottom) }),
        svg("path", { class: "line", d: linePath(spots) }),
        marksOf(marks, x, range, bottom, false),
        svg("path", { class: "hair", d: "" }),
      );
      shown = { range, values, x, time: (px) => range.from + ((px - LEFT) / (width - LEFT)) * (range.to - range.from), bottom };
      chart.point(null);
    },
    point(at) {
      if (!shown) return;
      const { range, values, x, bottom } = shown;
      const index = at === null ? values.findLastIndex((value) => value !== null) : Math.floor((at - range.from) / range.step_ms);
      const value = values[index] ?? null;
      write(figure, `${at === null || index < 0 || index >= values.length ? "" : `${clock(range.from + index * range.step_ms)}   `}${value === null ? "–" : `${brief(value)}${unit}`}`);
      drawn.querySelector(".hair")?.setAttribute("d", at === null || at < range.from || at > range.to ? "" : `M${x(at).toFixed(1)} 0V${bottom}`);
    },
  };
  hair(drawn, chart, (px) => shown?.time(px) ?? null);
  return chart;
}

/** Times below charts. */
export function axis() {
  const element = h("p", { class: "axis" });
  return { element, draw: ({ from, to }) => fill(element, [0, 1, 2, 3].map((part) => h("span", {}, minute(from + ((to - from) * part) / 3)))) };
}

const LEVELS = [0.02, 0.1, 0.25, 0.5]; // shares of a column's appends where the next darker step begins

/** Latency as the histogram's own buckets, one column each, with p50 and p99 as lines. */
export function heat({ hair, figures }) {
  const height = 168;
  const drawn = svg("svg", { class: "chart heat", height, role: "img", "aria-label": "Append latency by buckets" });
  const [p99, p50] = [h("em"), h("em")];
  const key = h("p", { class: "legends" },
    h("span", {}, h("i", { class: "ln p99k" }), "p99", p99), h("span", {}, h("i", { class: "ln p50k" }), "p50", p50),
    h("span", { class: "ramp", title: "The darker, the larger the share of appends that took so long" }, [1, 2, 3, 4, 5].map((level) => h("i", { class: `h${level}` })), "share"));
  let shown = null;
  const of = (column, share) => (column?.counts ? figures.quantile({ les: figures.buckets, counts: column.counts }, share) : null);
  const chart = {
    element: drawn,
    key,
    draw(range, marks = []) {
      const width = drawn.clientWidth || 500;
      const les = figures.buckets;
      const totals = range.columns.map((column) => column?.counts?.reduce((a, b) => a + b, 0) ?? 0);
      const used = les.map((_, at) => range.columns.some((column, i) => column?.counts?.[at] / totals[i] >= 0.002));
      const low = Math.max(0, Math.min(used.indexOf(true), les.length - 1));
      const high = Math.min(Math.max(used.lastIndexOf(true), low + 6), les.length - 2);
      const [top, bottom] = [4, height - 4];
      const row = (bottom - top) / Math.max(1, high - low + 1);
      const x = (at) => LEFT + ((at - range.from) / (range.to - range.from)) * (width - LEFT);
      const wide = (width - LEFT) / range.columns.length;
      const cells = ["", "", "", "", ""];
      for (const [at, column] of range.columns.entries()) {
        if (!column?.counts || totals[at] === 0) continue;
        for (let bucket = low; bucket <= high; bucket++) {
          const share = (column.counts[bucket] + (bucket === high ? (column.counts[high + 1] ?? 0) : 0)) / totals[at];
          if (share < 0.002) continue;
          const level = LEVELS.filter((least) => share >= least).length;
          cells[level] += `M${(LEFT + at * wide).toFixed(1)} ${(bottom - (bucket - low + 1) * row).toFixed(1)}h${Math.max(0.5, wide - 0.6).toFixed(1)}v${row.toFixed(1)}h-${Math.max(0.5, wide - 0.6).toFixed(1)}z`;
        }
      }
      // Inside of a bucket as on its axis: evenly.
      const y = (seconds) => {
        const at = Math.max(low, Math.min(high, les.findIndex((le) => seconds <= le)));
        const [from, to] = [at > 0 ? les[at - 1] : 0, les[at]];
        return bottom - (at - low + Math.min(1, Math.max(0, (seconds - from) / (to - from)))) * row;
      };
      const spots = (share) => range.columns.map((column) => { const value = of(column, share); return value === null ? null : { x: x(column.at), y: y(value) }; });
      const every = Math.ceil((high - low + 2) / 9);
      fill(
        drawn,
        cells.map((d, at) => svg("path", { class: `h${at + 1}`, d })),
        Array.from({ length: high - low + 2 }, (_, at) => at).filter((at) => (high - low + 1 - at) % every === 0).map((at) => {
          const edge = low + at - 1 < 0 ? 0 : les[low + at - 1];
          const line = bottom - at * row;
          return [svg("path", { class: "grid", d: `M${LEFT} ${line.toFixed(1)}H${width}` }), svg("text", { class: "r", x: LEFT - 8, y: line + 4 }, at === high - low + 1 ? lasts(edge * 1000) : edge >= 1 ? `${edge} s` : String(Math.round(edge * 10000) / 10))];
        }),
        svg("path", { class: "p99", d: linePath(spots(0.99)) }),
        svg("path", { class: "p50", d: linePath(spots(0.5)) }),
        marksOf(marks, x, range, bottom, true),
        totals.every((total) => total === 0) && svg("text", { class: "nothing", x: LEFT + (width - LEFT) / 2, y: height / 2 }, "No appends in this time"),
        svg("path", { class: "hair", d: "" }),
      );
      shown = { range, x, bottom, time: (px) => range.from + ((px - LEFT) / (width - LEFT)) * (range.to - range.from) };
      chart.point(null);
    },
    point(at) {
      if (!shown) return;
      const { range, x, bottom } = shown;
      // Values are those of the column that is pointed at: what is so now, the figure above says.
      const column = at === null ? null : range.columns[Math.floor((at - range.from) / range.step_ms)];
      for (const [element, share] of [[p99, 0.99], [p50, 0.5]]) {
        const value = of(column, share);
        write(element, column === null ? "" : value === null ? "–" : lasts(value * 1000));
      }
      drawn.querySelector(".hair")?.setAttribute("d", at === null || at < range.from || at > range.to ? "" : `M${x(at).toFixed(1)} 0V${bottom}`);
    },
  };
  hair(drawn, chart, (px) => shown?.time(px) ?? null);
  return chart;
}

/** A small line without axes, its newest value as a dot. */
export function spark() {
  const [width, height] = [94, 28];
  const drawn = svg("svg", { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  return {
    element: drawn,
    draw(range, pick) {
      const values = range.columns.map((column) => (column ? (pick(column) ?? null) : null));
      const most = Math.max(...values.filter((value) => value !== null), 0) || 1;
      const spots = values.map((value, at) => value === null ? null : { x: (at / (values.length - 1)) * (width - 3), y: height - 2 - (value / most) * (height - 6) });
      const last = spots.findLast((spot) => spot);
      fill(drawn, svg("path", { class: "fill", d: areaPath(spots, height) }), svg("path", { class: "line", d: linePath(spots) }), last && svg("circle", { cx: last.x, cy: last.y, r: 2.5 }));
    },
  };
}
