// Ann and Ben in one window: each with a client, a connection and a store of their own, and a line that can be cut.
//
// Owns: what the demo shows. Promises: what it says of a message (waits, on disk, read) and of a loss ("3 missed, none
// lost") is what came over the line, counted here, not assumed. Must not: do more than any app could with the client.

import { Client, IndexedDbStore, MemoryStore } from "/console/client/index.js";
import { fill, h, svg, write } from "/console/dom.js";
import { many, minute } from "/console/format.js";
import { Frames, makeLine } from "./line.js";

const PEOPLE = [
  { user: "ann", name: "Ann", other: "ben", to: "Ben" },
  { user: "ben", name: "Ben", other: "ann", to: "Ann" },
];
// Another conversation: /demo/#harbour
const TIMELINE = `demo/${decodeURIComponent(location.hash.slice(1)) || "ann-and-ben"}`;
const ADDRESS = new URL("/v1/connect", location.href.replace(/^http/, "ws")).href;
const SHOWN_MAX = 300;
const TYPING_MS = 4_000;
const TICKS = ["M1.5 5.5 4.5 8.5 10.5 1.5", "M6.5 5.5 9.5 8.5 15.5 1.5"];

class Pane {
  #person;
  #line;
  #client;
  #timeline = null;
  #bubbles = new Map(); // message ID → its bubble, those of the timeline in its order, then those that wait
  #waiting = new Set(); // message IDs that are in the outbox
  #read = 0; // how far the other one has read
  #said = 0; // how far this one has said to have read
  #away = null; // since the connection was lost, see #lost
  #note = null; // {element, away} until all that waited is sent
  #typed = -Infinity; // when typing was told last
  #timers = {};

  constructor(person, frames) {
    this.#person = person;
    this.#line = makeLine(frames);
    this.#draw();
  }

  #draw() {
    const { user, name, to } = this.#person;
    this.state = h("p", { class: "state", role: "status" });
    this.cut = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.#toggle() }, "Cut the line");
    this.talk = h("div", { class: "talk", tabindex: "0", role: "log", "aria-label": `What ${name} sees` });
    this.empty = h("p", { class: "empty" }, "Nothing yet. Write something as Ann or as Ben.");
    this.talk.append(this.empty);
    this.typing = h("p", { class: "typing" });
    const label = `${name} writes to ${to}`;
    this.input = h("input", { "aria-label": label, placeholder: `Write to ${to}`, autocomplete: "off", maxlength: 4000, oninput: () => this.#types() });
    const submitted = (event) => {
      event.preventDefault();
      const text = this.input.value.trim();
      this.input.value = "";
      if (text) this.#send({ text });
    };
    const face = h("span", { class: "face", "aria-hidden": "true" }, name[0]);
    const head = h("header", {}, face, h("h2", { id: `${user}-name` }, name), this.state, this.cut);
    const form = h("form", { onsubmit: submitted }, this.input, h("button", { type: "submit" }, "Send"));
    this.element = h("section", { class: `pane ${user}`, "aria-labelledby": `${user}-name` }, head, this.talk, this.typing, form);
  }

  /** `refused` is called where the server wants a token. */
  async start(refused) {
    const { user } = this.#person;
    const store = IndexedDbStore.open(`tideline-demo-${user}`).catch(() => new MemoryStore());
    const client = new Client(ADDRESS, { user, device: "demo", store, WebSocket: this.#line.WebSocket, delay_ms: [300, 2_000] });
    this.#client = client;
    client.on("state", ({ state }) => this.#became(state));
    client.on("stopped", ({ code, error }) => (code === 4500 ? refused() : this.#show("bad", error?.message ?? `Closed with ${code}`)));
    client.on("kept", (message) => this.#kept(message));
    client.on("refused", ({ message_id, error }) => this.#refused(message_id, error));
    const following = this.#follow();
    await client.messages(TIMELINE, { limit: 1 }); // from here on the store is open
    for (const message of client.outbox) this.#kept(message);
    await following;
  }

  async #follow() {
    const { user } = this.#person;
    const timeline = await this.#client.subscribe(TIMELINE, { rewind: 50, replay: 50, with: ["signals", "members", "receipts"] });
    this.#timeline = timeline;
    this.#tell();
    timeline.on("message", (message) => this.#came(message));
    timeline.on("changed", (message) => this.#put(message));
    timeline.on("live", () => this.#live());
    timeline.on("caught_up", () => this.#back());
    timeline.on("reset", () => this.#clear());
    timeline.on("ended", ({ reason }) => (reason === "deleted" ? this.#follow() : this.#show("bad", `Ended: ${reason}`)));
    timeline.on("signal", (said) => said.user !== user && this.#typing(said.signal.typing === true));
    timeline.on("receipt", ({ receipts = [] }) => this.#receipts(receipts));
    timeline.on("member.changed", ({ members = [] }) => this.#receipts(members));
  }

  // ---- the line

  #toggle() {
    const cut = !this.#line.isCut;
    if (cut) this.#line.cut();
    else this.#line.join();
    write(this.cut, cut ? "Restore the line" : "Cut the line");
    this.cut.setAttribute("aria-pressed", String(cut));
    if (!cut) this.#client.reconnect();
    this.#tell();
  }

  #became(state) {
    if (state !== "open" && this.#timeline) this.#lost();
    else for (const message_id of this.#waiting) this.#away?.waited.add(message_id);
    this.#tell();
  }

  #lost() {
    this.#note = null;
    this.#said = 0;
    this.#away ??= { next: this.#timeline.position + 1, missed: 0, lost: 0, sent: 0, first: null, waited: new Set() };
    this.#typing(false);
  }

  /** Subscribed, now or again. What members and receipts said meanwhile is not told again, so it is asked. */
  async #live() {
    if (this.#timeline.position >= this.#timeline.head) this.#back();
    try {
      await this.#timeline.call("member.add", { members: [{ user: this.#person.user }] });
      this.#receipts((await this.#timeline.call("member.list")).members);
    } catch (error) {
      if (!["connection_lost", "closed", "stopped"].includes(error.reason)) this.#show("bad", error.message);
    }
    this.reads();
  }

  /** All that was missed is there: a note says so at the place where it begins. */
  #back() {
    const away = this.#away;
    if (!away || !this.#client.session) return;
    this.#away = null;
    if (!away.missed && !away.sent && !away.waited.size) return;
    const element = h("p", { class: `note${away.lost ? " bad" : ""}` });
    this.talk.insertBefore(element, away.first ?? this.#firstWaiting());
    this.#note = { element, away };
    this.#noted();
    this.#bottom();
  }

  #noted() {
    const { element, away } = this.#note;
    const missed = away.missed ? `${away.missed} missed, ${away.lost || "none"} lost` : "Back, nothing missed";
    write(element, away.sent ? `${missed} · ${away.sent} from the outbox sent` : missed);
    if (!away.waited.size) this.#note = null;
  }

  #tell() {
    const { state } = this.#client;
    if (state === "stopped" || state === "closed") return;
    const waits = this.#waiting.size ? `, ${many(this.#waiting.size, "message")} waiting` : "";
    if (this.#line.isCut) this.#show("bad", `Line cut${waits}`);
    else if (state === "open" && this.#timeline) this.#show("good", "Live");
    else this.#show("warn", `No answer from the server${waits}`);
  }

  #show(kind, text) {
    this.element.dataset.line = kind;
    write(this.state, text);
  }

  // ---- messages

  #send(entry) {
    const message_id = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
    this.#typed = -Infinity;
    if (this.#client.state !== "open") this.#away?.waited.add(message_id); // the line may be back before the store has it
    this.#client.append(TIMELINE, entry, { message_id }).catch((error) => this.#refused(message_id, error));
  }

  /** It is in the outbox: shown from now on, since a reload can't lose it any more. */
  #kept({ timeline, message_id, entry }) {
    if (timeline !== TIMELINE || this.#bubbles.has(message_id)) return;
    this.#put({ message_id, entry, sender: this.#person.user });
    this.#bottom();
  }

  #refused(message_id, error) {
    if (error.reason === "closed" || error.reason === "stopped") return;
    (this.#away ?? this.#note?.away)?.waited.delete(message_id);
    const bubble = this.#bubbles.get(message_id);
    if (!bubble || !this.#waiting.delete(message_id)) return;
    bubble.classList.replace("waits", "refused");
    fill(bubble.lastChild, `refused: ${error.message}`);
    this.#tell();
  }

  #came(message) {
    const { sequence, message_id, sender } = message;
    const bubble = this.#put(message);
    const away = this.#away;
    if (away) {
      away.lost += sequence - away.next;
      away.next = sequence + 1;
      if (sender !== this.#person.user) away.missed += 1;
      away.first ??= bubble;
    }
    const back = away ?? this.#note?.away;
    if (back?.waited.delete(message_id)) back.sent += 1;
    if (this.#note) this.#noted();
    if (sender !== this.#person.user) this.#typing(false);
    this.reads();
  }

  /** Puts a message where it belongs: those of the timeline in its order, behind them those that wait. */
  #put({ sequence = null, sender, message_id, timestamp, entry, deleted, hidden }) {
    const { user, other } = this.#person;
    const mine = sender === user;
    const stuck = this.talk.scrollHeight - this.talk.scrollTop - this.talk.clientHeight < 40;
    const old = this.#bubbles.get(message_id);
    const kind = `bubble ${mine ? "mine" : "theirs"}${sequence === null ? " waits" : ""}`;
    const from = mine || sender === other ? null : h("b", {}, sender ?? "somebody");
    const text = deleted || hidden ? h("p", { class: "gone" }, "deleted") : h("p", { dir: "auto" }, textOf(entry));
    const about = sequence === null ? "in the outbox" : [h("span", { class: "seq" }, `sequence ${sequence}`), minute(timestamp)];
    const bubble = h("div", { class: kind, data: { sequence: sequence ?? "" } }, from, text, h("small", {}, about));
    const stays = old && (sequence === null || !this.#waiting.has(message_id));
    if (stays) old.replaceWith(bubble);
    else this.talk.insertBefore(bubble, sequence === null ? null : this.#firstWaiting());
    if (!stays) old?.remove();
    this.#bubbles.set(message_id, bubble);
    if (sequence === null) this.#waiting.add(message_id);
    else this.#waiting.delete(message_id);
    if (mine && sequence !== null) this.#tick(bubble);
    this.#trim();
    if (stuck) this.#bottom();
    this.#tell();
    return bubble;
  }

  #tick(bubble) {
    const read = Number(bubble.dataset.sequence) <= this.#read;
    const label = read ? `read by ${this.#person.to}` : "on disk";
    const drawn = TICKS.slice(0, read ? 2 : 1).map((d) => svg("path", { d }));
    bubble.querySelector("svg")?.remove();
    bubble.lastChild.append(svg("svg", { class: `ticks${read ? " read" : ""}`, viewBox: "0 0 18 10", role: "img", "aria-label": label }, drawn));
  }

  #trim() {
    this.empty.remove();
    if (this.#bubbles.size <= SHOWN_MAX) return;
    const [message_id, oldest] = this.#bubbles.entries().next().value;
    if (this.#waiting.has(message_id)) return;
    oldest.remove();
    this.#bubbles.delete(message_id);
  }

  #firstWaiting() {
    return this.talk.querySelector(".waits");
  }

  /** The server has another history: only what waits is still true. */
  #clear() {
    for (const item of this.talk.querySelectorAll(":scope > :not(.waits)")) item.remove();
    for (const message_id of this.#bubbles.keys()) if (!this.#waiting.has(message_id)) this.#bubbles.delete(message_id);
    this.#read = this.#said = 0;
    this.#away = this.#note = null;
    if (!this.talk.childElementCount) this.talk.append(this.empty);
  }

  #bottom() {
    this.talk.scrollTop = this.talk.scrollHeight;
  }

  // ---- read and typing

  /** Says how far this one has read: all that came, while the page can be seen. */
  reads() {
    if (!this.#timeline || document.hidden || this.#timers.reads) return;
    this.#timers.reads = setTimeout(() => {
      this.#timers.reads = null;
      const { position } = this.#timeline;
      if (!this.#client.session || position === this.#said) return;
      this.#said = position;
      this.#timeline.call("read.set", { read: position }).catch(() => (this.#said = 0));
    }, 300);
  }

  #receipts(receipts) {
    const read = receipts.find(({ user }) => user === this.#person.other)?.read ?? 0;
    if (read <= this.#read) return;
    const before = this.#read;
    this.#read = read;
    for (const bubble of this.talk.querySelectorAll(".mine:not(.waits, .refused)")) {
      const sequence = Number(bubble.dataset.sequence);
      if (sequence > before && sequence <= read) this.#tick(bubble);
    }
  }

  #types() {
    const typing = this.input.value !== "";
    if (!this.#timeline || !this.#client.session) return;
    if (typing && performance.now() - this.#typed < TYPING_MS / 2) return;
    this.#typed = typing ? performance.now() : -Infinity;
    this.#timeline.call("signal", { signal: { typing } }).catch(() => {});
  }

  #typing(is) {
    clearTimeout(this.#timers.typing);
    fill(this.typing, is ? [h("i"), h("i"), h("i"), `${this.#person.to} is typing`] : null);
    if (is) this.#timers.typing = setTimeout(() => this.#typing(false), TYPING_MS);
  }
}

const textOf = (entry) =>
  typeof entry.text === "string" ? entry.text : JSON.stringify(entry, (_, value) => (typeof value === "bigint" ? String(value) : value));

/** The server asks who is there, and the demo has no tokens. */
function askForAnother() {
  const command = "cargo run --release -- serve --listen 127.0.0.1:7171 --data /tmp/demo";
  fill(
    document.querySelector("main"),
    h(
      "section",
      { class: "missing", role: "alert" },
      h("h2", {}, "This server asks who you are"),
      h("p", {}, "Its settings have [auth]: Ann and Ben would need a token each, and the demo has none. A server without [auth] serves its own machine only, and asks nobody. Start one beside this one:"),
      h("pre", { tabindex: "0" }, command),
      h("p", {}, "and open ", h("a", { href: "http://127.0.0.1:7171/demo/" }, "127.0.0.1:7171/demo/"), ". To look at this server, open its ", h("a", { href: "/console/" }, "console"), " with a key."),
    ),
  );
}

const [panes, framed] = document.querySelectorAll(".panes");
const both = PEOPLE.map((person) => {
  const frames = new Frames(person.name);
  const pane = new Pane(person, frames);
  panes.append(pane.element);
  framed.append(frames.element);
  pane.start(askForAnother).catch(() => {}); // what ended it is shown by `stopped`
  return { pane, frames };
});
document.querySelector("#frames").addEventListener("toggle", ({ target }) => both.forEach(({ frames }) => frames.show(target.open)));
document.addEventListener("visibilitychange", () => both.forEach(({ pane }) => pane.reads()));
window.addEventListener("hashchange", () => location.reload());
both[0].pane.input.focus();
