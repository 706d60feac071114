// The screen Conversations: a user's list as their client sees it, why something is unread, and who may look.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { isSound, looksSound, openPage, ownErrors, press, reads, startServer, until } from "./bed.js";

let server;

/** Ann with two conversations: one of ten messages, of which she has read 3, sent 1 and hidden 1. */
async function people(on) {
  const call = (method, params, user) => on.call(method, params, { user });
  await call("timeline.create", { timeline: "room/kiel", meta: { title: "Kiel lock" }, members: [{ user: "ann" }, { user: "ben" }] });
  for (let n = 1; n <= 8; n += 1) await call("message.append", { timeline: "room/kiel", entry: { text: `ship ${n}` } }, "ben");
  await call("message.append", { timeline: "room/kiel", entry: { text: "mine" } }, "ann");
  await call("message.append", { timeline: "room/kiel", entry: { text: "ann, look", mentions: ["ann"] } }, "ben");
  await call("read.set", { timeline: "room/kiel", read: 3, force: true }, "ann");
  await call("message.hide", { timeline: "room/kiel", sequences: [5] }, "ann");
  await call("conversation.direct", { user: "ben" }, "ann");
}

before(async () => {
  server = await startServer();
  await people(server);
});

test("a user's list, and why it is unread; it changes live, and nothing is marked as read", async () => {
  const page = await openPage(server, "/console/#/conversations");
  await reads(page, "Whose conversations?");
  await press(page, "/", "type:ann", "Enter");
  await reads(page, /Kiel lock[\s\S]*@ 5/, ".talks");
  await reads(page, "5 unread", ".crumbs");
  await reads(page, "7 messages above what ann has read (3); 2 of them are ann’s own, recalled or hidden, so 5 are unread, and 1 names ann.", ".why");
  await reads(page, /5 hidden|Hidden by this user/, ".msgs");
  assert.match(await page.evaluate(() => location.hash), /^#\/conversations\/ann\?at=room%2Fkiel/);
  await server.append("room/kiel", { text: "one more" }, { user: "ben" });
  await reads(page, "@ 6", ".talks");
  await reads(page, "one more", ".msgs");
  await server.call("read.set", { timeline: "room/kiel", read: 11 }, { user: "ann" });
  await reads(page, "ann has read everything", ".why");
  await server.call("read.set", { timeline: "room/kiel", read: 3, force: true }, { user: "ann" });
  await reads(page, "8 messages above", ".why");
  await press(page, "Escape", "End", "Enter");
  await reads(page, /With ben|Kiel lock/, ".tl h2");
  await page.evaluate(() => (location.hash = "#/conversations/ann?at=room%2Fkiel"));
  await reads(page, "one more", ".msgs");
  await server.kill();
  await reads(page, "it goes on without a gap", ".edge");
  await server.start();
  await server.append("room/kiel", { text: "after the kill" }, { user: "ben" });
  await reads(page, "after the kill", ".msgs");
  await reads(page, "9 messages above", ".why");
  // It may have tried to connect while the server was gone.
  assert.deepEqual(ownErrors(page), []);
  await isSound(page);
  await press(page, "k", "Enter");
  await until("the timeline is open", async () => (await page.evaluate(() => location.hash)).startsWith("#/timelines/room%2Fkiel?at="));
});

test("a user without conversations, and one with a hostile name", async () => {
  const page = await openPage(server, "/console/#/conversations/nobody");
  await reads(page, "nobody has no conversations");
  const evil = await openPage(server, `/console/#/conversations/${encodeURIComponent("<b>\u202Eevil")}`);
  await reads(evil, "<b>‹U+202E›evil has no conversations");
});

test("with authentication, only users that the key may act for", async () => {
  const closed = await startServer({ config: "[auth]\n", start: false });
  closed.key = closed.makeKey("ops", "--allow", "*=admin", "--act-as", "ann", "--act-as", "ben");
  await closed.start();
  await people(closed);
  const page = await openPage(closed, "/console/#/conversations/ann");
  await reads(page, "This server asks who you are");
  await press(page, `type:${closed.key}`, "Enter");
  await reads(page, /Kiel lock[\s\S]*@ 5/, ".talks");
  assert.ok(!(await page.evaluate(() => location.href + document.cookie + JSON.stringify({ ...localStorage }))).includes("tl_"));
  await press(page, "/");
  await page.$eval(".finder input", (field) => field.select());
  await press(page, "type:cleo", "Enter");
  await reads(page, "forbidden", ".found");
  await page.evaluate(() => (location.hash = "#/timelines/room%2Fkiel"));
  await reads(page, "Live edge");
  await press(page, "a");
  await page.$eval("dialog textarea", (area) => area.select());
  await press(page, 'type:{"text": "by the key, as ben"}');
  await press(page, "Tab", "type:ben", "Enter");
  await reads(page, "by the key, as ben", ".msgs");
  const { message } = await closed.call("message.get", { timeline: "room/kiel", sequence: 11 });
  assert.equal(message.sender, "ben");
});

test("it can be read and heard by everybody", async () => {
  for (const theme of ["light", "dark"]) {
    const page = await openPage(server, "/console/#/conversations/ann?at=room%2Fkiel", { theme });
    await reads(page, "Live edge");
    await looksSound(page);
  }
});
