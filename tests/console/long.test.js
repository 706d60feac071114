// What takes minutes: a million timelines standing, and 10,000 messages a second for long. Only with TIDELINE_LONG=1.
//
// Owns: the bars of speed. TIDELINE_TIMELINES and TIDELINE_FLOOD_S make it smaller or longer. Must not: run by itself.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openPage, press, reads, sleep, startServer, until } from "./bed.js";
import { load } from "./harbour.js";
import { Client } from "../../clients/javascript/index.js";

const skip = process.env.TIDELINE_LONG ? false : "takes minutes: TIDELINE_LONG=1";
const TIMELINES = Number(process.env.TIDELINE_TIMELINES ?? 1_000_000);
const FLOOD_S = Number(process.env.TIDELINE_FLOOD_S ?? 120);
const KEY_MS = 50;
const HEAP_BYTES = 80e6;
const FRAMES = 50;

/** How long from a key to the next frame that is painted, ms: the median of some. */
async function keyTime(page, key, times = 15) {
  const took = [];
  for (let number = 0; number < times; number++) {
    await page.evaluate(() => {
      globalThis.painted = new Promise((resolve) => addEventListener("keydown", () => {
        const began = performance.now();
        requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began)));
      }, { once: true, capture: true }));
    });
    await press(page, key);
    took.push(await page.evaluate(() => globalThis.painted));
  }
  return took.sort((a, b) => a - b)[times >> 1];
}

test("a million timelines stand, and any key is answered at once", { skip, timeout: 3_600_000 }, async () => {
  const server = await startServer();
  const client = new Client(server.ws, { user: "maker" });
  const waiting = new Set();
  for (let number = 0; number < TIMELINES; number++) {
    const timeline = `many/${String(number % 1000).padStart(3, "0")}/${number}`;
    const made = client.call("timeline.create", { timeline }).finally(() => waiting.delete(made));
    waiting.add(made);
    if (waiting.size >= 200) await Promise.race(waiting);
  }
  await Promise.all(waiting);
  await client.close();
  const page = await openPage(server, "/console/#/timelines/many%2F");
  await reads(page, "many", "main");
  const took = {};
  for (const key of ["j", "k", "]", "End", "Home", "t"]) took[key] = await keyTime(page, key);
  console.log(`${TIMELINES} timelines; key to paint, ms:`, took);
  for (const [key, ms] of Object.entries(took)) assert.ok(ms <= KEY_MS, `${key}: ${ms} ms`);
  await press(page, "Control+k");
  await page.waitForSelector("dialog[open]");
  const began = Date.now();
  await press(page, "type:many/999/");
  await until("it is found", () => page.$eval("dialog", (dialog) => dialog.innerText.includes("many/999/")));
  console.log(`found in a palette after ${Date.now() - began} ms, typing and 150 ms of waiting included`);
  assert.deepEqual(page.errors, []);
});

test("10,000 messages a second: memory and frames stay", { skip, timeout: 7_200_000 }, async () => {
  const server = await startServer();
  const flood = await load(server.ws, { rate: 10_000, readers: 0, rooms: 1, batch: 10 });
  const page = await openPage(server, "/console/#/timelines/room%2Fharbour");
  await reads(page, "Sampling", ".follow", 20_000);
  const heaps = [];
  const frames = [];
  for (const end = Date.now() + FLOOD_S * 1000; Date.now() < end; ) {
    frames.push(await page.evaluate(() => new Promise((resolve) => {
      const began = performance.now();
      let number = 0;
      const frame = () => (number++, performance.now() - began < 2_000 ? requestAnimationFrame(frame) : resolve(number / 2));
      requestAnimationFrame(frame);
    })));
    heaps.push((await page.metrics()).JSHeapUsedSize);
    assert.ok(await page.evaluate(() => document.querySelectorAll(".row").length) <= 120);
    await sleep(3_000);
  }
  const { head } = await server.call("timeline.get", { timeline: "room/harbour" });
  const median = frames.sort((a, b) => a - b)[frames.length >> 1];
  console.log(`${head} messages in ${FLOOD_S} s; heap at most ${Math.round(Math.max(...heaps) / 1e6)} MB, frames a second ${median} (at least ${frames[0]})`);
  assert.equal(flood.refused, 0);
  await flood.stop();
  assert.ok(head >= 9_000 * FLOOD_S, `only ${head} messages`);
  assert.ok(Math.max(...heaps) <= HEAP_BYTES);
  assert.ok(median >= FRAMES);
});
