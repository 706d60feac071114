// The one connection to the server: calls, pushes, whether it lives, the user, and what the user may do.
//
// Owns: the connection (clients/javascript) and its state, the key, the round trip, `server.status`. Promises: a call
// waits while the line is lost and fails when its signal ends; the key is in memory, in sessionStorage only on request,
// and nowhere else. Must not: touch the page, or need the client's store, outbox and subscriptions: the first view comes
// without them. Called by all screens.

import { Connection } from "./client/connection.js";
import { Events } from "./client/events.js";
import { decode, encode } from "./client/values.js";
import { parse } from "./entry.js";

const KEPT = "tideline.key";
const UNAUTHENTICATED = 4500;
const STATUS_MS = 5_000;
const PING_MS = 5_000;

const EVERYWHERE = new Set(["observe", "admin"]); // rights that only a rule for all names can give
const events = new Events();
export const place = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1/connect`;
let connection = null;
let key = sessionStorage.getItem(KEPT);

export const server = {
  /** "connecting", "open", "lost", "ask-key" (a key is wanted, or another one) or "over" (stopped for good). */
  state: "connecting",
  /** Why it is as it is: {code, error, retry_at}. */
  why: {},
  /** When the last sign of life came, ms since 1970. */
  heard_at: null,
  /** What `session.open` said. */
  session: null,
  /** What `server.status` said last, and why it said nothing. */
  status: null,
  status_error: null,
  /** Resolves when `server.status` has answered this key, or could not. */
  known: null,
  /** Nothing is asked by itself while this is true. */
  held: false,

  /** May something be asked by itself: is the page seen, not held, and the line there? */
  get awake() {
    return server.state === "open" && !document.hidden && !server.held;
  },

  hold(wanted) {
    server.held = wanted;
    events.emit("held", wanted);
    if (!wanted) readStatus();
  },

  /** Events: "state", "status", "held", "round_trip" (in ms), "key" (another one is shown); and every push of the server
   *  by its method, as "message". */
  on: listening(events),

  /** A method of the protocol. It waits for a connection; when the signal ends, it fails with that. */
  async call(method, params = {}, { signal } = {}) {
    await opened(signal);
    const began = connection;
    const result = await unless(signal, began.call(method, encode(params)));
    if (began === connection) server.heard_at = Date.now();
    return decode(result);
  },

  /** GET of a path of the server, with the key. */
  fetch(path) {
    const headers = key === null ? {} : { authorization: `Bearer ${key}` };
    return fetch(path, { headers, cache: "no-store" });
  },

  /** May I do that (to `on`)? Where the server did not say what I may, the answer is yes, and its own answer counts. */
  can(right, on = null) {
    const rights = server.status?.you.rights;
    // Who may not ask for the server's status has no `observe`, so not all rights either.
    if (!rights) return server.status_error?.reason !== "forbidden" || !EVERYWHERE.has(right);
    return rights.some(({ on: where, allow }) => (allow.includes(right) || allow.includes("admin")) && reaches(where, on, right));
  },

  /** Shows a key (or none), and connects with it. */
  use(wanted, { keep = false } = {}) {
    key = wanted;
    if (keep && key !== null) sessionStorage.setItem(KEPT, key);
    else sessionStorage.removeItem(KEPT);
    connect();
    events.emit("key", null);
  },

  get has_key() {
    return key !== null;
  },

  reconnect: () => (server.state === "over" ? connect() : connection.connect()),
  refresh: () => readStatus(),
};

/** What each connection of the console is made with. */
export const options = () => ({ token: key ?? undefined, device: "console", parse, delay_ms: [500, 4_000] });

export function connect() {
  const before = connection;
  server.known = new Promise((resolve) => {
    const off = events.on("status", () => (off(), resolve()));
  });
  Object.assign(server, { status: null, status_error: null });
  const mine = new Connection(place, options(), {
    opened: () => {},
    pushed: (method, params) => mine === connection && events.emit(method, decode(params)),
    state: (detail) => mine === connection && became(detail),
    stopped: () => {},
  });
  connection = mine;
  before?.stop({}, "closed");
  mine.connect();
}

function became({ state, retry_in_ms, code, error }) {
  const before = server.state;
  if (state === "open") server.state = "open";
  else if (state === "stopped") server.state = refused(code, error) ? "ask-key" : "over";
  else if (state === "waiting" || before === "lost") server.state = "lost";
  else if (before !== "open") server.state = "connecting";
  server.why = { code, error, retry_at: state === "waiting" ? Date.now() + retry_in_ms : null };
  if (state === "open") {
    server.session = connection.session;
    server.heard_at = Date.now();
    readStatus();
    ping();
  }
  events.emit("state", server.state);
}

const refused = (code, error) => code === UNAUTHENTICATED || error?.reason === "unauthenticated";

const readStatus = beat(STATUS_MS, async () => {
  if (!server.awake) return;
  const asked = connection;
  try {
    const status = decode(await asked.call("server.status"));
    if (asked !== connection) return;
    server.heard_at = Date.now();
    Object.assign(server, { status, status_error: null });
  } catch (error) {
    if (asked !== connection || error.reason === "connection_lost") return;
    server.status_error = error;
  }
  events.emit("status", server.status);
});

const ping = beat(PING_MS, async () => {
  if (server.state !== "open" || document.hidden) return;
  const began = performance.now();
  await connection.call("ping").then(
    () => {
      server.heard_at = Date.now();
      events.emit("round_trip", performance.now() - began);
    },
    () => {},
  );
});

document.addEventListener("visibilitychange", () => document.hidden || (readStatus(), ping()));

/** Takes a step when the function that it returns is called, and then `ms` after each end of one, until the signal
 *  ends. */
export function beat(ms, step, signal) {
  let timer = 0;
  const now = async () => {
    clearTimeout(timer);
    await step();
    clearTimeout(timer); // another call may have come meanwhile
    if (!signal?.aborted) timer = setTimeout(now, ms);
  };
  signal?.addEventListener("abort", () => clearTimeout(timer), { once: true });
  return now;
}

/** Reads again every `ms` while the server may be asked. `read` gets the errors of its own. */
export function again(ms, read, signal) {
  const timer = setInterval(() => server.awake && read(), ms);
  signal.addEventListener("abort", () => clearInterval(timer), { once: true });
}

/** `on` of some events, which ends with a signal. */
export function listening(events) {
  return (event, listener, { signal } = {}) => {
    const off = events.on(event, listener);
    signal?.addEventListener("abort", off, { once: true });
  };
}

/** Resolves when there is a session. */
async function opened(signal) {
  signal?.throwIfAborted();
  if (server.state === "open") return;
  let off;
  const open = new Promise((resolve) => (off = events.on("state", (state) => state === "open" && resolve())));
  await unless(signal, open).finally(off);
}

/** What a promise gives, unless the signal ends first. Many thousands wait on one signal in an hour, one after the other:
 *  each leaves nothing behind. */
async function unless(signal, promise) {
  if (!signal) return promise;
  let stop;
  const ended = new Promise((_, reject) => {
    stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop);
  });
  return Promise.race([promise, ended]).finally(() => signal.removeEventListener("abort", stop));
}

/** Does a rule of rights reach a name? Without a name: does it reach any. */
function reaches(where, on, right) {
  if (on === null || where === "*") return where === "*" || !EVERYWHERE.has(right);
  const pattern = where.replaceAll("{user}", server.status.you.user ?? "");
  return pattern.endsWith("*") ? on.startsWith(pattern.slice(0, -1)) : on === pattern;
}
