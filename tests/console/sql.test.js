// SQL: statements run by keyboard, their rows, what is refused with its place, and the statements before.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isSound, looksSound, openPage, press, reads, startServer, text, until } from "./bed.js";
import { createTable } from "./tablestore.js";

/** arrivals: ships with a big number, bytes and texts that hide. */
async function harbour(rows = 3) {
  const server = await startServer();
  await createTable(server, "arrivals", { key: [{ name: "port", type: "string" }, { name: "at", type: "integer" }], columns: [{ name: "name", type: "string" }, { name: "tons", type: "double" }, { name: "raw", type: "binary" }] });
  for (let at = 0; at < rows; at += 1) {
    const columns = { name: at === 1 ? "<b>Otto</b> \u202Ex" : `ship ${at}`, tons: at + 0.5, ...(at === 0 && { raw: { $binary: "AQL/" } }) };
    await server.call("row.put", { table: "arrivals", key: { port: "bremen", at: at === 2 ? { $integer: "9007199254740993" } : at }, columns });
  }
  return server;
}

const open = async (server, hash = "#/sql", options) => {
  const page = await openPage(server, `/console/${hash}`, options);
  await reads(page, "Which statement?", "main");
  return page;
};
/** Writes a statement in place of what is there, and runs it. */
const run = async (page, statement) => press(page, "Escape", "/", "Control+a", `type:${statement}`, "Control+Enter");
const cells = (page) => page.$$eval(".answer .row", (rows) => rows.map((row) => [...row.children].map((one) => one.textContent)));

test("a statement is run by keyboard, its rows are opened, values come whole", async () => {
  const server = await harbour();
  const page = await open(server);
  await run(page, "SELECT at, name, tons, raw FROM arrivals");
  await reads(page, "3 rows, as of", ".listed .foot");
  assert.deepEqual(await page.$$eval(".answer .heads span", (all) => all.map((one) => one.textContent)), ["at", "name", "tons", "raw"]);
  assert.deepEqual(await cells(page), [["0", "ship 0", "0.5", "0x0102ff"], ["1", "<b>Otto</b> ‹U+202E›x", "1.5", "NULL"], ["9007199254740993", "ship 2", "2.5", "NULL"]]);
  assert.equal(await page.$(".answer .rows b"), null);
  await press(page, "Escape", "Home", "j", "Enter");
  await reads(page, /Row 2.*<b>Otto<\/b>.*1\.5/s, ".detail");
  await press(page, "j");
  await reads(page, "Row 3", ".detail");
  await press(page, "Escape");
  await until("closed", () => page.$eval(".detail", (detail) => detail.hidden));
  await isSound(page);
});

test("what is refused shows its line and column; a write says how many rows; the statements before come back", async () => {
  const server = await harbour();
  const page = await open(server);
  await run(page, "SELECT name\nFROM arrivals WHERE (at = 1");
  await reads(page, /invalid_params.*line 2 column \d+/s, "main");
  const [line, mark] = (await page.$eval(".where", (one) => one.textContent)).split("\n");
  assert.equal(line, "FROM arrivals WHERE (at = 1");
  const column = Number(/column (\d+)/.exec(await text(page, "main"))[1]);
  assert.equal(mark, `${" ".repeat(column - 1)}^`);
  await run(page, "SELECT * FROM nothing");
  await reads(page, "table_not_found", "main");
  await run(page, "INSERT INTO arrivals (port, at, name) VALUES ('leer', 7, 'Dora')");
  await reads(page, "1 row written", "main");
  await run(page, "SELECT COUNT(*) AS many FROM arrivals");
  await reads(page, "1 row,", ".listed .foot");
  assert.deepEqual(await cells(page), [["4"]]);
  const offered = await page.$$eval("main select option", (all) => all.map((one) => one.textContent));
  assert.equal(offered[0], "4 statements before");
  assert.equal(offered[1], "SELECT COUNT(*) AS many FROM arrivals");
  // They are kept while other screens are open; choosing one runs nothing.
  await press(page, "Escape", "g", "l");
  await reads(page, "Log", ".top h1");
  await press(page, "g", "q");
  await reads(page, "Which statement?", "main");
  await page.$eval("main select", (one) => ((one.selectedIndex = 2), one.dispatchEvent(new Event("change"))));
  assert.match(await page.$eval("main textarea", (one) => one.value), /^INSERT/);
  await reads(page, "Which statement?", "main");
  await isSound(page);
});

test("a link brings a statement and runs nothing", async () => {
  const server = await harbour();
  const page = await open(server, `#/sql?q=${encodeURIComponent("DELETE FROM arrivals WHERE port = 'bremen' AND at = 0")}`);
  assert.match(await page.$eval("main textarea", (one) => one.value), /^DELETE/);
  await run(page, "SELECT COUNT(*) FROM arrivals");
  await reads(page, "1 row,", ".listed .foot");
  assert.deepEqual(await cells(page), [["3"]]);
  assert.match(decodeURIComponent(page.url()), /q=SELECT/);
  await isSound(page);
});

test("an answer that is cut and one of many columns say so, and few elements are made", async () => {
  const server = await harbour(40);
  const page = await open(server);
  await run(page, `SELECT at, REPLACE('${"x".repeat(200)}', 'x', '${"y".repeat(300)}') AS much FROM arrivals`);
  await reads(page, /^\d+ rows; the last rows did not fit into the answer: ask for fewer, with LIMIT, as of/, ".listed .foot");
  await run(page, `SELECT ${Array.from({ length: 50 }, (_, at) => `${at} AS c${at}`).join(", ")} FROM arrivals`);
  await reads(page, "40 rows; 10 columns more in each that is open", ".listed .foot");
  await press(page, "Escape", "Home", "Enter");
  await reads(page, "c49", ".detail");
  await isSound(page);
});

for (const theme of ["light", "dark"]) {
  test(`${theme}: axe-core finds nothing, texts have contrast`, async () => {
    const server = await harbour();
    const page = await open(server, "#/sql", { theme });
    await looksSound(page, { theme, what: "empty" });
    await run(page, "SELECT * FROM arrivals");
    await reads(page, "3 rows", ".listed .foot");
    await press(page, "Escape", "Home", "Enter");
    await reads(page, "Row 1", ".detail");
    if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/sql-${theme}.png` });
    await looksSound(page, { theme, what: "rows" });
    await run(page, "SELECT * FROM (");
    await reads(page, "invalid_params", "main");
    if (process.env.LOOK) await page.screenshot({ path: `${process.env.LOOK}/sql-error-${theme}.png` });
    await looksSound(page, { theme, what: "error" });
  });
}
