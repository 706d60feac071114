// The frame: every screen by keyboard alone, in light and dark, sound by axe-core, by contrast and by the page's rules.
//
// Owns: what holds for all screens. Must not: look into what one of them shows.

import assert from "node:assert/strict";
import { test } from "node:test";
import { looksSound, openPage, press, reads, sleep, startServer, text, until } from "./bed.js";
import { fillHarbour } from "./harbour.js";

const SCREENS = { o: "Overview", t: "Timelines", c: "Conversations", f: "Search", b: "Tables", q: "SQL", s: "Sessions", p: "Partitions", k: "Keys", l: "Log" };
const VIEW_BYTES_MAX = 60_000;

const server = await startServer();
const edited = await fillHarbour(server, { rooms: 6 });
const nameOf = (title) => (title === "Search" ? "lookup" : title.toLowerCase());
const VIEWS = [...Object.values(SCREENS).map((title) => `#/${nameOf(title)}`), `#/timelines/room%2Fharbour?at=${edited}`, "#/conversations/ben"];

/** The console, connected. Of a narrow one the word is hidden, and is there for those who hear it. */
async function live(options) {
  const page = await openPage(server, "/console/", options);
  await until("it is connected", () => page.evaluate(() => document.querySelector(".live-word")?.textContent === "Live"));
  return page;
}

/** Opens a view by its link, and waits until it shows something. */
async function show(page, view) {
  await page.evaluate((hash) => (location.hash = hash), view);
  await until(`${view} is there`, () => page.evaluate((name) => document.querySelector("main").classList.contains(name) && !document.querySelector("main [aria-busy]") && document.querySelector("main").innerText.trim() !== "", view.split(/[/?]/)[1]));
}

test("every screen is opened by keyboard, and is where its link says", async () => {
  const page = await live();
  for (const [letter, title] of Object.entries(SCREENS)) {
    await press(page, "g", letter);
    await reads(page, title, ".top h1");
    assert.equal(await page.$eval(".rail [aria-current=page]", (link) => link.textContent.trim().replace(/\d+$/, "")), title);
    assert.match(page.url(), new RegExp(`#/${nameOf(title)}$`));
    // What a screen shows comes after its name.
    await until(`${title} shows something`, async () => (await text(page, "main")).trim() !== "");
  }
  assert.deepEqual(page.errors, []);
});

test("help is made from the table of keys, and Escape gives the focus back", async () => {
  const page = await live();
  await press(page, "?");
  const help = await reads(page, "Find a timeline", "dialog");
  const { KEYS } = await page.evaluate(() => import("./keys.js").then(({ KEYS }) => ({ KEYS })));
  for (const { does } of Object.values(KEYS)) assert.ok(help.includes(does), does);
  await press(page, "Escape");
  assert.equal(await page.$("dialog"), null);
  // While a dialog is open, keys of the screens reach nobody.
  await press(page, "?");
  await page.waitForSelector("dialog[open]");
  await press(page, "g", "l");
  assert.equal(await text(page, ".top h1"), "Overview");
  await press(page, "Escape");
});

test("the palette finds a timeline by its beginning, and opens it with Enter", async () => {
  const page = await live();
  await press(page, "Control+k");
  await page.waitForSelector("dialog[open]");
  await press(page, "type:room/harbour/");
  await until("the server's answer is offered", async () => (await text(page, "dialog")).includes("head"));
  await press(page, "ArrowUp", "ArrowDown", "Enter");
  await until("the timeline is open", () => decodeURIComponent(page.url()).includes("#/timelines/room/harbour/"));
  await press(page, "/");
  await page.waitForSelector("dialog, main input:focus");
});

test("a view that is left while somebody types into its search is not come back to", async () => {
  const page = await openPage(server, "/console/#/sessions");
  await page.waitForSelector("main .field input");
  await press(page, "/", "type:x");
  await page.evaluate(() => (location.hash = "#/log"));
  await sleep(400);
  assert.equal(new URL(page.url()).hash, "#/log");
  assert.equal(await text(page, ".top h1"), "Log");
});

test("theme, hold and range answer to their keys and buttons", async () => {
  const page = await live();
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await press(page, "t");
  assert.notEqual(await ground(), light);
  const asked = () => page.evaluate(() => performance.getEntriesByType("resource").filter(({ name }) => name.endsWith("/metrics")).length);
  await until("figures were read", asked);
  await press(page, "Space");
  await reads(page, "Held", ".rail");
  await sleep(500); // what was under way
  const before = await asked();
  await sleep(2_300);
  assert.equal(await asked(), before, "held asks nothing");
  await press(page, "Space");
  await reads(page, "Live", ".rail");
});

for (const theme of ["light", "dark"]) {
  test(`${theme}: axe-core finds nothing, texts have contrast, no rule of the page is broken`, async () => {
    const page = await live({ theme });
    for (const view of VIEWS) {
      await show(page, view);
      await looksSound(page, { theme, what: view });
    }
    for (const key of ["?", "Control+k"]) {
      await press(page, key);
      await page.waitForSelector("dialog[open]");
      await looksSound(page, { theme, what: key });
      await press(page, "Escape");
    }
    assert.deepEqual(await page.evaluate(() => globalThis.violations), []);
    assert.deepEqual(page.errors, []);
  });
}

test("the first view is small, and all else comes before the line can be lost", async () => {
  const page = await live();
  const bytes = () => page.evaluate(() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].filter(({ name }) => name.includes("/console/")).map(({ name, encodedBodySize, startTime }) => [name, encodedBodySize, startTime]));
  await until("every screen is there", async () => (await bytes()).filter(([name]) => name.includes("/screens/")).length === 10);
  if (process.env.TIDELINE_CONSOLE === "disk") return; // not compressed there
  const lazy = /screens\/(?!overview)|(dialog|palette|ask-key|entry|list|split|window)\.js|\/(timelines|tables)\//;
  // What the other screens import comes behind them, sooner or later.
  const loaded = await bytes();
  const others = Math.min(...loaded.filter(([name]) => /screens\/(?!overview)/.test(name)).map(([, , start]) => start));
  const view = loaded.filter(([name, , start]) => start < others && !lazy.test(name)).reduce((sum, [, size]) => sum + size, 0);
  assert.ok(view > 10_000 && view <= VIEW_BYTES_MAX, `${view} bytes`);
});

test("at 1,024 points and at 200 % nothing is cut off sideways", async () => {
  for (const width of [1024, 640]) {
    const page = await live({ width, height: 700 });
    for (const view of VIEWS) {
      await show(page, view);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${view}: ${wide} > ${width}`);
    }
  }
});

/** Texts of the open screen that nobody can read: cut to nothing, off the screen where nothing scrolls, below something else. */
const unreadable = (page) =>
  page.evaluate(() => {
    const found = [];
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const element = node.parentElement;
      if (!node.textContent.trim() || element instanceof SVGElement || element.closest(".unseen") || !element.checkVisibility({ visibilityProperty: true })) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const text = range.getBoundingClientRect();
      let { left, right, top, bottom } = text;
      let reached = false; // by scrolling, or the end of a text whose beginning is there
      for (let one = element; one; one = one.parentElement) {
        const { overflowX, overflowY, textOverflow } = getComputedStyle(one);
        const box = one.getBoundingClientRect();
        if (overflowX !== "visible") [left, right] = [Math.max(left, box.left), Math.min(right, box.right)];
        if (overflowY !== "visible") [top, bottom] = [Math.max(top, box.top), Math.min(bottom, box.bottom)];
        reached ||= one.scrollWidth > one.clientWidth && (overflowX === "auto" || (textOverflow === "ellipsis" && one.clientWidth >= 40));
      }
      [left, right] = [Math.max(left, 0), Math.min(right, innerWidth)];
      if (bottom - Math.max(top, 0) < 8 || Math.min(bottom, innerHeight) - top < 8) continue; // above or below, to be scrolled to
      const said = `${element.tagName} ${element.className} ${node.textContent.trim().slice(0, 40)}`;
      if (right - left < Math.min(text.width, 16) - 0.5) reached || found.push(`${said}: ${Math.round(right - left)} of ${Math.round(text.width)}`);
      else {
        const there = document.elementFromPoint((left + right) / 2, (Math.max(top, 0) + Math.min(bottom, innerHeight)) / 2);
        if (there && there !== element && !there.contains(element) && !element.contains(there)) found.push(`${said}: below ${there.tagName} ${there.className}`);
      }
    }
    return found;
  });

test("on a phone every text can be read", async () => {
  const page = await live({ width: 390, height: 800 });
  for (const view of [...VIEWS, "#/timelines/room%2Fharbour", "#/timelines/room%2Fharbour?tab=members", "#/timelines/room%2Fharbour?tab=readers", "#/tables/timeline_message"]) {
    await show(page, view);
    await until(`${view} can be read`, async () => {
      const found = await unreadable(page);
      if (found.length) throw new Error(found.join("\n"));
      return true;
    });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 390, `${view}: ${wide}`);
  }
});

test("Escape leaves every field for the list beside it, and closes nothing", async () => {
  const page = await live();
  for (const view of ["#/timelines", "#/timelines/room%2Fharbour", "#/conversations/ben", "#/tables", "#/tables/timeline_message", "#/sessions", "#/log"]) {
    await show(page, view);
    await page.waitForSelector("main .rows .row");
    const fields = await page.$$("main input:not([type=checkbox])");
    assert.ok(fields.length > 0, view);
    for (const field of fields) {
      if (!(await field.isVisible())) continue;
      const before = page.url();
      await field.focus();
      await press(page, "Escape");
      const where = await page.evaluate(() => document.activeElement.className);
      assert.match(where, /^rows/, `${view}: ${await field.evaluate((it) => it.getAttribute("aria-label"))}`);
      assert.equal(page.url(), before);
    }
  }
  assert.deepEqual(page.errors, []);
});

test("a call leaves nothing behind at the signal that could have ended it, and ends with it", async () => {
  const page = await live();
  const found = await page.evaluate(async () => {
    const known = await import("/console/server.js");
    const ends = new AbortController();
    let listeners = 0;
    for (const [name, by] of [["addEventListener", 1], ["removeEventListener", -1]]) {
      const before = ends.signal[name].bind(ends.signal);
      ends.signal[name] = (...args) => ((listeners += by), before(...args));
    }
    for (let number = 0; number < 20; number++) await known.server.call("ping", {}, ends);
    const left = listeners;
    const cut = known.server.call("ping", {}, ends).catch((error) => error.name);
    ends.abort();
    return { left, cut: await cut, after: await known.server.call("ping", {}, ends).catch((error) => error.name) };
  });
  assert.deepEqual(found, { left: 0, cut: "AbortError", after: "AbortError" });
});
