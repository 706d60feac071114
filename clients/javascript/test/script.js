// A server in this process that says what a test tells it to say, so that nothing depends on time.

const SESSION = { session: "s", user: "ann", server: { name: "tideline", version: "0" }, heartbeat_ms: 25_000, limits: {} };

export class Script {
  sockets = [];
  session = SESSION; // null: session.open is left to the test
  #requests = [];
  #waiters = [];

  constructor() {
    const script = this;
    this.WebSocket = class {
      readyState = 0;
      constructor() {
        script.sockets.push(this);
        queueMicrotask(() => this.readyState === 0 && ((this.readyState = 1), this.onopen({})));
      }
      send(text) {
        script.#got({ ...JSON.parse(text), socket: this });
      }
      close() {
        this.readyState = 3;
      }
    };
  }

  /** What a client needs to talk to this one, without the usual waits. */
  get options() {
    return { WebSocket: this.WebSocket, user: "ann", delay_ms: [1, 2], patience_ms: 5_000 };
  }

  get socket() {
    return this.sockets.at(-1);
  }

  #got(request) {
    if (request.method === "session.open" && this.session) return queueMicrotask(() => this.answer(request, this.session));
    const waiter = this.#waiters.findIndex(({ method }) => method === request.method);
    if (waiter >= 0) this.#waiters.splice(waiter, 1)[0].resolve(request);
    else this.#requests.push(request);
  }

  /** The next request of this method. */
  next(method) {
    const at = this.#requests.findIndex((request) => request.method === method);
    if (at >= 0) return Promise.resolve(this.#requests.splice(at, 1)[0]);
    return new Promise((resolve) => this.#waiters.push({ method, resolve }));
  }

  /** Requests that no test has taken. */
  get left() {
    return this.#requests.map(({ method }) => method);
  }

  answer({ id, socket }, result) {
    this.#say(socket, { jsonrpc: "2.0", id, result });
  }

  refuse({ id, socket }, reason, data = {}) {
    const error = { code: 1, message: reason, data: { reason, retry: false, ...data } };
    this.#say(socket, { jsonrpc: "2.0", id, error });
  }

  push(method, params) {
    this.#say(this.socket, { jsonrpc: "2.0", method, params });
  }

  #say(socket, frame) {
    this.raw(JSON.stringify(frame), socket);
  }

  raw(data, socket = this.socket) {
    if (socket.readyState === 1) socket.onmessage({ data });
  }

  cut(code = 1006, socket = this.socket) {
    socket.readyState = 3;
    socket.onclose({ code });
  }
}

export const message = (sequence, more = {}) => ({
  sequence,
  timestamp: 1_790_000_000_000 + sequence,
  message_id: `m-${sequence}`,
  sender: "ben",
  entry: { text: `text ${sequence}` },
  ...more,
});

export const messages = (from, to) => Array.from({ length: to - from + 1 }, (_, at) => message(from + at));

/** What `subscribe` answers. */
export const reply = (told, more = {}) => ({
  timeline: "room",
  epoch: "E1",
  floor: 1,
  head: told.at(-1)?.sequence ?? 0,
  change_head: 0,
  messages: told,
  more: false,
  state: "ok",
  ...more,
});

/** All events of a subscription as short texts, and a way to wait for one. */
export function heard(subscription) {
  const events = [];
  const waiters = [];
  const note = (text) => {
    events.push(text);
    for (const waiter of [...waiters]) if (waiter.text === text) waiter.resolve(waiters.splice(waiters.indexOf(waiter), 1));
  };
  for (const event of ["message", "changed"]) {
    subscription.on(event, ({ sequence, change }) => note(`${event} ${sequence}${change ? `/${change}` : ""}`));
  }
  for (const event of ["reset", "ended"]) subscription.on(event, ({ reason }) => note(`${event} ${reason}`));
  subscription.on("signal", () => note("signal"));
  events.until = (text) => (events.includes(text) ? Promise.resolve() : new Promise((resolve) => waiters.push({ text, resolve })));
  return events;
}

/** The next such event of a client. */
export const once = (client, event, wanted = () => true) =>
  new Promise((resolve) => {
    const off = client.on(event, (detail) => {
      if (!wanted(detail)) return;
      off();
      resolve(detail);
    });
  });
