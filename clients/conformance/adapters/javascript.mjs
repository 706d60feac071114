// The JavaScript client, as the conformance suite drives it: commands as lines of JSON on stdin, answers and events on
// stdout. TIDELINE_CLIENT is the folder of the package; without it, the one of this repository.

import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";

const PACKAGE = process.env.TIDELINE_CLIENT ?? fileURLToPath(new URL("../../javascript", import.meta.url));
const LISTENS_AFTER_MS = 30;

// Bugs that the suite must catch: a file of the package, what is replaced in it, and by what.
const BUGS = {
  no_gap_check: ["subscription.js", "if (message.sequence > last + 1) throw", "if (false) throw"],
  new_ids: ["outbox.js", "item.asked = false;\n    this.#send", "item.kept.params.message_id = newId();\n    this.#send"],
  older_wins: ["values.js", "(change.change ?? 0) > (copy.change ?? 0)", "true"],
  page_as_it_came: ["older.js", "for (const change of below)", "for (const change of [])"],
  part_grows_on: ["answer.js", "if (last && !last.sent && ", "if (last && "],
};

const EVENTS = ["message", "changed", "extended", "older", "too_old", "reset", "ended"];
const PUSHES = ["signal", "presence", "receipt", "member.changed", "timeline.changed", "conversation.changed"];

let client = null;
let store = null;
let opened = null;
const subscriptions = new Map();
const answers = new Map();

const say = (line) => process.stdout.write(`${JSON.stringify(line, wire)}\n`);

// What the client made BigInt and Uint8Array of is said in the wire's form again.
function wire(name, value) {
  if (typeof value === "bigint") return { $integer: String(value) };
  return value instanceof Uint8Array ? { $binary: Buffer.from(value).toString("base64") } : value;
}

/** A store that takes up to so long for whatever it is asked. */
function slowly(store, ms) {
  for (const name of ["place", "get", "range", "apply", "grow", "forget"]) {
    const quick = store[name].bind(store);
    store[name] = async (...args) => {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * ms));
      return quick(...args);
    };
  }
}

async function load(bug) {
  let folder = PACKAGE;
  if (bug) {
    const [file, sound, broken] = BUGS[bug];
    folder = await mkdtemp(join(tmpdir(), "tideline-bug-"));
    process.on("exit", () => rm(folder, { recursive: true, force: true }));
    await cp(PACKAGE, folder, { recursive: true });
    const text = await readFile(join(folder, file), "utf8");
    if (!text.includes(sound)) throw new Error(`${file} has no ${sound}`);
    await writeFile(join(folder, file), text.replace(sound, broken));
  }
  const [all, file] = await Promise.all(["index.js", "store/file.js"].map((one) => import(pathToFileURL(join(folder, one)))));
  return { ...all, ...file };
}

const commands = {
  async open({ url, store: path = null, tokens, bug, slow_ms, ...options }) {
    const { Client, FileStore, MemoryStore } = await load(bug);
    store = path === null ? new MemoryStore() : await FileStore.open(path);
    if (slow_ms) slowly(store, slow_ms);
    let asked = 0;
    const token = tokens?.length ? () => tokens[Math.min(asked++, tokens.length - 1)] : undefined;
    for (const name of Object.keys(options)) if (options[name] === null) delete options[name];
    client = new Client(url, { ...options, token, store });
    client.on("state", (detail) => say({ event: "state", state: detail.state, code: detail.code, why: detail.error?.message }));
    client.on("stopped", ({ code, error }) => say({ event: "stopped", code, why: error?.message }));
    client.on("refused", ({ timeline, message_id, reason }) => say({ event: "refused", timeline, message_id, reason }));
    for (const event of PUSHES) client.on(event, (params) => say({ event, ...params }));
    return {};
  },
  async subscribe({ timeline, rewind, closes_after = Infinity, with: wanted }) {
    const subscription = await client.subscribe(timeline, { rewind: rewind ?? undefined, with: wanted ?? undefined });
    subscriptions.set(timeline, subscription);
    let heard = 0;
    const hear = (said) => {
      say(said);
      if (++heard !== closes_after) return;
      subscription.close();
      subscriptions.delete(timeline);
      say({ event: "closed", timeline });
    };
    setTimeout(() => {
      for (const event of ["message", "changed"]) {
        subscription.on(event, (message) => hear({ event, timeline, message }));
      }
      for (const event of EVENTS.slice(2)) subscription.on(event, (detail) => hear({ event, timeline, ...detail }));
      for (const event of PUSHES) subscription.on(event, (detail) => say({ event, timeline, ...detail }));
    }, LISTENS_AFTER_MS);
    return {};
  },
  older: async ({ timeline, count }) => ({ count: await subscriptions.get(timeline).older(count) }),
  async unsubscribe({ timeline }) {
    await subscriptions.get(timeline)?.close();
    subscriptions.delete(timeline);
    return {};
  },
  append: ({ timeline, entry, message_id }) => client.append(timeline, entry, message_id ? { message_id } : {}),
  async grow({ answer: name, timeline, entry, message_id }) {
    const answer = client.open(timeline, entry, { message_id });
    answers.set(name, answer);
    const { text, parts } = message_id ? await answer.opened : answer;
    return { text, parts };
  },
  async write({ answer, text }) {
    await answers.get(answer).write(text);
    return {};
  },
  finish: async ({ answer, ...how }) => ({ message: await answers.get(answer).finish(how) }),
  call: async ({ method, params }) => ({ result: await client.call(method, params ?? {}) }),
  async dump() {
    // Writes go to the file in order: what is told is on disk, and no kill takes it back.
    await store.removeFromOutbox({ timeline: "", message_id: "" });
    const timelines = {};
    for (const timeline of await store.timelines()) {
      const { epoch, after: position, changes } = await store.place(timeline);
      const whole = { epoch, position, changes, messages: await store.range(timeline) };
      Object.defineProperty(timelines, timeline, { value: whole, enumerable: true });
    }
    const kept = (await store.outbox()).sort((a, b) => a.order - b.order);
    const outbox = kept.filter(({ method, answer }) => !method && !answer).map(({ timeline, message_id, params }) => ({ timeline, message_id, entry: params.entry }));
    const changes = kept.filter(({ method }) => method).map(({ method, params }) => ({ method, params }));
    return { timelines, outbox, changes };
  },
  async close() {
    await client.close();
    subscriptions.clear();
    return {};
  },
};

async function obey({ id, do: name, ...params }) {
  try {
    if (name === "open") opened = commands.open(params);
    const ready = await opened;
    say({ id, ok: name === "open" ? ready : await commands[name](params) });
  } catch (error) {
    const { stopped_by, why } = error.data ?? {};
    say({ id, error: { reason: error.reason ?? error.name, message: error.message, stopped_by, why } });
  }
}

for await (const line of createInterface({ input: process.stdin })) obey(JSON.parse(line));
await client?.close();
process.exit(0);
