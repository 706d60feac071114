// What is written to a timeline: append, edit, recall, configure, trim, delete.
//
// Owns: their dialogs. Promises: an append carries its message ID from the moment the dialog opens, so repeating it
// doubles nothing; an edit sends what differs, and only if nobody else edited meanwhile; what is lost is said, and the
// name typed. Must not: show the outcome in the list, which hears of it as everybody does.

import { as } from "../acting.js";
import { ask } from "../dialog.js";
import { h, write } from "../dom.js";
import { difference, json, read } from "../entry.js";
import { count, many, visible } from "../format.js";
import { server } from "../server.js";

const DAY_MS = 86_400_000;

function objectOf(text) {
  const value = read(text); // what is no JSON says where
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new TypeError("An entry is an object: {\"name\": value}");
  return value;
}

/** One call as a user, on a connection of their own. */
async function callAs(user, method, params) {
  if (!user || user === server.session?.user) return server.call(method, params);
  const client = as(user);
  try {
    const refused = new Promise((_, reject) => client.on("stopped", ({ error, code }) => reject(error ?? new Error(`refused with ${code}`))));
    return await Promise.race([client.call(method, params), refused]);
  } finally {
    client.close().catch(() => {});
  }
}

function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `console-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** Resolves with the answer, or null if it was left. Without a timeline its name is asked too. */
export function append(timeline) {
  return ask({
    title: timeline ? ["Append to ", h("code", {}, visible(timeline))] : "Append a message",
    fields: [
      ...(timeline ? [] : [{ name: "timeline", label: "Timeline", value: "room/1", required: true, mono: true, hint: "It is made if it is not there." }]),
      { name: "entry", label: "Entry", type: "area", value: '{\n  "text": ""\n}', required: true, mono: true,
        hint: 'JSON. 1 is an integer, 1.0 a double; {"$binary": "base64"} are bytes.' },
      { name: "user", label: "As user", value: server.session?.user ?? "", hint: "Empty: as the key itself, or as nobody." },
      { name: "message_id", label: "Message ID", value: newId(), mono: true, hint: "Sent again with the same ID, it is not appended twice." },
    ],
    action: "Append",
    submit: async ({ timeline: named = timeline, entry, user, message_id }) => {
      const params = { timeline: named, entry: objectOf(entry), message_id: message_id || undefined };
      return { timeline: named, ...(await callAs(user.trim(), "message.append", params)) };
    },
  });
}

export function edit(timeline, epoch, message) {
  const { sequence, entry, change = 0 } = message;
  return ask({
    title: `Edit message ${count(sequence)}`,
    fields: [{ name: "entry", label: "Entry", type: "area", value: json(entry, 2), required: true, mono: true }],
    action: "Save",
    submit: async ({ entry: text }) => {
      const { set, remove } = difference(entry, objectOf(text));
      if (!Object.keys(set).length && !remove.length) throw new Error("Nothing differs.");
      return server.call("message.update", { timeline, epoch, sequence, set, remove, expect_change: change });
    },
  });
}

export function recall(timeline, epoch, { sequence, sender }) {
  return ask({
    title: `Recall message ${count(sequence)}`,
    lost: `Its entry${sender ? ` by ${visible(sender)}` : ""} is gone for everybody. Its place stays, and says that it was recalled.`,
    fields: [{ name: "reason", label: "Reason", hint: "Those who read the place see it. It may be empty." }],
    action: "Recall",
    danger: true,
    submit: ({ reason }) => server.call("message.recall", { timeline, epoch, sequence, reason: reason || undefined }),
  });
}

export function trim(timeline, { epoch, head, floor }, before = head + 1) {
  const lost = h("span");
  const number = h("input", { id: "field-before", type: "number", min: floor, max: head + 1, value: before, oninput: say });
  function say() {
    const gone = Math.min(Math.max(Number(number.value) - floor, 0), head - floor + 1);
    write(lost, `${many(gone, "message")} of ${count(head - floor + 1)} will be lost: all below ${count(Number(number.value))}. Nothing brings them back.`);
  }
  say();
  return ask({
    title: ["Trim ", h("code", {}, visible(timeline))],
    lost,
    body: h("div", { class: "asked" }, h("label", { for: "field-before" }, "The first sequence to keep"), number),
    type_name: timeline,
    action: "Trim",
    danger: true,
    submit: () => server.call("timeline.trim", { timeline, epoch, before: Number(number.value) }),
  });
}

export function remove(timeline, { epoch, head, floor, members_count }) {
  return ask({
    title: ["Delete ", h("code", {}, visible(timeline))],
    lost: [
      `${many(head - floor + 1, "message")}, ${many(members_count, "member")} and all settings will be lost. `,
      "Nothing brings them back; readers are told that it was deleted.",
    ],
    type_name: timeline,
    action: "Delete",
    danger: true,
    submit: () => server.call("timeline.delete", { timeline, epoch }),
  });
}

const POLICY = "as the policy says";

/** Settings: only what was changed is sent. */
export function configure(timeline, { epoch, settings, settings_version }) {
  const { retention, members_only, fan_out, fan_out_members_max, edit: edits } = settings;
  const asked = {
    age: retention.age_ms === undefined ? "" : String(retention.age_ms / DAY_MS),
    messages: String(retention.messages ?? ""),
    bytes: String(retention.bytes ?? ""),
    members_only: String(members_only),
    fan_out,
    fan_out_members_max: String(fan_out_members_max),
    by: edits.by,
    window: edits.window_ms === undefined ? "" : String(edits.window_ms / 60_000),
  };
  const number = (text) => (text.trim() === "" ? undefined : Number(text));
  const field = (name, label, more) => ({ name, label, value: asked[name], ...more });
  return ask({
    title: ["Configure ", h("code", {}, visible(timeline))],
    fields: [
      field("age", "Keep for days", { type: "number", hint: "Empty: for ever" }),
      field("messages", "Keep newest messages", { type: "number", hint: "Empty: all" }),
      field("bytes", "Keep bytes", { type: "number", hint: "Empty: all" }),
      field("members_only", "Members only", { type: "choice", options: ["true", "false", POLICY] }),
      field("fan_out", "Fan-out", { type: "choice", options: ["read", "write", "auto", POLICY] }),
      field("fan_out_members_max", "Members up to which auto writes", { type: "number" }),
      field("by", "Who edits", { type: "choice", options: ["anyone", "sender", POLICY] }),
      field("window", "For minutes after the append", { type: "number", hint: "Empty: for ever" }),
    ],
    action: "Configure",
    submit: (values) => {
      const differs = (...names) => names.some((name) => values[name] !== asked[name]);
      const patch = {};
      if (differs("age", "messages", "bytes")) {
        const age = number(values.age);
        patch.retention = { age_ms: age && Math.round(age * DAY_MS), messages: number(values.messages), bytes: number(values.bytes) };
      }
      if (differs("members_only")) patch.members_only = values.members_only === POLICY ? null : values.members_only === "true";
      if (differs("fan_out")) patch.fan_out = values.fan_out === POLICY ? null : values.fan_out;
      if (differs("fan_out_members_max")) patch.fan_out_members_max = number(values.fan_out_members_max) ?? null;
      if (differs("by", "window")) {
        const minutes = number(values.window);
        patch.edit = values.by === POLICY ? null : { by: values.by, window_ms: minutes && Math.round(minutes * 60_000) };
      }
      if (!Object.keys(patch).length) throw new Error("Nothing differs.");
      return server.call("timeline.configure", { timeline, epoch, settings: patch, expect_version: settings_version });
    },
  });
}
