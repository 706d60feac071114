// The frame: rail, top bar, router by fragment, palette, keys of everywhere.
//
// Owns: which screen is open and what surrounds it. Promises: the fragment is the whole view, so a link shows the same
// to everybody; a screen that fails leaves the rest usable; the line lost, a key wanted and a right lacked are shown for
// all screens here. Must not: know what a screen shows.
//
// THE SCREEN CONTRACT. `screens/NAME.js` exports `screen`:
//   { figures?: true,            // the top bar shows range and hold
//     open(context) → view }     // called when the fragment's first part becomes NAME
// context:
//   root      the empty <main> to fill; it is a flex column of the page's height, and scrolls by itself if it must
//   view      {screen, path: [decoded parts after NAME], query: {name: value}} as the fragment has it now
//   signal    ends when the screen is left: give it to calls, listeners, timers
//   go(view, {replace}) changes the fragment; href(view) is the link to a view (screen defaults to this one)
//   keys(handlers)      takes keys of keys.js by name until the screen is left
// view (what `open` returns, also async): { update?(view) when the fragment's rest has changed,
//   resume?() after the line was lost and is back: read again what may have changed, close?() }

import { choice, fill, h, icon, set, svg, write } from "./dom.js";
import { clock, count, lasts, visible } from "./format.js";
import { KEYS, hint, pressed, shown, take, tip } from "./keys.js";
import { connect, server } from "./server.js";
import { figures } from "./figures.js";
import { empty, failed, forbidden, part, withPart } from "./states.js";

/** name, title, the right that it needs (null = the server says for each thing). */
const SCREENS = [
  ["overview", "Overview", "observe"],
  ["timelines", "Timelines", null],
  ["conversations", "Conversations", null],
  ["lookup", "Search", null],
  ["tables", "Tables", null],
  ["sql", "SQL", null],
  ["sessions", "Sessions", "observe"],
  ["partitions", "Partitions", "observe"],
  ["keys", "Keys", "admin"],
  ["log", "Log", "observe"],
];
const TITLES = new Map(SCREENS.map(([name, title]) => [name, title]));

// --- the view in the fragment

function read(fragment) {
  const [path, query = ""] = fragment.replace(/^#?\/?/, "").split("?");
  const [screen, ...rest] = path.split("/").map(decoded);
  return { screen: TITLES.has(screen) ? screen : "overview", path: rest, query: Object.fromEntries(new URLSearchParams(query)) };
}

function href({ screen, path = [], query = {} }) {
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const asked = kept.length ? `?${new URLSearchParams(kept)}` : "";
  return `#/${[screen, ...path].map(encodeURIComponent).join("/")}${asked}`;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function go(view, { replace = false } = {}) {
  const wanted = href({ screen: now.screen, ...view });
  // At once, so that the next key finds the view that this one asked for.
  if (wanted !== location.hash) history[replace ? "replaceState" : "pushState"](null, "", wanted);
  changed();
}

// --- the frame

const mark = () =>
  svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" },
    svg("path", { d: "M2 9.5c2.5-3.6 5-3.6 7.5 0s5 3.6 7.5 0c1.3-1.9 2.6-2.8 4-2.7" }),
    svg("path", { class: "two", d: "M2 15.5c2.5-3.6 5-3.6 7.5 0s5 3.6 7.5 0c1.3-1.9 2.6-2.8 4-2.7" }));

const links = new Map(
  SCREENS.map(([name, title]) => [
    name,
    h("a", { href: href({ screen: name }), title: tip(name) }, icon(name), h("span", {}, title), h("em", { hidden: true })),
  ]),
);
const who = h("p", { class: "who" });
const live = h("span", { class: "live-word" }, "Connecting");
const dot = h("span", { class: "dot" });
const trip = h("em");
const announced = h("p", { class: "unseen", role: "status" });
const heading = h("h1");
const me = h("p", { class: "me" });
const ranges = choice("Range", [[5, "5 min"], [15, "15 min"], [60, "1 h"]], (minutes) => (figures.minutes = minutes));
const held = h("button", { type: "button", class: "ghost hold", title: tip("hold"), onclick: hold }, icon("hold"), h("span", { class: "unseen" }, "Hold"), h("kbd", {}, hint("hold")));
const find = h("button", { type: "button", class: "field palette-open", title: tip("find"), onclick: openPalette },
  icon("find"), h("span", {}, "Find a timeline, user, table or session"), h("kbd", {}, hint("find")));
const lost = h("p", { class: "lost-line", hidden: true });
let main = h("main", { tabindex: "-1" });

function frame() {
  document.body.append(
    h("a", { class: "skip", href: "#main", onclick: (event) => (event.preventDefault(), main.focus()) }, "To the content"),
    h("div", { class: "app" },
      h("nav", { class: "rail", "aria-label": "Screens" },
        h("p", { class: "brand" }, mark(), "Tideline"),
        [...links.values()],
        h("span", { class: "sp" }),
        who,
        h("p", { class: "live" }, dot, live, trip,
          h("button", { type: "button", class: "ghost", title: tip("theme"), "aria-label": "Light or dark", onclick: theme }, icon("theme")),
          h("button", { type: "button", class: "ghost", title: tip("help"), "aria-label": "All keys", onclick: help }, "?"))),
      h("div", { class: "page" },
        h("header", { class: "top" }, heading, find, ranges.element, held, me),
        lost,
        main)),
    announced,
  );
}

// --- the open screen

let now = { screen: null, path: [], query: {} };
let open = null; // {view (a promise), ends}

function changed() {
  const view = read(location.hash);
  const same = now.screen === view.screen && open;
  now = view;
  if (same) return void open.view.then((it) => it?.update?.(view), () => {});
  start(view);
}

async function start(view) {
  open?.ends.abort();
  open?.view.then((it) => it?.close?.(), () => {});
  const ends = new AbortController();
  const { signal } = ends;
  const fresh = h("main", { id: "main", class: view.screen, tabindex: "-1" });
  main.replaceWith(fresh);
  main = fresh;
  const title = TITLES.get(view.screen);
  fill(heading, title);
  document.title = `${title} · Tideline`;
  for (const [name, link] of links) set(link, "aria-current", name === view.screen ? "page" : null);
  const right = SCREENS.find(([name]) => name === view.screen)[2];
  const context = {
    root: main,
    view,
    signal,
    go,
    href: (wanted) => href({ screen: view.screen, ...wanted }),
    keys: (handlers) => take(handlers, { signal }),
  };
  const made = (async () => {
    const { screen } = await part(`screens/${view.screen}`);
    if (right && server.has_key) await server.known;
    if (signal.aborted) return null;
    if (right && !server.can(right)) return void fill(main, forbidden(title, right));
    ranges.element.hidden = held.hidden = !screen.figures;
    return signal.aborted ? null : screen.open(context);
  })();
  open = { view: made, ends };
  made.catch((error) => signal.aborted || (fill(main, failed(error, () => (error.reason === "not_loaded" ? location.reload() : start(now)))), console.error(error)));
}

// --- what is known of the server

function state() {
  const { state } = server;
  document.body.dataset.state = state;
  const words = { open: server.held ? "Held" : "Live", connecting: "Connecting", lost: "Lost", "ask-key": "No key", over: "Stopped" };
  write(live, words[state]);
  set(dot, "class", `dot ${state === "open" ? (server.held ? "held" : "good") : "bad"}`);
  if (state === "ask-key") askKey();
  tick();
  announce(words[state]);
}

/** The line that says since when the figures are old, and when the next attempt comes. */
function tick() {
  const { state, why, heard_at } = server;
  lost.hidden = state !== "lost" && state !== "over";
  if (lost.hidden) return;
  const left = Math.max(0, Math.ceil(((why.retry_at ?? 0) - Date.now()) / 1000));
  const next = state === "over" ? `not reconnecting: ${visible(why.error?.message ?? `closed with ${why.code}`)}` : why.retry_at && left > 0 ? `reconnecting in ${left} s` : "reconnecting";
  fill(lost, icon("warn"), h("b", {}, "The line to the server is lost."), ` All you see is as of ${heard_at ? clock(heard_at) : "never"}; ${next}.`,
    h("button", { type: "button", onclick: () => server.reconnect() }, "Reconnect now"));
}

let announced_at = 0;
let announcing = 0;
const ANNOUNCE_MS = 10_000;

/** For those who hear the page: at most every 10 s, the newest. */
function announce(text) {
  clearTimeout(announcing);
  const wait = announced_at + ANNOUNCE_MS - Date.now();
  if (wait > 0) return void (announcing = setTimeout(announce, wait, text));
  announced_at = Date.now();
  write(announced, text);
}

function status() {
  const { status, session } = server;
  const it = status ?? session?.server;
  if (it) fill(who, h("b", {}, visible(it.name)), h("span", {}, [it.version, status?.listen].filter(Boolean).join(" · ")));
  const notices = (status?.notices ?? []).filter(({ severity }) => severity !== "info");
  const badge = links.get("overview").querySelector("em");
  badge.hidden = notices.length === 0;
  write(badge, notices.length === 0 ? "" : count(notices.length));
  set(badge, "class", notices.some(({ severity }) => severity === "critical") ? "bad" : null);
  set(badge, "aria-label", notices.length ? `${notices.length} notices` : null);
  const you = status?.you;
  const name = you?.key ?? you?.user ?? session?.user ?? "no key";
  const may = you?.rights ? [...new Set(you.rights.flatMap(({ allow }) => allow))].join(", ") || "no rights" : "may do everything";
  fill(me, visible(name), h("i", { title: may }, may));
}

// --- keys of everywhere

function hold() {
  server.hold(!server.held);
  set(held, "aria-pressed", String(server.held));
  state();
}

function theme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark" || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  sessionStorage.setItem("tideline.theme", document.documentElement.dataset.theme);
}

const askKey = () => withPart("ask-key", (it) => it.askKey());

function openPalette() {
  const actions = [["Light or dark", theme], ["All keys", help], ["Hold the figures, and go on", hold], ["Use another key", askKey]];
  withPart("palette", ({ palette }) => palette({ go, screens: SCREENS, actions }));
}

function help() {
  const groups = Map.groupBy(Object.values(KEYS), ({ group }) => group);
  const body = h("div", { class: "all-keys" }, [...groups].map(([group, keys]) =>
    h("section", {}, h("h3", {}, group), h("dl", {}, keys.map(({ keys: pressed, does }) =>
      h("div", {}, h("dt", {}, pressed.map((key) => h("kbd", {}, shown(key)))), h("dd", {}, does)))))));
  withPart("dialog", ({ show }) => show({ title: "Keys", body }));
}

take({ find: openPalette, search: openPalette, hold, theme, help, ...Object.fromEntries(SCREENS.map(([name]) => [name, () => go({ screen: name })])) });

document.documentElement.dataset.theme = sessionStorage.getItem("tideline.theme") ?? "";
frame();
document.addEventListener("keydown", pressed);
addEventListener("hashchange", changed);
setInterval(tick, 500);
let was_lost = false;
server.on("state", (became) => {
  state();
  if (became === "lost") was_lost = true;
  if (became === "open" && was_lost) {
    was_lost = false;
    open?.view.then((it) => it?.resume?.(), () => {});
  }
});
server.on("status", status);
server.on("key", () => start(now));
server.on("round_trip", (ms) => write(trip, lasts(ms)));
figures.on("range", ranges.press);
connect();
state();
figures.start();
changed();
// What was not needed for the first view comes while nothing else is to do, so that all of it is there when the line is lost.
const REST = ["dialog", "palette", "ask-key", ...SCREENS.map(([name]) => `screens/${name}`)];
// A part that does not come is asked for again with the screen; here it is nobody's error.
requestIdleCallback(() => REST.forEach((name) => import(`./${name}.js`).catch(() => {})), { timeout: 3_000 });
