// The chat of clients/javascript/ai: useChat of the AI SDK and a model that recites. Reloaded in the middle of an answer, on a
// second tab, stopped on that, the server killed: the text is exact each time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { looksSound, openPage, press, reads, startChat, startServer, until } from "./bed.js";

const TIMELINE = "chat/harbour";

const bubbles = (page) => page.$$eval(".talk .bubble p", (all) => all.map((one) => one.textContent));
const answer = async (page) => (await bubbles(page)).at(-1) ?? "";
const grows = (page, behind) => until(`more than ${behind.length} letters`, async () => (await answer(page)).length > behind.length + 40 && answer(page));
const rests = (page) => until("it rests", async () => (await page.$eval(".pane", (pane) => pane.dataset.status)) === "ready");
const stored = async (server) => (await server.call("message.range", { timeline: TIMELINE })).messages;
const texts = async (server) => (await stored(server)).map(({ entry }) => entry.text);
const closed = (server, count) => until("it is closed", async () => (await stored(server)).filter(({ outcome }) => outcome).length === count);

async function asks(page, text) {
  await page.focus(".pane input");
  await press(page, `type:${text}`, "Enter");
}

/** All tabs show what is stored, which is what the model has said. */
async function areExact(server, pages) {
  const wanted = await texts(server);
  for (const page of pages) {
    await until("all is shown", async () => JSON.stringify(await bubbles(page)) === JSON.stringify(wanted)).catch(async () => assert.deepEqual(await bubbles(page), wanted));
    assert.deepEqual(await page.evaluate(() => globalThis.violations), []);
  }
}

const isThePoem = (text) => {
  const [first] = text.split("and every word that here remains");
  assert.equal(text, `${first}and every word that here remains\nis written once, and read again 🌊\n`.repeat(3));
};

test("an answer goes on through a reload, on a second tab and through a kill of the server", async () => {
  const server = await startServer();
  const chat = await startChat(server, 150); // half a minute: two pages are opened meanwhile
  const page = await openPage(chat, "/chat/");
  await reads(page, "Live", ".state");
  await asks(page, "What does the tide do?");
  let seen = await grows(page, "x".repeat(60));
  await page.reload();
  seen = await grows(page, seen);
  const other = await openPage(chat, "/chat/", { beside: page });
  seen = await grows(other, seen);
  await server.kill();
  await reads(page, "No answer from the server", ".state");
  await server.start();
  await grows(page, seen);
  await closed(server, 1);
  for (const one of [page, other]) await rests(one);
  isThePoem((await texts(server))[1]);
  await areExact(server, [page, other]);
  const [, { outcome, entry }] = await stored(server);
  assert.deepEqual([outcome, entry.role, (await stored(server)).length], ["done", "assistant", 2]);
});

test("a stop on another tab ends the answer for all, and the next question is answered on both", async () => {
  const server = await startServer();
  const chat = await startChat(server, 60);
  const page = await openPage(chat, "/chat/");
  const other = await openPage(chat, "/chat/", { beside: page });
  await reads(other, "Live", ".state");
  await reads(page, "Live", ".state");
  await asks(page, "Recite.");
  await grows(page, "x".repeat(60));
  await grows(other, "x".repeat(60));
  await other.click("#stop");
  await closed(server, 1);
  for (const one of [page, other]) {
    await rests(one);
    await reads(one, "stopped by ann", ".talk");
  }
  await areExact(server, [page, other]);
  const [, { outcome, stopped_by }] = await stored(server);
  assert.deepEqual([outcome, stopped_by], ["cancelled", "ann"]);
  await asks(other, "Again, please.");
  await closed(server, 2);
  for (const one of [page, other]) await rests(one);
  isThePoem((await texts(server)).at(-1));
  await areExact(server, [page, other]);
  for (const one of [page, other]) assert.deepEqual(one.quiet(), []);
  await looksSound(page);
});
