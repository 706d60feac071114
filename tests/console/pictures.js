// Makes the pictures of docs/pictures: TIDELINE_PICTURES=1 cargo test --locked --features tideline/faults --test suites console::in_a_browser
//
// Owns: what is in each picture. Promises: real servers, real load, 1280 × 860. Must not: draw anything.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { blockPartition, deafReader, end, openPage, press, reads, sleep, startChat, startServer } from "./bed.js";
import { fillHarbour, load } from "./harbour.js";
import { createTable } from "./tablestore.js";

const FOLDER = join(import.meta.dirname, "../../docs/pictures");
const only = new Set(process.argv.slice(2));
mkdirSync(FOLDER, { recursive: true });
const LOADED_MS = Number(process.env.TIDELINE_LOADED_S ?? 300) * 1000;

/** Runs what makes some pictures, if one of them is asked for. */
async function make(names, run) {
  if (only.size && !names.some((name) => only.has(name))) return;
  const began = Date.now();
  await run(async (page, name) => {
    await page.mouse.move(1, 1);
    await page.screenshot({ path: join(FOLDER, `${name}.png`) });
    if (page.errors.length) console.log(name, page.errors);
  });
  console.log(`${names.join(", ")}: ${Math.round((Date.now() - began) / 1000)} s`);
}

const four = { config: "segment_bytes = 1048576\nslow_consumer_ms = 30000\nsocket_send_bytes = 4096\n", args: ["--partitions", "4"] };

await make(["overview-light", "overview-dark", "lost"], async (shoot) => {
  const server = await startServer(four);
  await fillHarbour(server);
  const running = await load(server.ws, { rate: 250, readers: 24, rooms: 24 });
  await sleep(LOADED_MS);
  const page = await openPage(server);
  await reads(page, "Serving.", ".state");
  await page.$eval(".top .seg button", (button) => button.click());
  await sleep(5_000);
  await shoot(page, "overview-light");
  const dark = await openPage(server, "/console/", { theme: "dark" });
  await dark.$eval(".top .seg button", (button) => button.click());
  const deaf = await deafReader(server, "room/deaf");
  await blockPartition(server, 2);
  await reads(dark, "has stopped", ".state", 20_000);
  await reads(dark, /do(es)? not keep up/, ".notices", 40_000);
  await sleep(4_000);
  await shoot(dark, "overview-dark");
  deaf.destroy();
  await server.kill();
  await reads(page, "The line to the server is lost", ".lost-line");
  await sleep(1_500);
  await shoot(page, "lost");
  await running.stop();
});

await make(["timelines-empty"], async (shoot) => {
  const server = await startServer();
  const page = await openPage(server, "/console/#/timelines");
  await sleep(1_500);
  await shoot(page, "timelines-empty");
});

await make(["timeline-live", "timeline-flood", "conversations"], async (shoot) => {
  const server = await startServer();
  const edited = await fillHarbour(server);
  const page = await openPage(server, `/console/#/timelines/room%2Fharbour?at=${edited}`, { theme: "dark" });
  await reads(page, "Nordlicht, berth 14", "main");
  await server.append("room/harbour", { text: "line handlers are on their way" }, { user: "dev" });
  await sleep(1_500);
  await shoot(page, "timeline-live");
  const people = await openPage(server, "/console/#/conversations/ben");
  await reads(people, "room/harbour", "main");
  await sleep(1_000);
  await shoot(people, "conversations");
  const running = await load(server.ws, { rate: 10_000, readers: 0, rooms: 1, batch: 10 });
  const flooded = await openPage(server, "/console/#/timelines/room%2Fharbour");
  await reads(flooded, "Sampling", ".edge");
  await sleep(6_000);
  await shoot(flooded, "timeline-flood");
  await running.stop();
});

await make(["session-close"], async (shoot) => {
  const server = await startServer();
  const running = await load(server.ws, { rate: 50, readers: 12, rooms: 12, writers: 3 });
  await deafReader(server, "room/deaf");
  const page = await openPage(server, "/console/#/sessions");
  await reads(page, "deaf", "main");
  await sleep(4_000);
  await press(page, "Home", "Enter");
  await reads(page, "room/deaf", ".detail");
  await press(page, "r");
  await page.waitForSelector("dialog");
  await sleep(300);
  await shoot(page, "session-close");
  await running.stop();
});

await make(["ask-key"], async (shoot) => {
  const server = await startServer({ config: "[auth]\n", start: false });
  server.makeKey("ops", "--allow", "*=admin");
  await server.start();
  const page = await openPage(server);
  await page.waitForSelector("dialog");
  await sleep(500);
  await shoot(page, "ask-key");
});

await make(["demo"], async (shoot) => {
  const server = await startServer();
  const page = await openPage(server, "/demo/");
  await reads(page, "Live", ".ben .state");
  const says = async (who, ...texts) => {
    await page.focus(`.${who} input`);
    for (const text of texts) await press(page, `type:${text}`, "Enter");
    await sleep(700);
  };
  await says("ann", "Is berth 14 free?");
  await says("ben", "From 15:10. Two tugs are ordered.");
  await page.click(".ann header button");
  await says("ben", "Nordlicht is at the pilot station", "5.9 knots, course 213", "Ann?");
  await page.click(".ann header button");
  await reads(page, "3 missed, none lost", ".ann .note");
  await says("ann", "Here again. Line handlers to 14 please");
  await page.click(".ben header button");
  await says("ben", "On their way", "Second tug: Käthe");
  await says("ann", "Ben, do you read?");
  await shoot(page, "demo");
});

await make(["chat"], async (shoot) => {
  const server = await startServer();
  const chat = await startChat(server, 40);
  const page = await openPage(chat, "/chat/", { height: 520 });
  const other = await openPage(chat, "/chat/", { beside: page });
  const asks = async (text) => {
    await page.bringToFront();
    await reads(page, "Live", ".state");
    await page.focus(".pane input");
    await press(page, `type:${text}`, "Enter");
  };
  await asks("What does the tide do?");
  await reads(other, "turn upon", ".talk");
  await other.$eval("#stop", (button) => button.click());
  await reads(page, "stopped by ann", ".talk");
  await asks("Again, please. I'll reload in the middle");
  await sleep(900);
  await page.reload();
  await reads(page, /turn upon[^]*turn upon/, ".talk");
  await shoot(page, "chat");
});

await make(["table-range"], async (shoot) => {
  const server = await startServer();
  await createTable(server, "arrivals", {
    key: [{ name: "port", type: "string" }, { name: "at", type: "integer" }],
    columns: [{ name: "ship", type: "string" }], stream: 24, indexes: [{ name: "arrivals_by_ship", key: ["ship", "port", "at"] }],
  });
  await createTable(server, "berths", { key: [{ name: "berth", type: "integer" }] });
  const vessels = ["Nordlicht", "Maria S", "Käthe", "Hanse Star", "Kormoran", "Baltic Queen", "Otto"];
  for (let at = 0; at < 120; at += 1) {
    const columns = { ship: vessels[(at * 5) % 7], speed: ((at * 37) % 140) / 10 + 0.5, berth: (at * 11) % 40, tugs: at % 3, pilot: at % 4 > 0 };
    await server.call("row.put", { table: "arrivals", key: { port: ["bremen", "hamburg", "kiel"][at % 3], at: 1_761_000_000 + at * 613 }, columns });
  }
  const page = await openPage(server, "/console/#/tables/arrivals?key=hamburg&filter=speed+>+5.5+and+pilot+%3D+true");
  await reads(page, "that meet the condition", ".listed .foot");
  await press(page, "j", "j", "Enter");
  await reads(page, "Written", ".detail");
  await sleep(300);
  await shoot(page, "table-range");
});

await end();
process.exit();
