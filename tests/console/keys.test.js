// Keys: made, shown once, used, revoked, all by keyboard; and what the screen says where there are none.

import assert from "node:assert/strict";
import { test } from "node:test";
import { findings, openPage, press, reads, startServer, text, until } from "./bed.js";

const open = async (server, options = { key: server.key }) => {
  const page = await openPage(server, "/console/#/keys", options);
  await reads(page, /as of|Try again|The first one|needs the right/, "main");
  return page;
};
const secretOf = (page) => page.$eval(".secret code", (code) => code.textContent);

test("a key is made by keyboard, shown once, works, and is revoked when its name was typed", async () => {
  const server = await startServer({ config: "[auth]\n", admin: true });
  const page = await open(server);
  await press(page, "a");
  await reads(page, "Its secret is shown once", "dialog");
  await press(page, "type:shop", "Tab", "Control+a", "type:room/*=read,append,create");
  for (let field = 0; field < 3; field += 1) await press(page, "Tab");
  await press(page, "Tab", "Tab", "Enter");
  await reads(page, "nobody can show it again", "dialog");
  const key = await secretOf(page);
  assert.deepEqual(await findings(page), []);
  assert.match(key, /^tl_[a-z0-9]+_\w{20,}$/);
  await server.call("message.append", { timeline: "room/1", entry: { text: "by key" } }, { key });
  await press(page, "Enter");
  await reads(page, "room/*=read,append,create", ".rows");
  assert.ok(!(await page.content()).includes(key), "the secret is not in the page any more");
  await reads(page, "shop", ".detail h2");
  assert.deepEqual(await findings(page), []);

  await press(page, "r");
  await reads(page, "can't be undone", "dialog");
  const revoke = () => page.$eval("dialog button[type=submit]", (button) => button.disabled);
  assert.equal(await revoke(), true);
  await press(page, "type:sho", "Enter");
  assert.equal(await revoke(), true);
  await press(page, "type:p", "Enter");
  await until("it is gone", async () => !(await text(page, "main")).includes("shop"));
  await assert.rejects(server.call("ping", {}, { key }), { reason: "unauthenticated" });
  assert.deepEqual(page.errors, []);
});

test("what the server refuses is said in the dialog, which stays as it was written", async () => {
  const server = await startServer({ config: "[auth]\n", admin: true });
  const page = await open(server);
  await press(page, "a", "type:shop", "Tab", "Control+a", "type:room/* read", "Tab", "Enter");
  await reads(page, "is not like room/*=read,append", "dialog .trouble");
  await press(page, "Shift+Tab", "Control+a", "type:room/*=fly", "Tab", "Enter");
  await reads(page, /invalid_params[^]*no such right/, "dialog .trouble");
  assert.equal(await page.$eval("dialog input", (input) => input.value), "shop");
  await press(page, "Escape");
  assert.equal(await page.$("dialog"), null);
  assert.equal((await server.call("key.list")).keys.length, 1);
});

test("rows by j and k, open by Enter, back by Escape, and the link shows the same", async () => {
  const server = await startServer({ config: "[auth]\n", admin: true });
  for (const name of ["one", "two", "three"]) await server.call("key.create", { name, rights: [{ on: `${name}/*`, allow: ["read"] }] });
  const page = await open(server);
  await press(page, "j", "Enter");
  const opened = await text(page, ".detail h2");
  await press(page, "j");
  await until("the next one is open", async () => (await text(page, ".detail h2")) !== opened);
  const next = await text(page, ".detail h2");
  await page.reload();
  await reads(page, next, ".detail h2");
  await press(page, "Escape");
  assert.equal(await page.$eval(".detail", (detail) => detail.hidden), true);
  assert.equal(new URL(page.url()).hash.replace(/\/?(\?.*)?$/, ""), "#/keys");
});

test("without authentication the screen says what keys are, and the command that makes the first", async () => {
  const server = await startServer();
  const page = await open(server);
  await reads(page, "asks nobody for a key", "main");
  await reads(page, "tideline key create admin --allow '*=admin'", "main pre");
  assert.deepEqual(await findings(page), []);
});

test("who may not make keys is told which right is missing", async () => {
  const server = await startServer({ config: "[auth]\n", admin: true });
  const { key } = await server.call("key.create", { name: "eyes", rights: [{ on: "*", allow: ["observe"] }] });
  const page = await open(server, { key });
  await reads(page, "Keys needs the right admin", "main");
});
