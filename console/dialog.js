// Dialogs: a form with its errors in place, and confirmations that want the name typed.
//
// Owns: what is asked before something is written. Promises: nothing is sent before the person says so; what is lost is
// said, and where it can't be undone its name must be typed; Escape leaves; the focus comes back. Must not: know methods.

import { fill, h, icon } from "./dom.js";
import { visible } from "./format.js";
import { take } from "./keys.js";
import { explained } from "./states.js";

/**
 * Asks, sends, and resolves with what `submit(values)` gave, or null if it was left. Fields: {name, label, type ("text",
 * "area", "number", "check", "choice", "secret"), value, hint, required, options, mono}. `lost`: what is lost, as a text. `type_name`:
 * must be typed before it can be sent. `danger`: the button is red. What `submit` throws is shown, and the dialog stays.
 */
export function ask({ title, text, lost, fields = [], type_name = null, action, danger = false, submit, body = null, cancel = true }) {
  return new Promise((resolve) => {
    const ends = new AbortController();
    const before = document.activeElement;
    const trouble = h("div", { class: "trouble", role: "alert" });
    const send = h("button", { type: "submit", class: danger ? "danger" : "primary" }, action ?? "OK");
    const inputs = new Map(fields.map((field) => [field.name, input(field)]));
    const typed = type_name === null ? null : input({ name: "type_name", mono: true });
    const form = h(
      "form",
      { method: "dialog", onsubmit: (event) => (event.preventDefault(), go()), oninput: check },
      h("h2", { id: "dialog-title" }, title),
      text && h("p", {}, text),
      lost && h("p", { class: "lost" }, icon("warn"), h("span", {}, lost)),
      body,
      fields.map((field) => row(field, inputs.get(field.name))),
      typed && row({ label: ["Type ", h("code", {}, visible(type_name)), " to go on"] }, typed),
      trouble,
      h("footer", {}, cancel && h("button", { type: "button", onclick: () => leave(null) }, "Cancel"), send),
    );
    const dialog = h("dialog", { "aria-labelledby": "dialog-title", oncancel: (event) => (event.preventDefault(), leave(null)) }, form);

    function check() {
      const lacks = fields.some(({ name, required }) => required && !inputs.get(name).value.trim());
      send.disabled = lacks || (typed !== null && typed.value !== type_name && typed.value !== visible(type_name));
    }
    async function go() {
      check();
      if (send.disabled) return;
      const values = Object.fromEntries(fields.map(({ name, type }) => [name, type === "check" ? inputs.get(name).checked : inputs.get(name).value]));
      send.disabled = true;
      try {
        leave((await submit?.(values)) ?? values);
      } catch (error) {
        const { message, about, means, reason } = explained(error);
        fill(trouble, h("b", {}, error.reason ? means : "This can't be sent."), " ", error.reason && h("code", {}, reason), ` ${message}`, about && ` (${about})`);
        send.disabled = false;
      }
    }
    function leave(result) {
      if (!dialog.open) return;
      ends.abort();
      dialog.close();
      dialog.remove();
      before?.focus?.();
      resolve(result);
    }
    take({ back: () => leave(null) }, { signal: ends.signal, alone: true });
    document.body.append(dialog);
    check();
    dialog.showModal();
    (typed && fields.length === 0 ? typed : form.querySelector("input, textarea, select") ?? send).focus();
  });
}

/** A dialog that only shows: `body` and one button. */
export const show = ({ title, text, body, action = "Close" }) => ask({ title, text, body, action, cancel: false });

function input({ name, type = "text", value = "", options = [], required, mono, hint, rows = 8 }) {
  const about = { name, id: `field-${name}`, "aria-describedby": hint && `hint-${name}`, class: mono ? "mono" : null, required, spellcheck: "false", autocomplete: "off" };
  if (type === "area") return h("textarea", { ...about, rows, value });
  if (type === "check") return h("input", { ...about, type: "checkbox", checked: value === true });
  if (type === "choice") return h("select", { ...about }, options.map((one) => h("option", { value: one, selected: one === value }, one)));
  return h("input", { ...about, type: type === "secret" ? "password" : type, value });
}

function row({ name = "type_name", label, type, hint }, made) {
  const said = h("label", { for: made.id }, label);
  return h("div", { class: type === "check" ? "asked check" : "asked" }, said, made, hint && h("small", { id: `hint-${name}` }, hint));
}
