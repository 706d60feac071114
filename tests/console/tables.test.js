// Tables: rows got, ranged, filtered and put, all by keyboard; the schema; values kept to the last digit.

import assert from "node:assert/strict";
import { test } from "node:test";
import { findings, looksSound, openPage, press, reads, startServer, text, until } from "./bed.js";
import { createTable } from "./tablestore.js";

const KEY = [{ name: "port", type: "string" }, { name: "at", type: "integer" }];
const SHIPS = ["Nordlicht", "Maria S", "Käthe", "Otto"];

/** arrivals: `rows` ships in each of two ports. */
async function harbour(rows = 20) {
  const server = await startServer();
  await createTable(server, "arrivals", {
    key: KEY, columns: [{ name: "name", type: "string" }], stream: 24,
    indexes: [{ name: "arrivals_by_name", key: ["name", "port", "at"] }],
  });
  for (const port of ["bremen", "hamburg"]) {
    for (let at = 0; at < rows; at += 1) {
      const columns = { name: SHIPS[at % SHIPS.length], speed: at + 0.5, berth: at % 7 };
      await server.call("row.put", { table: "arrivals", key: { port, at }, columns });
    }
  }
  return server;
}

const open = async (server, hash = "#/tables/arrivals", options) => {
  const page = await openPage(server, `/console/${hash}`, options);
  await reads(page, /as of|No row/, ".listed");
  return page;
};
const keys = (page) => page.$$eval(".listed .row", (rows) => rows.map((row) => [...row.querySelectorAll(".pk")].map((one) => one.textContent).join(" ")));
const types = async (page, key, said) => press(page, key, "Control+a", ...(said ? [`type:${said}`] : ["Backspace"]), "Enter", "Escape");

test("from the list of tables to one row and back, by keyboard", async () => {
  const server = await harbour(3);
  const page = await openPage(server, "/console/#/tables");
  await reads(page, "arrivals_by_name", ".finder");
  await press(page, "Home", "Enter");
  await reads(page, /6 rows, no more follow/, ".listed .foot");
  await until("in the order of their keys", async () => (await keys(page)).join() === "bremen 0,bremen 1,bremen 2,hamburg 0,hamburg 1,hamburg 2");
  await press(page, "j", "Enter");
  await reads(page, '"name": "Maria S"', ".detail");
  await press(page, "j");
  await reads(page, '"name": "Käthe"', ".detail");
  await page.reload();
  await reads(page, '"name": "Käthe"', ".detail");
  await press(page, "Escape");
  await until("closed", () => page.$eval(".detail", (detail) => detail.hidden));
  await press(page, "Escape", "j", "Enter");
  await reads(page, "index of arrivals", ".tl");
  assert.deepEqual(page.errors, []);
});

test("a key, a condition, the other way round", async () => {
  const server = await harbour(20);
  const page = await open(server);
  await types(page, "#", "hamburg");
  await until("one port", async () => (await keys(page)).every((key) => key.startsWith("hamburg")));
  await types(page, "#", "bremen, 18");
  await reads(page, "22 rows", ".listed .foot");
  await until("that row is first", async () => (await keys(page))[0] === "bremen 18");
  await types(page, "#", "");
  await types(page, "/", 'speed > 15.0 and (name = "Otto" or berth = 2)');
  await reads(page, "6 rows that meet the condition", ".listed .foot");
  await until("those", async () => (await keys(page)).join() === "bremen 15,bremen 16,bremen 19,hamburg 15,hamburg 16,hamburg 19");
  const shared = page.url();
  await types(page, "/", "speed >");
  await reads(page, "a value is missing behind speed >", ".listed");
  await page.goto(shared);
  await reads(page, "6 rows that meet the condition", ".listed .foot");
  await types(page, "/", "imo = 5");
  await reads(page, "No row from this key on meets the condition", ".listed");
  await types(page, "/", "");
  await page.goto(shared.replace(/\?.*/, "?backward=1"));
  await until("the highest is first", async () => (await keys(page))[0] === "hamburg 19");
});

test("pages come as one scrolls, and never more row elements than are seen", async () => {
  const server = await harbour(150);
  const page = await open(server);
  await reads(page, "200 rows, more as you scroll", ".listed .foot");
  await press(page, "End");
  await reads(page, "300 rows, no more follow", ".listed .foot");
  await press(page, "End");
  await until("the last is there", async () => (await keys(page)).at(-1) === "hamburg 149");
  assert.ok((await keys(page)).length <= 60);
});

test("a row is put, replaced and kept to the last digit; what is refused is said", async () => {
  const server = await harbour(1);
  const page = await open(server);
  const fills = async (...fields) => {
    for (const field of fields) await press(page, "Control+a", `type:${field}`, "Tab");
  };
  await press(page, "a");
  await fills("a, \"b\"", "9223372036854775807", '{"big": -9223372036854775808, "one": 1, "one_point": 1.0, "raw": {"$binary": "AP8="}, "yes": true, "text": "‮<b>"}');
  await press(page, "Tab", "Tab", "Enter");
  await reads(page, '"big": -9223372036854775808', ".detail");
  const shown = await text(page, ".detail");
  for (const wanted of ['"one": 1,', '"one_point": 1.0', "‹binary 2 B›", '"yes": true', "‹U+202E›<b>"]) assert.ok(shown.includes(wanted), `${wanted} in ${shown}`);
  const key = { port: 'a, "b"', at: { $integer: "9223372036854775807" } };
  const { row } = await server.call("row.get", { table: "arrivals", key });
  assert.deepEqual(Object.fromEntries(row.columns.map(({ name, value }) => [name, value])).raw, { $binary: "AP8=" });

  await press(page, "a");
  await fills("bremen", "0", "{}");
  await press(page, "Tab", "Tab", "Enter");
  await reads(page, "condition_failed", "dialog .trouble");
  await press(page, "Escape");

  await press(page, "e");
  await reads(page, "Columns that are not below are lost", "dialog");
  await press(page, "Tab", "Tab");
  await fills('{"now": "this alone"}');
  await press(page, "Tab", "Tab", "Enter");
  await until("it was replaced", async () => (await server.call("row.get", { table: "arrivals", key })).row.columns.length === 1);
  await reads(page, '"now": "this alone"', ".detail");
});

test("the schema says key, columns, options, stream and indexes", async () => {
  const server = await harbour(1);
  const page = await openPage(server, "/console/#/tables/arrivals?tab=schema");
  await reads(page, /port\s+string[^]*decides the partition[^]*at\s+integer/, ".schema");
  await reads(page, "kept for 24 hours", ".schema");
  await reads(page, /arrivals_by_name\s+global\s+(building|complete)/, ".schema");
  assert.deepEqual(await findings(page), []);
});

test("no table yet, none of this name, the server lost and back", async () => {
  const server = await startServer();
  const page = await openPage(server, "/console/#/tables");
  await reads(page, "client.create_table", "main pre");
  await createTable(server, "ships", { key: [{ name: "name", type: "string" }] });
  await page.goto(`${server.page}/console/#/tables/none`);
  await page.reload();
  await reads(page, "table_not_found", ".place");
  await page.evaluate(() => (location.hash = "#/tables/ships"));
  await reads(page, "No rows yet", ".place");
  await server.kill();
  await reads(page, "The line to the server is lost", ".lost-line");
  await server.start();
  await until("back", async () => !(await page.$eval(".lost-line", (line) => line.checkVisibility())));
  await server.call("row.put", { table: "ships", key: { name: "Otto" }, columns: { tug: true } });
  await page.evaluate(() => (location.hash = "#/tables/ships?key=Otto"));
  await reads(page, "Otto", ".listed .rows");
});

for (const theme of ["light", "dark"]) {
  test(`${theme}: axe-core finds nothing, texts have contrast`, async () => {
    const server = await harbour(30);
    const page = await open(server, "#/tables/arrivals", { theme });
    await press(page, "j", "Enter");
    await reads(page, "Written", ".detail");
    await looksSound(page);
  });
}
