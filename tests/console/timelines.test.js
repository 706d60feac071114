// The screen Timelines, by keys alone, against the real server: found, read, followed, written to, lost and back.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { findings, isSound, looksSound, openPage, press, reads, sleep, startServer, text, until } from "./bed.js";

const ROOM = "room/harbour";
let server;

before(async () => {
  server = await startServer();
  for (const name of ["harbour", "harbour/pilots", "hull", "kiel"]) await server.append(`room/${name}`, { text: `here is ${name}` }, { user: "ann" });
  for (let page = 0; page < 6; page += 1) {
    const messages = Array.from({ length: 100 }, (_, at) => ({ entry: { text: `message ${page * 100 + at + 2}` } }));
    await server.call("message.append_batch", { timeline: ROOM, messages }, { user: "ann" });
  }
});

const rows = (page) => page.$$eval(".msgs .row", (all) => all.map((row) => row.querySelector(".seq").textContent.replaceAll(",", "")));
const detail = (page) => text(page, ".detail");
const open = (path = "", more) => openPage(server, `/console/#/timelines${path}`, more);
const at = (page) => page.evaluate(() => location.hash);

test("a timeline is found by keys: its beginning typed, or level by level", async () => {
  const page = await open();
  await reads(page, "room/", ".finder");
  await press(page, "/", "type:room/h");
  await reads(page, /harbour[\s\S]*hull/, ".finder");
  assert.ok(!(await text(page, ".rooms")).includes("kiel"));
  await press(page, "Enter");
  await reads(page, "message 601", ".msgs");
  assert.match(await at(page), /^#\/timelines\/room%2Fharbour\?prefix=room%2Fh/);
  await press(page, "Escape", "Escape", "Escape");
  await reads(page, /^all$/m, ".crumbs");
  await reads(page, "room/", ".rooms");
  await press(page, "j", "Enter");
  await reads(page, /harbour\/[\s\S]*kiel/, ".rooms");
  await isSound(page);
});

test("oldest and newest, pages, go to a sequence and a time; the fragment is the view", async () => {
  const page = await open(`/${encodeURIComponent(ROOM)}`);
  await reads(page, "Live edge");
  await press(page, "Home");
  await reads(page, "here is harbour", ".msgs");
  await reads(page, "Not following");
  await press(page, "]", "]");
  await until("two pages on", async () => !(await rows(page)).includes("1"));
  await press(page, "#", "type:333", "Enter");
  await reads(page, "Message 333", ".detail");
  assert.match(await at(page), /at=333/);
  await press(page, "j", "j");
  await reads(page, "Message 335", ".detail");
  await page.browserContext().overridePermissions(server.page, ["clipboard-read", "clipboard-write", "clipboard-sanitized-write"]);
  await page.bringToFront();
  await press(page, "c");
  await reads(page, "Message 335 is copied as JSON", ".edge");
  assert.equal(JSON.parse(await page.evaluate(() => navigator.clipboard.readText())).sequence, 335);
  await press(page, "y");
  await reads(page, "The link is copied", ".edge");
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /#\/timelines\/room%2Fharbour\?at=335$/);
  await press(page, "Escape");
  await until("the detail is closed", async () => !(await page.$eval(".detail", (one) => one.checkVisibility())));
  await press(page, "#", "type:2020-01-01", "Enter");
  await reads(page, "Message 1", ".detail");
  await press(page, "#", "type:yesterday noon", "Enter");
  await reads(page, "Give a sequence, or a time");
  const other = await open(`/${encodeURIComponent(ROOM)}?at=42`);
  await reads(other, '"message 42"', ".detail");
  await press(other, "Escape", "End");
  await reads(other, "Live edge");
  await isSound(page);
  await isSound(other);
});

test("append, edit and recall by keys; another's edit reaches the open message", async () => {
  const page = await open(`/${encodeURIComponent("room/kiel")}`);
  await reads(page, "Live edge");
  await press(page, "a");
  await reads(page, "Append to", "dialog");
  await page.$eval("dialog textarea", (area) => area.select());
  await press(page, 'type:{"text": "by keys", "big": 9223372036854775807, "half": 1.0, "blob": {"$binary": "AAECAw=="}}', "Tab", "type:cleo", "Tab", "Tab", "Tab", "Enter");
  await reads(page, "by keys", ".msgs");
  const { message } = await server.call("message.get", { timeline: "room/kiel", sequence: 2 });
  assert.equal(message.sender, "cleo");
  assert.match(message.message_id, /^console-/);
  await press(page, "k", "Enter");
  await reads(page, /9223372036854775807[\s\S]*1\.0|1\.0[\s\S]*9223372036854775807/, ".detail");
  await reads(page, "binary 4 B", ".detail");
  await server.call("message.update", { timeline: "room/kiel", sequence: 2, set: { text: "by another" } }, { user: "ben" });
  await reads(page, '"by another"', ".detail");
  await press(page, "e");
  await reads(page, "Edit message 2", "dialog");
  const area = await page.$eval("dialog textarea", (one) => one.value);
  assert.match(area, /"half": 1\.0/);
  assert.match(area, /9223372036854775807/);
  await page.$eval("dialog textarea", (one) => one.setSelectionRange(one.value.length - 1, one.value.length - 1));
  await press(page, 'type:, "mine": 7', "Tab", "Tab", "Enter");
  await reads(page, '"mine": 7', ".detail");
  const raw = await (await fetch(`${server.url}/v1/rpc`, { method: "POST", headers: { "content-type": "application/json" }, body: '{"jsonrpc":"2.0","id":1,"method":"message.get","params":{"timeline":"room/kiel","sequence":2}}' })).text();
  assert.match(raw, /"half":1\.0/);
  assert.match(raw, /"big":9223372036854775807/);
  await press(page, "r", "type:wrong room", "Tab", "Tab", "Enter");
  await reads(page, "wrong room", ".msgs");
  await reads(page, "wrong room", ".detail");
  await isSound(page);
});

test("an edit that another was faster with is refused, and says so", async () => {
  await server.append("room/race", { text: "one" });
  const page = await open("/room%2Frace?at=1");
  await reads(page, "Message 1", ".detail");
  await press(page, "e");
  await reads(page, "Edit message 1", "dialog");
  await server.call("message.update", { timeline: "room/race", sequence: 1, set: { text: "two" } });
  await page.$eval("dialog textarea", (area) => area.select());
  await press(page, 'type:{"text": "mine"}', "Tab", "Tab", "Enter");
  await reads(page, "condition_failed", "dialog");
  await press(page, "Escape");
  await reads(page, '"two"', ".detail");
});

test("trim and delete say what is lost and want the name typed", async () => {
  for (let n = 0; n < 10; n += 1) await server.append("room/gone", { n });
  const page = await open("/room%2Fgone?at=5");
  await reads(page, "Message 5", ".detail");
  const menu = async (text) => page.$$eval(".menu button", (all, wanted) => all.find((one) => one.textContent === wanted).click(), text);
  await page.focus(".menu summary");
  await press(page, "Enter", "Tab", "Tab", "Enter");
  await reads(page, "4 messages of 10 will be lost", "dialog");
  assert.ok(await page.$eval("dialog [type=submit]", (one) => one.disabled));
  await page.focus("dialog [name=type_name]");
  await press(page, "type:room/gone", "Enter");
  await reads(page, /Floor\s+5/, ".facts");
  assert.equal((await server.call("timeline.get", { timeline: "room/gone" })).floor, 5);
  await menu("Delete");
  await reads(page, "6 messages", "dialog");
  await press(page, "type:room/gon");
  assert.ok(await page.$eval("dialog [type=submit]", (one) => one.disabled));
  await press(page, "type:e", "Enter");
  await reads(page, "Choose a timeline");
  await assert.rejects(server.call("timeline.get", { timeline: "room/gone" }), /timeline/);
  await isSound(page);
});

test("hostile names and entries are shown as what they are", async () => {
  const name = "evil/<b>\u202Egnp</b>";
  await server.append(name, { "<script>": "<img src=x onerror=alert(1)>\u202Eexe", text: "a\u0000b\u200Bc", deep: [[["<b>"]]] });
  await server.append(name, { text: "x".repeat(200_000), number: Number.MAX_SAFE_INTEGER });
  const page = await open(`/${encodeURIComponent(name)}?at=1`);
  await reads(page, "‹U+202E›", ".tl h2");
  await reads(page, "<img src=x onerror=alert(1)>‹U+202E›exe", ".detail");
  await reads(page, "a‹U+0000›b‹U+200B›c", ".msgs");
  assert.equal(await page.$$eval("main img, main script, main b b", (all) => all.length), 0);
  await press(page, "j");
  await reads(page, "more characters are not shown", ".detail");
  assert.ok((await detail(page)).length < 70_000);
  await isSound(page);
});

test("a timeline that is not there, one that ends while it is read, and no timeline at all", async () => {
  const none = await open("/room%2Fnowhere");
  await reads(none, "There is no such timeline");
  await reads(none, "Try again");
  await server.append("room/ends", { text: "the last words" });
  const page = await open("/room%2Fends");
  await reads(page, "the last words", ".msgs");
  await reads(page, "Live edge");
  await server.call("timeline.delete", { timeline: "room/ends" });
  await reads(page, "The timeline was deleted: these are its last rows", ".edge");
  await server.append("room/ends", { text: "a new beginning" });
  await page.$$eval(".edge .link", (all) => all.find((one) => one.textContent === "Open it anew").click());
  await reads(page, "a new beginning", ".msgs");
  await isSound(page);
  const fresh = await openPage(await startServer(), "/console/#/timelines");
  await reads(fresh, "No timelines yet", ".stream");
  await press(fresh, "a", "Tab", "Tab", "Tab", "Tab", "Tab", "Enter");
  await reads(fresh, "Live edge");
  await isSound(fresh);
});

test("what a key may not do is disabled and names the right; the server hides what it may not read", async () => {
  const closed = await startServer({ config: "[auth]\n", admin: true });
  await closed.append("room/kiel", { text: "read me" });
  await closed.append("other", { text: "not for you" });
  const { key } = await closed.call("key.create", { name: "reader", rights: [{ on: "room/*", allow: ["read"] }, { on: "*", allow: ["observe"] }] });
  const page = await openPage(closed, "/console/#/timelines/room%2Fkiel?at=1", { key });
  await reads(page, '"read me"', ".detail");
  const [append, edit] = await Promise.all([".tl .acts > button:nth-of-type(2)", ".detail .acts button"].map((one) => page.$eval(one, ({ disabled, title }) => [disabled, title])));
  assert.deepEqual(append, [true, "Append needs the right append"]);
  assert.deepEqual(edit, [true, "Edit needs the right edit or moderate"]);
  await press(page, "a");
  await reads(page, "append needs the right append", ".edge");
  await page.evaluate(() => (location.hash = "#/timelines/other"));
  await reads(page, "There is no such timeline");
  await isSound(page);
});

test("the server is killed and is back: it goes on without a gap", async () => {
  const page = await open(`/${encodeURIComponent("room/hull")}`);
  await reads(page, "Live edge");
  await server.kill();
  await reads(page, "The line to the server is lost");
  await reads(page, "it goes on without a gap", ".edge");
  await server.start();
  for (let n = 0; n < 5; n += 1) await server.append("room/hull", { text: `after the kill ${n}` });
  await reads(page, "after the kill 4", ".msgs");
  assert.deepEqual(await rows(page), ["1", "2", "3", "4", "5", "6"]);
  await reads(page, "Live edge");
});

test("a flood is sampled, holes open, and the open message is edited meanwhile", async () => {
  await server.append("flood", { text: "first" });
  const page = await open("/flood?at=1");
  await reads(page, "Live edge");
  let going = true;
  const flood = async () => {
    while (going) await server.call("message.append_batch", { timeline: "flood", messages: Array.from({ length: 100 }, (_, n) => ({ entry: { n } })) });
  };
  const flooding = [flood(), flood(), flood(), flood()];
  try {
    await reads(page, "Sampling", ".edge");
    await server.call("message.update", { timeline: "flood", sequence: 1, set: { text: "edited in the flood" } });
    await reads(page, "edited in the flood", ".detail");
    // Something else is drawn, too. How many frames a second is measured in long.test.js.
    await page.evaluate(() => new Promise((done) => {
      let frames = 0;
      const count = () => ((frames += 1) < 3 ? requestAnimationFrame(count) : done());
      requestAnimationFrame(count);
    }));
  } finally {
    going = false;
    await Promise.all(flooding);
  }
  await reads(page, "Live edge", ".edge");
  await isSound(page);
  await page.$eval(".msgs", (one) => (one.scrollTop -= 600));
  await reads(page, "Not following", ".edge");
  const size = () => page.$eval(".hole .more", (one) => Number(one.firstChild.textContent.replace(/\D/g, "")));
  const before = await until("a hole is seen", async () => {
    await page.$eval(".msgs", (one) => (one.scrollTop -= 400));
    return size();
  });
  await page.$eval(".hole", (one) => one.click());
  await until("the hole is smaller, or gone", async () => !(await page.$(".hole")) || (await size()) !== before);
});

test("nothing is lacking for those who see or hear differently", async () => {
  for (const theme of ["light", "dark"]) {
    const page = await open(`/${encodeURIComponent(ROOM)}?at=500`, { theme });
    await reads(page, "Message 500", ".detail");
    await looksSound(page);
    for (const tab of ["Members", "Readers", "Settings"]) {
      await page.$$eval(".tabs a", (all, wanted) => all.find((one) => one.textContent === wanted).click(), tab);
      await sleep(300);
      assert.deepEqual(await findings(page), [], tab);
    }
    await isSound(page);
  }
});

test("it is usable at 1,024 and at 640 pixels", async () => {
  for (const width of [1024, 640]) {
    const page = await open(`/${encodeURIComponent(ROOM)}`, { width });
    await reads(page, "message 601", ".msgs");
    await press(page, "k", "Enter");
    await reads(page, "Message 601", ".detail");
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `${wide} wide`);
  }
});

test("a message that grows is shown while it is written, and how it ended", async () => {
  const timeline = "room/answers";
  const extend = (sequence, part, word) => server.call("message.extend", { timeline, sequence, part, text: word }, { user: "bot" });
  const opened = (open) => server.call("message.append", { timeline, open, entry: { kind: "answer" } }, { user: "bot" });
  await opened(true);
  await extend(1, 1, "High");
  const page = await open(`/${encodeURIComponent(timeline)}`);
  await reads(page, "Live edge");
  await reads(page, /High[\s\S]*open · 1/, ".msgs");
  await press(page, "k", "Enter");
  await reads(page, "open · 1 part", ".detail");
  await extend(1, 2, " at");
  await extend(1, 3, " nine");
  await reads(page, /High at nine[\s\S]*open · 3/, ".msgs");
  await reads(page, '"High at nine"', ".detail");
  await opened({ column: "body" });
  await extend(2, 1, "Low");
  await reads(page, "Low", ".msgs");
  await server.call("message.finish", { timeline, sequence: 1, parts: 3 }, { user: "bot" });
  await reads(page, "closed as done · 3 parts", ".detail");
  await server.call("message.stop", { timeline, sequence: 2, reason: "too long" }, { user: "ben" });
  await reads(page, "stopped", ".msgs");
  await press(page, "j");
  await reads(page, "stopped by ben: too long · 1 part", ".detail");
  // Who does not follow is told, too.
  await opened(true);
  await reads(page, "open · 0", ".msgs");
  await press(page, "f");
  await reads(page, "Not following");
  await extend(3, 1, "by and by");
  await reads(page, "by and by", ".msgs");
  await isSound(page);
});
