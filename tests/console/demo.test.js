// The demo: Ann and Ben by keyboard alone; the line cut, the page reloaded, the server killed: nothing lost, nothing twice.

import assert from "node:assert/strict";
import { test } from "node:test";
import { findings, looksSound, openPage, press, reads, sleep, startServer, text, until } from "./bed.js";

const TIMELINE = "demo/ann-and-ben";

/** Presses Tab until an element has the focus. */
async function tabTo(page, selector) {
  for (let pressed = 0; pressed < 40; pressed += 1) {
    if (await page.evaluate((wanted) => document.activeElement.matches(wanted), selector)) return;
    await press(page, "Tab");
  }
  throw new Error(`no way to ${selector} by Tab`);
}

const says = async (page, who, ...texts) => {
  await tabTo(page, `.${who} input`);
  for (const one of texts) await press(page, `type:${one}`, "Enter");
};
const toggles = async (page, who) => (await tabTo(page, `.${who} header button`), press(page, "Enter"));
const line = (page, who, wanted) => reads(page, wanted, `.${who} .state`);
const bubbles = (page, who, kind = "bubble") => page.$$eval(`.${who} .${kind} p`, (all) => all.map((one) => one.textContent));
const shows = (page, who, wanted) => until(`${who} shows ${wanted}`, async () => JSON.stringify(await bubbles(page, who)) === JSON.stringify(wanted));
const ticks = (page, who) => page.$$eval(`.${who} .mine .ticks`, (all) => all.map((one) => one.getAttribute("aria-label")));
const stored = async (server) => (await server.call("message.range", { timeline: TIMELINE })).messages.map(({ entry }) => entry.text);
const online = async (server) => (await server.call("presence.get", { timelines: [TIMELINE] })).timelines[TIMELINE].users.map(({ user }) => user);

async function open(server, options) {
  const page = await openPage(server, "/demo/", options);
  for (const who of ["ann", "ben"]) await line(page, who, "Live");
  return page;
}

test("text goes both ways, on disk and read; typing is told", async () => {
  const server = await startServer();
  const page = await open(server);
  await says(page, "ann", "one");
  await shows(page, "ben", ["one"]);
  await until("it is read", async () => (await ticks(page, "ann"))[0] === "read by Ben");
  await says(page, "ben", "two");
  await shows(page, "ann", ["one", "two"]);
  assert.match(await page.$eval(".ann .mine", (one) => one.textContent), /sequence 1/);
  await press(page, "type:thr");
  await reads(page, "Ben is typing", ".ann .typing");
  await press(page, "Backspace", "Backspace", "Backspace");
  await until("typing has ended", async () => (await text(page, ".ann .typing")) === "");
  assert.deepEqual(await stored(server), ["one", "two"]);
  await tabTo(page, "summary");
  await press(page, "Enter");
  await reads(page, /→\s+\{"jsonrpc":"2.0","id":\d+,"method":"message.append"/, "#frames .frames");
  assert.deepEqual(page.errors, []);
});

test("a cut line: the other goes on, what is typed waits; joined, nothing is lost and nothing comes twice", async () => {
  const server = await startServer();
  const page = await open(server);
  await says(page, "ben", "before");
  await shows(page, "ann", ["before"]);
  await toggles(page, "ann");
  await line(page, "ann", "Line cut");
  await until("the server has lost Ann", async () => JSON.stringify(await online(server)) === '["ben"]');
  await says(page, "ann", "a1", "a2");
  await line(page, "ann", "2 messages waiting");
  await says(page, "ben", "b1", "b2", "b3");
  await until("Ben's are on disk", async () => (await stored(server)).length === 4);
  assert.deepEqual(await bubbles(page, "ann"), ["before", "a1", "a2"]);
  assert.deepEqual(await bubbles(page, "ann", "waits"), ["a1", "a2"]);
  assert.deepEqual(new Set((await ticks(page, "ben")).slice(1)), new Set(["on disk"]));
  await toggles(page, "ann");
  const all = ["before", "b1", "b2", "b3", "a1", "a2"];
  await shows(page, "ann", all);
  await shows(page, "ben", all);
  await reads(page, "3 missed, none lost · 2 from the outbox sent", ".ann .note");
  await line(page, "ann", "Live");
  await until("all is read", async () => (await ticks(page, "ben")).every((one) => one === "read by Ann"));
  assert.deepEqual(await stored(server), all);
  assert.deepEqual(await bubbles(page, "ann", "waits"), []);
});

/** Runs in the page: until `held` is false, no other transaction of this store is committed. */
function holdOutbox(name) {
  window.held = true;
  return new Promise((resolve) => {
    indexedDB.open(name).onsuccess = ({ target: { result } }) => {
      const outbox = result.transaction("outbox", "readwrite").objectStore("outbox");
      const again = () => (window.held ? (outbox.count().onsuccess = again) : result.close());
      again();
      resolve();
    };
  });
}

/** Has a page's subscribe sent later than what else it sends. */
function delaySubscribe() {
  const { send } = WebSocket.prototype;
  WebSocket.prototype.send = function (text) {
    setTimeout(() => send.call(this, text), text.includes(`"method":"subscribe"`) ? 300 : 0);
  };
}

test("what waited is written before the subscription goes on: its note is there all the same", async () => {
  const server = await startServer();
  const page = await open(server);
  await toggles(page, "ann");
  await line(page, "ann", "Line cut");
  await says(page, "ann", "first of all");
  await line(page, "ann", "1 message waiting");
  await page.evaluate(delaySubscribe);
  await toggles(page, "ann");
  await reads(page, "Back, nothing missed · 1 from the outbox sent", ".ann .note");
  assert.deepEqual(await stored(server), ["first of all"]);
});

test("what is typed while the line is cut has waited, though the line is back before the store has it", async () => {
  const server = await startServer();
  // "Live" is said of what is followed: a line that is cut before has nothing to come back to.
  const page = await open(server, { first: delaySubscribe });
  await toggles(page, "ann");
  await line(page, "ann", "Line cut");
  await page.evaluate(holdOutbox, "tideline-demo-ann");
  await says(page, "ann", "held");
  await toggles(page, "ann");
  await line(page, "ann", "Live");
  assert.deepEqual(await stored(server), []);
  await page.evaluate(() => (window.held = false));
  await reads(page, "Back, nothing missed · 1 from the outbox sent", ".ann .note");
  assert.deepEqual(await stored(server), ["held"]);
});

test("the page reloaded while a line is cut: what waited arrives, once", async () => {
  const server = await startServer();
  const page = await open(server);
  await toggles(page, "ben");
  await line(page, "ben", "Line cut");
  await page.evaluate(holdOutbox, "tideline-demo-ben");
  await says(page, "ben", "kept");
  await sleep(200);
  assert.deepEqual([await bubbles(page, "ben"), await text(page, ".ben .state")], [[], "Line cut"]);
  await page.evaluate(() => (window.held = false));
  await line(page, "ben", "1 message waiting");
  await page.reload();
  await shows(page, "ann", ["kept"]);
  await shows(page, "ben", ["kept"]);
  assert.deepEqual(await stored(server), ["kept"]);
});

test("the server killed with -9 and back: both come back by themselves, what was typed is sent once", async () => {
  const server = await startServer();
  const page = await open(server);
  await says(page, "ann", "before");
  await shows(page, "ben", ["before"]);
  await server.kill();
  await line(page, "ann", "No answer from the server");
  await says(page, "ann", "while it is gone");
  await line(page, "ann", "1 message waiting");
  await server.start();
  for (const who of ["ann", "ben"]) {
    await line(page, who, "Live");
    await shows(page, who, ["before", "while it is gone"]);
  }
  await reads(page, "1 from the outbox sent", ".ann .note");
  assert.deepEqual(await stored(server), ["before", "while it is gone"]);
});

test("two windows chat, also those of one browser; another history is taken over", async () => {
  const server = await startServer();
  const here = await open(server);
  const there = await open(server);
  await says(here, "ann", "from here");
  await shows(there, "ann", ["from here"]);
  await says(there, "ben", "from there");
  await shows(here, "ben", ["from here", "from there"]);
  const beside = await here.browserContext().newPage();
  await beside.goto(`${server.page}/demo/`);
  await shows(beside, "ann", ["from here", "from there"]);
  await says(beside, "ben", "beside");
  await shows(here, "ann", ["from here", "from there", "beside"]);
  await server.call("timeline.delete", { timeline: TIMELINE });
  for (const page of [here, there]) await shows(page, "ann", []);
  await says(there, "ann", "anew");
  await shows(here, "ben", ["anew"]);
});

test("whatever is written is shown as what it is", async () => {
  const server = await startServer();
  const page = await open(server);
  const markup = '<img src=x onerror="document.title=1">';
  await server.append(TIMELINE, { text: markup }, { user: "ann" });
  await server.append(TIMELINE, { big: { $integer: "9223372036854775807" } }, { user: "mallory" });
  await shows(page, "ben", [markup, '{"big":"9223372036854775807"}']);
  await reads(page, "mallory", ".ben .talk");
  assert.equal(await page.$(".talk img"), null);
  await server.call("message.delete", { timeline: TIMELINE, sequence: 1 });
  await shows(page, "ben", ["deleted", '{"big":"9223372036854775807"}']);
});

test("with authentication the page says what is missing", async () => {
  const server = await startServer({ config: "[auth]\n" });
  const page = await openPage(server, "/demo/");
  await reads(page, "This server asks who you are", "main");
  await reads(page, "cargo run --release -- serve --listen", "main pre");
  assert.deepEqual(await findings(page), []);
});

for (const theme of ["light", "dark"]) {
  test(`${theme}: axe-core finds nothing, texts have contrast, no rule of the page is broken`, async () => {
    const server = await startServer();
    const page = await open(server, { theme });
    await says(page, "ann", "one");
    await says(page, "ben", "two");
    await until("they are read", async () => (await ticks(page, "ben"))[0] === "read by Ann");
    await toggles(page, "ben");
    await says(page, "ben", "three");
    await line(page, "ben", "1 message waiting");
    await page.$eval("#frames", (frames) => (frames.open = true));
    await sleep(200);
    await looksSound(page);
    assert.deepEqual(await page.evaluate(() => globalThis.violations), []);
  });
}
