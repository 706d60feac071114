// Search: messages and timelines found by their words, opened by keyboard; pages, hostile texts, and where it is off.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isSound, looksSound, openPage, press, reads, sleep, startServer, text, until } from "./bed.js";

const ON = { config: "[search]\nmessages = true\n" };

/** A server with messages that a search finds. */
async function filled() {
  const server = await startServer(ON);
  await server.append("harbour/1", { text: "the tide is in at noon" }, { user: "ann" });
  await server.append("harbour/1", { text: "The tide turns at six", topic: "boats" }, { user: "ben" });
  await server.append("harbour/2", { text: "明天港口的潮水很高" }, { user: "ann" });
  await server.append("harbour/2", { text: "<b>markup</b> \u202Etide\u0000", note: "low" }, { user: "eve" });
  await server.call("timeline.create", { timeline: "harbour/3", meta: { title: "Lighthouse watch" } });
  return server;
}

const open = (server, hash = "#/lookup", options) => openPage(server, `/console/${hash}`, options);
const marked = (page, selector = ".rows") => page.$$eval(`${selector} mark`, (all) => all.map((one) => one.textContent));

test("messages are found while one types, marked, and opened in their timeline by keyboard", async () => {
  const server = await filled();
  const page = await open(server);
  await reads(page, "Which words?", "main");
  await press(page, "/", "type:tide -markup");
  await until("the link has all of it", () => page.evaluate(() => location.hash.endsWith("q=tide+-markup")));
  await reads(page, /harbour\/1\s+2\s+ben\s+The tide turns at six\s.*harbour\/1\s+1\s+ann\s+the tide is in at noon/s, ".rows");
  assert.deepEqual(await marked(page), ["tide", "tide"]);
  await reads(page, "2 messages", ".listed .foot");
  await press(page, "Escape", "Home", "Enter");
  await reads(page, "boats", ".detail");
  assert.deepEqual(await marked(page, ".detail"), ["tide"]);
  await press(page, "#");
  await until("its timeline is open", () => page.evaluate(() => location.hash.startsWith("#/timelines/harbour%2F1?at=2")));
  await page.goBack();
  await reads(page, "2 messages", ".listed .foot");
  await isSound(page);
});

test("a part of a Chinese sentence, a sender, a prefix, the best first; the link shows the same", async () => {
  const server = await filled();
  const page = await open(server, "#/lookup?q=港口");
  await reads(page, "明天港口的潮水很高", ".rows");
  assert.deepEqual(await marked(page), ["港口"]);
  await press(page, "/", "type:tide", "Enter");
  await reads(page, "3 messages", ".listed .foot");
  await page.type('input[aria-label="Sender"]', "ann");
  await press(page, "Enter");
  await reads(page, "1 message,", ".listed .foot");
  await page.goto(`${server.page}/console/#/lookup?q=tide&in=harbour%2F1&order=best`);
  await page.reload();
  await reads(page, "2 messages", ".listed .foot");
  assert.equal(await page.$eval('.seg [aria-pressed="true"]:last-child', (one) => one.textContent), "Best");
  await press(page, "/", "type:nosuchword");
  await reads(page, "No message has that", "main");
  await isSound(page);
});

test("timelines are found by their metas", async () => {
  const server = await filled();
  const page = await open(server, "#/lookup?kind=timelines&q=light*");
  await reads(page, /harbour\/3\s.*Lighthouse watch/s, ".rows");
  await press(page, "j", "Enter");
  await reads(page, "Lighthouse watch", ".detail");
  await press(page, "#");
  await until("it is open", () => page.evaluate(() => location.hash.startsWith("#/timelines/harbour%2F3")));
  await isSound(page);
});

test("what a sender wrote is text, and what hides is seen", async () => {
  const server = await filled();
  const page = await open(server, "#/lookup?q=markup");
  await reads(page, /<b>markup<\/b>.*U\+202E/, ".rows");
  assert.equal(await page.$(".rows b"), null);
  await isSound(page);
});

test("more pages come as one scrolls", async () => {
  const server = await startServer(ON);
  for (let first = 0; first < 350; first += 50) {
    const messages = Array.from({ length: 50 }, (_, at) => ({ entry: { text: `page number${first + at}` } }));
    await server.call("message.append_batch", { timeline: "many", messages });
  }
  const page = await open(server, "#/lookup?q=page");
  await reads(page, "100 messages; more come as you scroll", ".listed .foot");
  for (let turn = 0; turn < 4; turn++) {
    await press(page, "End");
    await until("more are there", async () => new RegExp(`^${Math.min(200 + turn * 100, 350)} messages`).test(await text(page, ".listed .foot")));
  }
  assert.match(await text(page, ".rows"), /number0/);
  await isSound(page);
});

test("where it is off the screen says how to switch it on", async () => {
  const server = await startServer();
  const page = await open(server, "#/lookup?q=tide");
  await reads(page, "messages = true", "main");
  await isSound(page);
});

test("the palette offers it for any text", async () => {
  const server = await filled();
  const page = await openPage(server, "/console/");
  await reads(page, "Live");
  // A key that comes while a view is drawn anew may be lost.
  await until("the palette is open", async () => {
    await press(page, "Control+k");
    await sleep(500);
    return page.$("dialog[open]");
  });
  await press(page, "type:noon");
  await reads(page, "Messages with", ".palette");
  await page.$$eval(".palette li", (all) => all.find((one) => one.innerText.includes("Messages with")).click());
  await reads(page, "the tide is in at noon", ".rows");
});

for (const theme of ["light", "dark"]) {
  test(`${theme}: axe-core finds nothing, texts have contrast`, async () => {
    const server = await filled();
    const page = await open(server, "#/lookup?q=tide", { theme });
    await reads(page, "3 messages", ".listed .foot");
    await press(page, "j", "Enter");
    await reads(page, "Found", ".detail");
    if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/lookup-${theme}.png` });
    await looksSound(page, { theme });
  });
}
