// Figures of the server: /metrics every 2 s, once for all screens, and the last hour at the start.
//
// Owns: the poll, the samples of an hour, rates and quantiles of them. Promises: nothing is asked while the page is hidden,
// held, or the line is lost; a restart of the server is a gap, not a drop. Must not: draw.

import { Events } from "./client/events.js";
import { server } from "./server.js";

const EVERY_MS = 2_000;
const events = new Events();
let minutes = 15;
let timer = 0;

export const figures = {
  held: false,
  /** The newest sample: name → [{labels, value}], or null. */
  now: null,
  /** Events: "figures" (a new sample), "range". */
  on(event, listener, { signal } = {}) {
    const off = events.on(event, listener);
    signal?.addEventListener("abort", off, { once: true });
    return off;
  },
  get minutes() {
    return minutes;
  },
  set minutes(wanted) {
    minutes = wanted;
    events.emit("range", minutes);
  },
  start() {
    events.emit("range", minutes);
    poll();
  },
};

async function poll() {
  clearTimeout(timer);
  if (!document.hidden && !figures.held && server.state === "open") {
    const answer = await server.fetch("/metrics").catch(() => null);
    if (answer?.ok) {
      figures.now = parse(await answer.text());
      events.emit("figures", figures.now);
    }
  }
  clearTimeout(timer);
  timer = setTimeout(poll, EVERY_MS);
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
