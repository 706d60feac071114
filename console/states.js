// The four states that every view has beside its own: loading, empty, error, and what is not allowed.
//
// Owns: how they look and what they say to do. Promises: nothing for 150 ms, then grey bars; an error names its reason,
// what it means and what to do, and can be tried again; nothing partial looks whole. Must not: reload by itself.

import { fill, h, icon } from "./dom.js";
import { visible } from "./format.js";

const LOADING_MS = 150;

const MEANS = {
  forbidden: ["Your key may not do this.", "Ask for a key with the right that is named, or create one under Keys."],
  unauthenticated: ["The server does not know who you are.", "Show a key: press Ctrl K and choose “Use another key”."],
  busy: ["The server has too much to do just now.", "Try again in a few seconds. Partitions says which queue is full."],
  not_found: ["It is not there, or no longer.", "Check the name; it may have been deleted meanwhile."],
  timeline_not_found: ["There is no such timeline.", "Check the name; it may have been deleted meanwhile."],
  method_not_found: ["This server does not know this method.", "It is older than the console: start the newest binary."],
  invalid_params: ["The server does not take this value.", "Correct the field that is named."],
  too_large: ["It is larger than the limit.", "Send less at once; the limit is named."],
  search_off: ["The server keeps no index of messages.", "Set messages = true in [search] and start it again."],
  storage_failed: ["The partition has stopped after a failure of the disk.", "Look at the log and the disk, then restart the server."],
  connection_lost: ["The line was cut before the answer: perhaps it was done.", "Look whether it was done before you repeat it."],
  not_loaded: ["A part of the page has not come.", "When the server is there, try again: that loads the page anew."],
  outcome_unknown: ["The server can't say whether it was done.", "Look whether it was done before you repeat it."],
};

/** Reason, meaning and advice of an error. */
export function explained(error) {
  const reason = error?.reason ?? error?.name ?? "error";
  const [means, advice] = MEANS[reason] ?? ["The server has answered with an error.", "Try again; if it stays, look at the log."];
  const { field, limit, actual } = error?.data ?? {};
  const about = [field && `field ${field}`, limit !== undefined && `limit ${limit}`, actual !== undefined && `is ${actual}`];
  return { reason, message: visible(error?.message ?? ""), about: about.filter(Boolean).join(", "), means, advice };
}

/** The panel of an error, with Try again. */
export function failed(error, retry) {
  const { reason, message, about, means, advice } = explained(error);
  return h(
    "section",
    { class: "message failed", role: "alert" },
    icon("bad"),
    h("h2", {}, means),
    h("p", {}, h("code", {}, reason), message && `: ${message}`, about && ` (${about})`),
    h("p", {}, advice),
    retry && h("button", { type: "button", onclick: retry }, "Try again"),
  );
}

/** A module that is loaded when it is wanted. A browser remembers that one did not come, so only the page anew brings it. */
export const part = (name) =>
  import(`./${name}.js`).catch((cause) => {
    throw Object.assign(new Error(`${name}.js`, { cause }), { reason: "not_loaded" });
  });

/** Does something with such a module; says above the screen, which stays as it is, that the module has not come. */
export const withPart = (name, act) =>
  part(name).then(act, (error) => {
    const main = document.querySelector("main");
    main.querySelector(":scope > .no-part")?.remove();
    main.prepend(h("div", { class: "no-part" }, failed(error, () => location.reload())));
  });

/** The panel of a view that has nothing: what it would be, and the command (or button) that fills it. */
export function empty(title, text, command, ...more) {
  return h("section", { class: "message empty" }, h("h2", {}, title), h("p", {}, text), command && h("pre", { tabindex: "0" }, h("code", {}, command)), more);
}

/** The panel of a view that my key may not see. */
export const forbidden = (title, right) =>
  h(
    "section",
    { class: "message" },
    icon("keys"),
    h("h2", {}, `${title} needs the right ${right}`),
    h("p", {}, "Your key does not have it. Show another key (Ctrl K, “Use another key”), or have one made:"),
    h("pre", { tabindex: "0" }, h("code", {}, `tideline key create console --allow '*=${right}'`)),
  );

/** Grey bars in the place of what comes. */
const bars = () =>
  h("div", { class: "bars", "aria-hidden": "true" }, Array.from({ length: 8 }, (_, at) => h("i", { style: { width: `${88 - ((at * 37) % 50)}%` } })));

/**
 * Reads something into a box: nothing for 150 ms, then grey bars, then `show(result)` or the error with Try again. What
 * the box holds stays until the answer is there if `keep`. Returns the result, or null where it failed or was ended.
 */
export async function load(box, read, show, { signal, keep = false } = {}) {
  const timer = setTimeout(() => keep || fill(box, bars()), LOADING_MS);
  box.setAttribute("aria-busy", "true");
  try {
    const result = await read();
    clearTimeout(timer);
    if (signal?.aborted) return null;
    const shown = show(result);
    if (shown instanceof Node || Array.isArray(shown)) fill(box, shown);
    return result;
  } catch (error) {
    clearTimeout(timer);
    if (signal?.aborted) return null;
    if (!error.reason) throw error;
    // What is there stays; the frame says that the line is lost, and the screen reads again when it is back.
    if (keep && error.reason === "connection_lost") return null;
    fill(box, failed(error, () => load(box, read, show, { signal })));
    return null;
  } finally {
    clearTimeout(timer);
    box.removeAttribute("aria-busy");
  }
}
