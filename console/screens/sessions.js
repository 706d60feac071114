// Sessions: which users are connected, from where, how far behind; and the closing of one.
//
// Owns: that list and one session's timelines. Promises: the slowest reader is first; it is read again every 3 s unless
// held, hidden or lost; nothing is closed before it was confirmed. Must not: take a user's tokens back.

import { choice, fill, h, table } from "../dom.js";
import { age, count, lasts, many, visible, when } from "../format.js";
import { again, server } from "../server.js";
import { ask } from "../dialog.js";
import { empty, load } from "../states.js";
import { asOf, button, pairs, searchField, split } from "../split.js";

const READ_MS = 3_000;
const PAGE = 200;
const BEHIND_MS = 5_000;
const ORDERS = [
  ["lag", "Slowest"],
  ["in_flight", "Busiest"],
  ["subscriptions", "Most timelines"],
  ["opened", "Oldest"],
];

const who = ({ user, key }) => (user ? visible(user) : key ? "" : "no user");
const mayClose = (it) => server.can("admin") || mine(it);
const mine = ({ session }) => session === server.session?.session;

const cells = (it) => [
  h("span", { class: "name" }, who(it), it.key && h("i", {}, ` key ${visible(it.key)}`), mine(it) && h("em", { class: "chip" }, "you")),
  h("span", {}, it.device ? visible(it.device) : "–"),
  h("span", { class: "mono" }, visible(it.address)),
  h("span", {}, visible(it.dialect.replace("tideline.v1.", ""))),
  h("span", { class: "n" }, age(it.opened_at)),
  h("span", { class: "n" }, count(it.subscriptions)),
  h("span", { class: "n" }, lag(it)),
];

const behind = (lag_ms) => (lag_ms > 0 ? `${lasts(lag_ms)} behind` : "at the edge");
const missing = (head, position, lag_ms) => (head === undefined ? "deleted" : head > position ? `${count(head - position)} · ${lasts(lag_ms)}` : "at the edge");
const lag = ({ lag_ms, subscriptions }) =>
  subscriptions === 0 ? "–" : h("span", { class: lag_ms > BEHIND_MS ? "st warn" : null }, behind(lag_ms));

export const screen = {
  async open({ root, view, signal, go, keys }) {
    let { user = "", order = "lag" } = view.query;
    const orders = choice("Order", ORDERS, (order) => goTo({ order }));
    orders.press(order);
    const field = searchField({ label: "Only of this user", placeholder: "Only of this user", value: user, key: "search", changed: (text) => goTo({ user: text }) });
    const page = split({
      root, name: "session", label: "Sessions", bar: [field.element, orders.element],
      heads: [["User"], ["Device"], ["Address"], ["Dialect"], ["Since", "n"], ["Timelines", "n"], ["Lag", "n"]],
      render: cells,
      id: ({ session }) => session,
      open: detail,
      go: (session) => goTo({}, session === null ? [] : [session]),
    });
    const { rows } = page;
    keys({ ...page.keys, search: () => field.input.focus(), recall: () => rows.item && mayClose(rows.item) && close(rows.item) });

    const goTo = (query, path = view.path) => go({ path, query: { user, order, ...query } }, { replace: true });

    const timelines = h("div");
    let timelines_of = null;

    function detail(it) {
      const lacks = mayClose(it) ? null : "admin";
      readTimelines(it);
      return [
        page.heading(who(it) || "Key ", it.key && !it.user && h("code", {}, visible(it.key))),
        pairs(
          ["Session", h("code", {}, it.session)], ["Key", it.key && h("code", {}, visible(it.key))], ["Device", it.device && visible(it.device)],
          ["Client", it.client && visible(it.client)], ["Address", h("code", {}, visible(it.address))], ["Dialect", visible(it.dialect)],
          ["Since", [when(it.opened_at), h("i", {}, ` ${age(it.opened_at)}`)]], ["Ends", it.expires_at && when(it.expires_at)],
          ["In flight", many(it.in_flight, "request")], ["Lag", lag(it)],
        ),
        h("h3", {}, "Timelines that it follows"),
        timelines,
        h("div", { class: "acts" }, button("Close the session", { key: "recall", kind: "danger", lacks, onclick: () => close(it) })),
      ];
    }

    function readTimelines({ session }) {
      const keep = timelines_of === session;
      timelines_of = session;
      if (!keep) fill(timelines);
      const read = () => server.call("session.get", { session, limit: PAGE }, { signal });
      load(timelines, read, ({ positions }) =>
        positions.length === 0
          ? h("p", { class: "none" }, "None.")
          : table(["Timeline", "Position", "Behind"], positions.map(({ timeline, position, head, lag_ms }) =>
              [h("a", { href: `#/timelines/${encodeURIComponent(timeline)}` }, visible(timeline)), count(position), missing(head, position, lag_ms)]), "n"), { signal, keep });
    }

    async function close(it) {
      const name = it.user ? visible(it.user) : `key ${visible(it.key ?? "of nobody")}`;
      const done = await ask({
        title: `Close the session of ${name}?`,
        body: pairs(["Device", it.device && visible(it.device)], ["Address", visible(it.address)], ["Since", when(it.opened_at)]),
        lost: mine(it) ? "This is the console's own connection: it comes back by itself." : "Its connection ends now, and calls that wait fail. Its client may connect again at once: to keep it out, revoke the key or the user's tokens.",
        action: "Close the session",
        danger: true,
        submit: async () => ({ closed: (await server.call("session.close", { session: it.session }, { signal })).closed }),
      });
      if (done) read();
    }

    let shown = false;
    async function read() {
      const asked = { user: user || undefined, order, limit: PAGE };
      await load(page.body, () => server.call("session.list", asked, { signal }), ({ sessions }) => {
        shown = true;
        if (sessions.length === 0 && page.opened !== null) page.close();
        if (sessions.length === 0) return nobody();
        const all = sessions.length < PAGE ? many(sessions.length, "session") : `The first ${count(PAGE)} in this order`;
        page.show(sessions, `${all}, ${asOf()}`);
        showDetail();
      }, { signal, keep: shown });
    }

    const nobody = () =>
      user
        ? empty("No session", `${visible(user)} is not connected to this server.`)
        : empty("No session", "A session is one connection of one client: a WebSocket on which somebody follows timelines. Start one:", "tideline follow lobby --create");

    const showDetail = () => page.named(view.path[0] || null);

    again(READ_MS, read, signal);
    await read();
    rows.element.focus({ preventScroll: true });
    return {
      resume: read,
      update(wanted) {
        const same = (wanted.query.user ?? "") === user && (wanted.query.order ?? "lag") === order;
        view = wanted;
        ({ user = "", order = "lag" } = wanted.query);
        orders.press(order);
        field.show(user);
        if (same) showDetail();
        else read();
      },
    };
  },
};
