// Figures of the server: /metrics every 2 s, once for all screens, and the last hour from the server at the start.
//
// Owns: the poll, one point per poll of the last hour, histograms of the last minute. Promises: nothing is asked while
// the page is hidden, held or the line is lost, and what was missed then comes from `server.history`; a restart of the
// server, and a time of which nothing is known, is a gap, never a line. Must not: draw.

import { Events } from "./client/events.js";
import { beat, listening, server } from "./server.js";

const EVERY_MS = 2_000;
const KEPT_MS = 3_600_000;
const MINUTE_MS = 60_000;
const events = new Events();
/** {at, ms: what it covers, values: {name: number}, counts: [appends per bucket] or null}; oldest first. */
let points = [];
let scrapes = []; // {at, found}: of the last minute, for histograms
let minutes = 15;
let reading = null; // the read of the history that is under way

export const figures = {
  /** The newest scrape: name → [{labels, value}], or null. */
  now: null,
  /** Upper ends of the buckets of append latency, in seconds; the last is Infinity. */
  buckets: [],
  /** Events: "figures" (a new sample), "range". */
  on: listening(events),
  get minutes() {
    return minutes;
  },
  set minutes(wanted) {
    minutes = wanted;
    events.emit("range", minutes);
  },
  start() {
    events.emit("range", minutes);
    server.on("state", (state) => state === "open" && catchUp());
    server.on("held", (held) => held || catchUp());
    document.addEventListener("visibilitychange", () => document.hidden || catchUp());
    catchUp();
  },
  /** The newest point, or null. */
  get newest() {
    return points.at(-1) ?? null;
  },
  columns,
  quantile,
  /** The increase of a histogram in the last minute (since the server's start if only that is known), summed over the
   *  samples whose labels hold what `where` says: {les, counts, count, sum}. */
  histogram: (name, where = {}) => minus(histogram(figures.now, name, where), scrapes.length > 1 ? histogram(scrapes[0].found, name, where) : null),
  /** The sum of a metric in the newest scrape. */
  sum: (name, where = {}) => (figures.now ? sum(figures.now, name, where) : null),
  /** A metric's increase a second in the last minute. */
  rate(name, where = {}) {
    const [first, last] = [scrapes[0], scrapes.at(-1)];
    if (!first || first === last) return null;
    return Math.max(0, (sum(last.found, name, where) - sum(first.found, name, where)) / ((last.at - first.at) / 1000));
  },
};

function catchUp() {
  if (server.awake) reading ??= readHistory().finally(() => (reading = null));
  poll();
}

/** What the server has kept since the newest point. */
async function readHistory() {
  const since = points.at(-1)?.at ?? Date.now() - KEPT_MS;
  try {
    take(await server.call("server.history", { since: Math.floor(since) }), since);
    scrapes = [];
  } catch {
    // A gap stays.
  }
}

function take({ step_ms, from, series, append_seconds: { bounds, counts } }, since) {
  if (bounds.length) figures.buckets = [...bounds, Infinity];
  const names = Object.keys(series);
  const length = Math.max(0, ...names.map((name) => series[name].length));
  const came = [];
  for (let index = 0; index < length; index++) {
    const at = from + index * step_ms;
    if (at <= since) continue;
    const known = names.filter((name) => typeof series[name][index] === "number");
    if (known.length) came.push({ at, ms: step_ms, values: Object.fromEntries(known.map((name) => [name, series[name][index]])), counts: counts[index] ?? null });
  }
  points = [...points, ...came].filter(({ at }) => at > Date.now() - KEPT_MS);
}

const poll = beat(EVERY_MS, async () => {
  await reading; // what is older comes first
  if (!server.awake) return;
  try {
    const answer = await server.fetch("/metrics");
    if (answer.ok) sampled(Date.now(), parse(await answer.text()));
  } catch {
    // A gap stays.
  }
  events.emit("figures", figures.now);
});

// Metric by figure, as the server's history has them: rates of counters, and gauges.
const RATES = { appends: "tideline_messages_total", deliveries: "tideline_deliveries_total" };
const LEVELS = { connections: "tideline_connections", subscriptions: "tideline_subscriptions" };

function sampled(at, found) {
  const before = scrapes.at(-1);
  figures.now = found;
  const appends = histogram(found, "tideline_request_seconds", { method: "message.append" });
  if (appends.les.length) figures.buckets = appends.les;
  const same = before && sum(before.found, "process_start_time_seconds") === sum(found, "process_start_time_seconds");
  if (!same) scrapes = [];
  scrapes.push({ at, found });
  while (scrapes.length > 2 && scrapes[1].at < at - MINUTE_MS) scrapes.shift();
  if (!same) return;
  const ms = at - before.at;
  const values = {};
  for (const [name, metric] of Object.entries(RATES)) values[name] = (sum(found, metric) - sum(before.found, metric)) / (ms / 1000);
  for (const [name, metric] of Object.entries(LEVELS)) values[name] = sum(found, metric);
  const counts = minus(appends, histogram(before.found, "tideline_request_seconds", { method: "message.append" })).counts;
  points.push({ at, ms, values, counts });
  while (points.length && points[0].at < at - KEPT_MS) points.shift();
}

const matches = (labels, where) => Object.entries(where).every(([name, wanted]) => (wanted instanceof RegExp ? wanted.test(labels[name]) : labels[name] === String(wanted)));

function sum(found, name, where = {}) {
  let total = 0;
  for (const { labels, value } of found.get(name) ?? []) if (matches(labels, where)) total += value;
  return total;
}

/** A histogram's buckets, each for itself, not cumulative. */
function histogram(found, name, where) {
  const by_le = new Map();
  for (const { labels, value } of found?.get(`${name}_bucket`) ?? []) {
    if (!matches(labels, where)) continue;
    const le = labels.le === "+Inf" ? Infinity : Number(labels.le);
    by_le.set(le, (by_le.get(le) ?? 0) + value);
  }
  const les = [...by_le.keys()].sort((a, b) => a - b);
  const counts = les.map((le, at) => by_le.get(le) - (at > 0 ? by_le.get(les[at - 1]) : 0));
  return { les, counts, count: found ? sum(found, `${name}_count`, where) : 0, sum: found ? sum(found, `${name}_sum`, where) : 0 };
}

function minus(now, before) {
  if (!before || before.les.length !== now.les.length) return now;
  return { les: now.les, counts: now.counts.map((value, at) => Math.max(0, value - before.counts[at])), count: now.count - before.count, sum: now.sum - before.sum };
}

/** Below which value a share of a histogram lies, in its unit; null if it is empty. Inside of a bucket as if evenly spread. */
function quantile({ les, counts }, share) {
  const total = counts.reduce((a, b) => a + b, 0);
  if (total <= 0) return null;
  let left = total * share;
  for (const [at, number] of counts.entries()) {
    if (left <= number && number > 0) {
      const low = at > 0 ? les[at - 1] : 0;
      return les[at] === Infinity ? low : low + (les[at] - low) * (left / number);
    }
    left -= number;
  }
  return les.findLast((le) => le !== Infinity) ?? null;
}

/**
 * The range in columns of equal length: {from, to, step_ms, columns: [{at, values, counts} or null]}; null where nothing
 * is known. A value is the mean over the column.
 */
function columns() {
  const now = points.at(-1)?.at ?? Date.now();
  const step_ms = { 5: 5_000, 15: 10_000, 60: 30_000 }[minutes];
  const to = Math.ceil(now / step_ms) * step_ms;
  const from = to - minutes * 60_000;
  const gathered = Array.from({ length: (to - from) / step_ms }, () => null);
  for (const { at, ms, values, counts } of points) {
    const index = Math.floor((at - 1 - from) / step_ms);
    if (index < 0 || index >= gathered.length) continue;
    const into = (gathered[index] ??= { at: from + (index + 0.5) * step_ms, sums: {}, covered: {}, counts: null });
    for (const [name, value] of Object.entries(values)) {
      into.sums[name] = (into.sums[name] ?? 0) + value * ms;
      into.covered[name] = (into.covered[name] ?? 0) + ms;
    }
    if (counts) into.counts = into.counts ? into.counts.map((value, i) => value + (counts[i] ?? 0)) : [...counts];
  }
  return {
    from,
    to,
    step_ms,
    columns: gathered.map((one) => one && { at: one.at, counts: one.counts, values: Object.fromEntries(Object.entries(one.sums).map(([name, value]) => [name, value / one.covered[name]])) }),
  };
}

/** Prometheus' text → name → [{labels, value}]. */
export function parse(text) {
  const found = new Map();
  for (const line of text.split("\n")) {
    const parts = /^([a-z_0-9]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!parts) continue;
    const [, name, inside = "", value] = parts;
    const labels = Object.fromEntries([...inside.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, one]) => [key, one]));
    if (!found.has(name)) found.set(name, []);
    found.get(name).push({ labels, value: Number(value) });
  }
  return found;
}
