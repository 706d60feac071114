// Who may see what: a server that asks for keys, and keys with few rights.
//
// Owns: that the key is asked for, kept where it is said and nowhere else, and that what it may not do says so.

import assert from "node:assert/strict";
import { test } from "node:test";
import { findings, openPage, press, reads, startServer, text, until } from "./bed.js";

const server = await startServer({ config: "[auth]\n", start: false });
const make = (name, allow) => server.makeKey(name, "--allow", allow);
const keys = { admin: make("ops", "*=admin"), observe: make("watch", "*=observe"), read: make("reader", "room/*=read") };
server.key = keys.admin;
await server.start();
await server.call("timeline.create", { timeline: "room/1" });

async function show(page, key, keep = false) {
  await page.waitForSelector("dialog");
  await press(page, `type:${key}`);
  if (keep) await press(page, "Tab", "Space");
  await press(page, "Enter");
}

const kept = (page) => page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href]));

test("a key is asked for, a wrong one is said to be wrong, a good one opens the console", async () => {
  const page = await openPage(server);
  await reads(page, "This server asks who you are", "dialog");
  assert.deepEqual(await findings(page), []);
  await show(page, "tl_nonsense");
  await reads(page, "not valid", "dialog");
  await show(page, keys.admin);
  await reads(page, "Serving.", ".state");
  await reads(page, "ops", ".me");
  assert.ok(!(await kept(page)).includes(keys.admin), "in memory only");
  await page.reload();
  await reads(page, "This server asks who you are", "dialog");
});

test("on request the key is kept for this tab, in sessionStorage alone", async () => {
  const page = await openPage(server);
  await show(page, keys.observe, true);
  await reads(page, "Serving.", ".state");
  const found = await kept(page);
  assert.equal(found.split(keys.observe).length, 2, "once");
  assert.ok(await page.evaluate(() => Object.values(localStorage).length === 0 && document.cookie === ""));
  await page.reload();
  await reads(page, "Serving.", ".state");
});

test("what a key may not do is not offered, and names the right", async () => {
  const page = await openPage(server);
  await show(page, keys.read);
  await reads(page, "needs the right observe", "main");
  await press(page, "g", "k");
  await reads(page, "Keys", ".top h1");
  await until("keys are refused in words", async () => /admin/.test(await text(page, "main")));
});
