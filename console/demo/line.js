// A line that can be cut, and the frames that go over it.
//
// Owns: what the demo's clients take for a WebSocket, and the list of frames. Promises: cut means that the socket is
// closed and no other opens, and the client learns only that it is gone; frames are shown as they went, the newest
// FRAMES_MAX. Must not: change a frame.

import { h } from "/console/dom.js";
import { clock, count, thousandths, visible } from "/console/format.js";

const FRAMES_MAX = 200;
const FRAME_LETTERS_MAX = 2_000;
const GONE = 1006; // as a browser says that a connection broke

export function makeLine(frames) {
  const open = new Set();
  const line = { isCut: false, cut, join: () => (line.isCut = false) };

  function cut() {
    line.isCut = true;
    for (const socket of [...open]) socket.break();
  }

  line.WebSocket = class {
    #socket = null;

    constructor(url, protocols) {
      open.add(this);
      if (line.isCut) setTimeout(() => this.#gone(GONE));
      else this.#dial(new WebSocket(url, protocols));
    }

    #dial(socket) {
      this.#socket = socket;
      socket.onopen = () => this.onopen();
      socket.onclose = ({ code }) => this.#gone(code);
      socket.onmessage = ({ data }) => {
        frames.add("in", data);
        this.onmessage({ data });
      };
    }

    send(text) {
      frames.add("out", text);
      this.#socket.send(text);
    }

    close(code) {
      open.delete(this);
      this.#socket?.close(code);
    }

    break() {
      const socket = this.#socket;
      if (socket) socket.onopen = socket.onmessage = socket.onclose = null;
      socket?.close();
      this.#gone(GONE);
    }

    #gone(code) {
      if (open.delete(this)) this.onclose({ code });
    }
  };
  return line;
}

/** The newest frames of one person, written out only while somebody looks. */
export class Frames {
  #kept = [];
  #shown = false;

  constructor(name) {
    this.list = h("ol", { class: "frames", tabindex: "0", "aria-label": `Frames of ${name}` });
    this.element = h("section", {}, h("h2", {}, name), this.list);
  }

  add(way, data) {
    const frame = { way, text: String(data), at: Date.now() };
    this.#kept.push(frame);
    if (this.#kept.length > FRAMES_MAX) this.#kept.shift();
    if (this.#shown) this.#put(frame);
  }

  show(shown) {
    this.#shown = shown;
    this.list.replaceChildren();
    if (shown) for (const frame of this.#kept) this.#put(frame);
  }

  #put({ way, text, at }) {
    const { list } = this;
    const stuck = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    const rest = text.length - FRAME_LETTERS_MAX;
    const more = rest > 0 ? h("em", {}, ` and ${count(rest)} letters more`) : null;
    const arrow = h("b", { role: "img", "aria-label": way === "in" ? "from the server" : "to the server" }, way === "in" ? "←" : "→");
    const code = h("code", {}, visible(text.slice(0, FRAME_LETTERS_MAX)), more);
    list.append(h("li", { class: way }, h("time", {}, clock(at) + thousandths(at)), arrow, code));
    if (list.childElementCount > FRAMES_MAX) list.firstElementChild.remove();
    if (stuck) list.scrollTop = list.scrollHeight;
  }
}
