// Overview, Partitions and Log: what an operator sees while it goes well, goes badly and is gone.
//
// Owns: live figures, the sentences of troubles, the line lost and back. Must not: check how it looks.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { blockPartition, deafReader, openPage, ownErrors, press, reads, sleep, startServer, text, until } from "./bed.js";
import { load } from "./harbour.js";

const server = await startServer({ config: "segment_bytes = 1048576\n", args: ["--partitions", "4"] });
const running = await load(server.ws, { rate: 60, readers: 4, rooms: 6, writers: 2 });
after(() => running.stop());
const figure = (page, name) => page.$$eval(".figure", (all, name) => all.find((one) => one.querySelector("h2").textContent === name).querySelector(".big").innerText, name);

test("partitions are gone through by keyboard, and one is opened", async () => {
  const page = await openPage(server, "/console/#/partitions");
  await reads(page, "4 partitions", "main");
  await press(page, "j", "j");
  await until("partition 1 is in the link", () => page.url().endsWith("#/partitions/1"));
  assert.match(await reads(page, "Partition 1", "main"), /position \d/);
  await press(page, "Escape");
  await until("it is closed", async () => !(await text(page, "main")).includes("Held by"));
});

test("the log comes line by line, by level and by text", async () => {
  const page = await openPage(server, "/console/#/log");
  await reads(page, "ready", ".lines");
  await server.call("timeline.create", { timeline: "from/the/log" });
  await press(page, "Home");
  await reads(page, "Follow", ".follow");
  await page.waitForSelector("pre.json:not([hidden])");
  await page.goto(`${server.page}/console/#/log?text=nothing+says+this`);
  await page.reload();
  await reads(page, "No line holds that", "main");
  assert.deepEqual(page.errors, []);
});

test("a stopped partition, a reader that lags and a disk nearly full are said in words, with what to do", async () => {
  const config = "segment_bytes = 1048576\nslow_consumer_ms = 20000\nsocket_send_bytes = 4096\n";
  // The largest file that a process may write counts as room, too: here 300 MiB.
  const under = ["sh", "-c", 'ulimit -f 614400; exec "$0" "$@"'];
  const troubled = await startServer({ config, args: ["--partitions", "4"], under });
  const page = await openPage(troubled);
  await reads(page, "4 partitions commit; 1 thing needs a look.", ".state");
  assert.match(await reads(page, "The disk is nearly full", ".notices"), /Make room/);
  const reader = await deafReader(troubled, "deaf/1");
  await blockPartition(troubled, 2);
  const said = await reads(page, /Partition 2 has stopped\. Writes to it are refused, reads go on; the other 3 commit/, ".state");
  assert.ok(said);
  await reads(page, /not keep up.*Sessions/s, ".notices");
  await reads(page, /restart the server/, ".notices");
  assert.equal(await page.$eval(".rail a[href='#/overview'] em", (badge) => badge.textContent), "3");
  assert.match(await text(page, ".grid tbody"), /Stopped/);
  reader.destroy();
});

test("figures are there at once from the server's own hour, and change live", async () => {
  // The server has looked at itself before anybody did.
  await until("a history", async () => Object.keys((await server.call("server.history")).series).length > 0);
  const page = await openPage(server);
  await reads(page, "Serving.", ".state");
  await reads(page, "All 4 partitions commit, nothing is refused.", ".state");
  await until("appends are drawn", () => page.$$eval(".lane .line", (lines) => lines.every((line) => /L/.test(line.getAttribute("d")))));
  await until("appends are counted", async () => Number.parseFloat(await figure(page, "Appends")) > 20);
  // Two writers, four readers, and this page.
  await until("connections are counted", async () => Number.parseFloat(await figure(page, "Connections")) >= 7);
  const seen = new Set();
  await until("the log's position moves", async () => seen.add(await text(page, ".grid tbody")).size >= 3);
  assert.equal(await page.$$eval(".grid tbody tr", (rows) => rows.length), 4);
  assert.match(await text(page, ".way"), /Sync/);
  // What is so now is said once; beside the chart there are values of the column that is pointed at.
  const key = () => page.$$eval(".legends em", (all) => all.map((one) => one.textContent));
  assert.deepEqual(await key(), ["", ""]);
  const chart = await (await page.$(".heat")).boundingBox();
  await page.mouse.move(chart.x + chart.width - 4, chart.y + 40);
  await until("the column's values", async () => (await key()).every((value) => value !== ""));
  await page.mouse.move(2, 2);
  await until("none again", async () => (await key()).every((value) => value === ""));
  assert.match(await text(page, ".foot"), /A batch: \d/);
  // The same as a table, by keyboard.
  await page.$eval(".as-table", (button) => button.focus());
  await press(page, "Enter");
  await reads(page, "Appends", "dialog");
  await press(page, "Escape");
  assert.deepEqual(page.errors, []);
});

test("the line is lost and comes back without a gap", async () => {
  const page = await openPage(server);
  await until("figures", async () => (await figure(page, "Connections")) !== "–");
  const before = await figure(page, "Connections");
  await server.kill();
  const said = await reads(page, "The line to the server is lost", ".lost-line");
  assert.match(said, /as of \d\d:\d\d:\d\d; reconnecting/);
  assert.equal(await figure(page, "Connections"), before, "figures stay");
  const state = await reads(page, "The line is lost.", ".state");
  assert.ok(!state.includes("Serving"), state);
  await reads(page, "Lost", ".rail");
  page.quiet();
  await server.start();
  await reads(page, "Live", ".rail");
  await until("the line's loss is over", () => page.$eval(".lost-line", (line) => line.hidden));
  await reads(page, "Serving.", ".state");
  await sleep(100);
  assert.deepEqual(ownErrors(page), []);
});

test("what opens above a screen and did not come says so, and the screen stays", async () => {
  const page = await openPage(server, "about:blank");
  await page.setRequestInterception(true);
  page.on("request", (request) => (/\/(palette|dialog)\.js$/.test(request.url()) ? request.abort() : request.continue()));
  await page.goto(`${server.page}/console/`);
  await reads(page, "Serving.", ".state");
  const asTable = () => page.$eval(".as-table", (button) => button.click());
  const opens = [["palette", () => press(page, "Control+k")], ["dialog", asTable], ["palette", () => press(page, "Control+k")], ["dialog", () => press(page, "?")]];
  for (const [name, open] of opens) {
    await open();
    await reads(page, new RegExp(`A part of the page has not come.*${name}.js`, "s"), "main > .no-part");
  }
  assert.equal(await page.$$eval("main > .no-part", (all) => all.length), 1);
  await reads(page, "Serving.", ".state");
  assert.deepEqual(page.quiet().filter((error) => /TypeError/.test(error)), []);
});

test("a screen that did not come with the others is there after another try", async () => {
  const page = await openPage(server, "about:blank");
  // Some browsers ask again for a module that failed, others do not: none gets it until the page has said so.
  let missing = true;
  let failed = 0;
  await page.setRequestInterception(true);
  page.on("request", (request) => (missing && request.url().endsWith("/screens/tables.js") ? ((failed += 1), request.abort()) : request.continue()));
  await page.goto(`${server.page}/console/`);
  await until("its first request has failed", () => failed > 0);
  await sleep(200);
  assert.deepEqual(page.quiet().filter((error) => /TypeError/.test(error)), []);
  await press(page, "g", "b");
  await reads(page, "A part of the page has not come", "main");
  missing = false;
  await page.evaluate(() => [...document.querySelectorAll("main button")].find((one) => one.textContent.includes("Try again")).click());
  await until("it is shown", async () => /no tables/i.test(await text(page, "main")));
});
