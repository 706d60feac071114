// Sessions: who is connected and how far behind, as it changes; one closed, all by keyboard.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Client } from "../../clients/javascript/index.js";
import { looksSound, openPage, press, reads, startServer, text, until } from "./bed.js";

const clients = [];
after(() => Promise.all(clients.map((client) => client.close())));

/** Somebody who follows timelines. */
async function connects(server, user, device, ...timelines) {
  const client = new Client(server.ws, { user, device, delay_ms: [60_000, 60_001] });
  clients.push(client);
  for (const timeline of timelines) await client.subscribe(timeline);
  await client.call("ping");
  return client;
}

const users = (page) => page.$$eval(".rows .row .name", (names) => names.map((name) => name.textContent));
const open = async (server, hash = "#/sessions", options) => {
  const page = await openPage(server, `/console/${hash}`, options);
  await reads(page, /as of/, ".listed .foot");
  return page;
};

test("who is connected is shown as it changes, and found by user", async () => {
  const server = await startServer();
  await connects(server, "kim", "web", "room/1", "room/2");
  const page = await open(server);
  await reads(page, /kim\s+web\s+127\.0\.0\.1\s+json/, ".rows");
  assert.ok((await users(page)).some((name) => name.includes("you")));
  await connects(server, "lee", "phone", "room/1");
  await reads(page, "lee", ".rows");
  await press(page, "/", "type:lee");
  await until("only lee is left", async () => JSON.stringify(await users(page)) === '["lee"]');
  await press(page, "Control+a", "type:nobody-of-this-name");
  await reads(page, "is not connected to this server", "main");
  assert.deepEqual(page.errors, []);
});

test("one is opened and closed by keyboard; what is lost is said first", async () => {
  const server = await startServer();
  const kim = await connects(server, "kim", "web", "room/1", "room/2");
  await server.append("room/1", { text: "one" }, { user: "ann" });
  const page = await open(server, "#/sessions?user=kim");
  await press(page, "j", "Enter");
  await reads(page, /room\/1\s+1\s+at the edge\s+room\/2\s+0\s+at the edge/, ".detail");
  await press(page, "r");
  await reads(page, "Its client may connect again", "dialog");
  await press(page, "Escape");
  assert.equal(kim.state, "open");
  await press(page, "r", "Enter");
  await until("kim is out", () => kim.state !== "open");
  await reads(page, "is not connected to this server", "main");
  assert.equal(await page.$eval(".detail", (detail) => detail.hidden), true);
});

test("the link to one shows it, keys move what is open, orders are the server's", async () => {
  const server = await startServer();
  await connects(server, "kim", "web", "room/1");
  await connects(server, "lee", "phone", "room/1", "room/2", "room/3");
  const page = await open(server, "#/sessions?order=subscriptions");
  await until("who follows most is first", async () => (await users(page)).slice(0, 2).join() === "lee,kim");
  await press(page, "Home", "Enter");
  await reads(page, "lee", ".detail h2");
  await page.reload();
  await reads(page, "lee", ".detail h2");
  await press(page, "j");
  await reads(page, "kim", ".detail h2");
  await press(page, "Escape");
  await until("closed", () => page.$eval(".detail", (detail) => detail.hidden));
});

test("lost and back: what was shown stays, and is read again", async () => {
  const server = await startServer();
  await connects(server, "kim", "web", "room/1");
  const page = await open(server);
  await reads(page, "kim", ".rows");
  await server.kill();
  await reads(page, "The line to the server is lost", ".lost-line");
  assert.ok((await users(page)).includes("kim"));
  await server.start();
  await until("read again", async () => (await users(page)).every((name) => name.includes("you")));
});

test("who may only observe sees all and closes none", async () => {
  const server = await startServer({ config: "[auth]\n", admin: true });
  const { key } = await server.call("key.create", { name: "eyes", rights: [{ on: "*", allow: ["observe"] }] });
  const other = new Client(server.ws, { token: server.key });
  clients.push(other);
  await other.call("ping");
  const page = await open(server, "#/sessions", { key });
  await until("two are there", async () => (await users(page)).length === 2);
  await page.evaluate((session) => (location.hash = `#/sessions/${session}`), other.session.session);
  await reads(page, /Close the session\s+needs admin/, ".detail");
  assert.equal(await page.$eval(".detail button.danger", (button) => button.disabled), true);
  await press(page, "r");
  assert.equal(await page.$("dialog"), null);
});

for (const theme of ["light", "dark"]) {
  test(`${theme}: axe-core finds nothing, texts have contrast`, async () => {
    const server = await startServer();
    await connects(server, "kim", "web", "room/1");
    const page = await open(server, "#/sessions?user=kim", { theme });
    await press(page, "Home", "Enter");
    await reads(page, "room/1", ".detail");
    await looksSound(page);
  });
}
