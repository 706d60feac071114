// The bed of the console's tests: a real server, a real Chromium, and what a person does with both.
//
// Owns: the processes and their end. Promises: every error of the page (uncaught, console, CSP, failed request) is kept
// in `page.errors`; a server is killed and started again on the same port and data. Must not: know a screen.
// Environment: TIDELINE_BIN, TIDELINE_CHROMIUM, TIDELINE_MODULES (the folder of puppeteer-core and axe-core).

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach } from "node:test";

const folder = process.env.TIDELINE_MODULES ?? import.meta.dirname;
const modules = createRequire(join(folder, "package.json"));
const { default: puppeteer } = await import(modules.resolve("puppeteer-core"));
const BINARY = process.env.TIDELINE_BIN;
const CHROMIUM = process.env.TIDELINE_CHROMIUM ?? "/usr/bin/chromium";
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--force-color-profile=srgb"];
const PATIENCE_MS = 60_000;
const CONTRAST_LEAST = 4.6;
/** What is meant for the tests is nothing that the server knows. */
const OWN_ENV = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("TIDELINE_")));

const ending = [];
/** Ends all that was started; after the tests of a file by itself. */
export async function end() {
  for (const one of ending.splice(0).reverse()) await one();
}
after(end);

const contexts = [];
/** A page goes with its test: it would draw and ask on beside those that follow. */
afterEach(async () => {
  for (const context of contexts.splice(0)) await context.close();
});

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits until something holds, and returns it. What takes long is looked at less often: a look costs the browser. */
export async function until(what, holds, patience_ms = PATIENCE_MS) {
  const end = Date.now() + patience_ms;
  let last;
  let pause = 25;
  while (Date.now() < end) {
    try {
      const found = await holds();
      if (found) return found;
    } catch (error) {
      last = error;
    }
    await sleep(pause);
    pause = Math.min(pause * 1.2, 200);
  }
  throw new Error(`not within ${patience_ms} ms: ${what}${last ? ` (${last.message})` : ""}`);
}

const freePort = () =>
  new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });

/** A server on data of its own. `config`: text of its settings; `args`: options of `serve`; `under`: what starts it;
 *  `admin`: an administrator's key is made, which calls then show. */
export async function startServer({ config = "", args = [], under = [], start = true, admin = false } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "console-"));
  const port = await freePort();
  const file = join(folder, "tideline.toml");
  writeFileSync(file, config);
  let child = null;
  const server = {
    folder,
    port,
    url: `http://127.0.0.1:${port}`,
    ws: `ws://127.0.0.1:${port}/v1/connect`,
    key: null,
    async start() {
      const [program, ...before] = [...under, BINARY];
      child = spawn(program, [...before, "serve", "--config", file, "--data", join(folder, "data"), "--listen", `127.0.0.1:${port}`, ...args], {
        stdio: process.env.TIDELINE_LOUD ? "inherit" : "ignore",
        env: OWN_ENV,
      });
      await until("the server is ready", async () => (await fetch(`${server.url}/readyz`)).ok);
    },
    /** As kill -9. */
    async kill() {
      const gone = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await gone;
    },
    /** A method over HTTP; `user` acts for that user. Returns the result, throws the error. */
    async call(method, params = {}, { user, key = server.key } = {}) {
      const headers = { "content-type": "application/json", ...(user && { "tideline-user": user }), ...(key && { authorization: `Bearer ${key}` }) };
      const answer = await fetch(`${server.url}/v1/rpc`, { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }) });
      const { result, error } = await answer.json();
      if (error) throw Object.assign(new Error(`${method}: ${error.message}`), error.data);
      return result;
    },
    /** One message. */
    append: (timeline, entry, { user } = {}) => server.call("message.append", { timeline, entry }, { user }),
    /** A key made by the command line, while the server is not started. */
    makeKey: (name, ...options) => execFileSync(BINARY, ["key", "create", name, ...options, "--data", join(folder, "data")], { encoding: "utf8" }).trim(),
  };
  if (admin) server.key = server.makeKey("admin", "--allow", "*=admin");
  server.page = process.env.TIDELINE_CONSOLE === "disk" ? await fromDisk(server.url) : server.url;
  ending.push(async () => {
    if (child?.exitCode === null && child.signalCode === null) await server.kill();
    rmSync(folder, { recursive: true, force: true });
  });
  if (start) await server.start();
  return server;
}

/** Stops a partition as a failing disk would: what its log wants to write next is in the way. */
export async function blockPartition(server, partition) {
  const log = join(server.folder, "data", `partition-${String(partition).padStart(4, "0")}`, "log");
  const metrics = await (await fetch(`${server.url}/metrics`)).text();
  const newest = Number(new RegExp(`^tideline_log_position\\{partition="${partition}"\\} (\\d+)`, "m").exec(metrics)[1]);
  for (let position = newest + 1; position < newest + 3_000; position++) {
    const next = join(log, `${String(position).padStart(20, "0")}.log`);
    if (!existsSync(next)) mkdirSync(next);
  }
  const text = "x".repeat(200_000);
  for (let number = 0; number < 500; number++) {
    const refused = await server.append(`blocked/${number % 40}`, { text }).then(() => null, (error) => error);
    if (refused?.reason === "unavailable") return;
    if (refused) await sleep(50); // busy: a disk that is slow
  }
  throw new Error("the partition has not stopped");
}

/** A subscriber that reads nothing, and messages until what it leaves unread no longer fits on the way. */
export async function deafReader(server, timeline) {
  await server.call("timeline.create", { timeline });
  const socket = connect(server.port, "127.0.0.1");
  await new Promise((resolve) => socket.once("connect", resolve));
  socket.write(`GET /v1/connect HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: tideline.v1.json\r\n\r\n`);
  await new Promise((resolve) => socket.once("data", resolve));
  for (const [id, method, params] of [[1, "session.open", { user: "deaf" }], [2, "subscribe", { timeline }]]) {
    const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    socket.write(Buffer.concat([Buffer.from([0x81, 0x80 | body.length, 0, 0, 0, 0]), body]));
    await new Promise((resolve) => socket.once("data", resolve));
  }
  socket.pause();
  const text = "x".repeat(200_000);
  for (let number = 0; number < 60; number++) await server.append(timeline, { text });
  ending.push(async () => socket.destroy());
  return socket;
}

/** The console as it is on disk in front of a server, to try it without a build: TIDELINE_CONSOLE=disk. */
async function fromDisk(url) {
  const port = await freePort();
  const child = spawn(process.execPath, [join(import.meta.dirname, "../../console/scripts/serve.js"), String(port), url], { stdio: "ignore" });
  ending.push(() => child.kill());
  const served = `http://127.0.0.1:${port}`;
  await until("serve.js is ready", async () => (await fetch(`${served}/console/`)).ok);
  return served;
}

let browser = null;

async function chromium() {
  if (!browser) {
    browser = puppeteer.launch({ executablePath: CHROMIUM, headless: true, args: FLAGS, timeout: PATIENCE_MS });
    const opened = await browser;
    ending.push(() => opened.close());
  }
  return browser;
}

/** A page of the console. `theme` "light" or "dark"; `path` is opened; `key` is known to it; `beside` is a page, of which it is another tab. */
export async function openPage(server, path = "/console/", { theme = "light", width = 1280, height = 860, key = null, first = null, beside = null } = {}) {
  const context = beside?.browserContext() ?? (await (await chromium()).createBrowserContext());
  if (!beside) contexts.push(context);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.errors = [];
  page.quiet = () => page.errors.splice(0);
  page.on("console", (said) => ["error", "warn"].includes(said.type()) && page.errors.push(said.text()));
  page.on("pageerror", (error) => page.errors.push(error.stack ?? error.message));
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }, { name: "prefers-reduced-motion", value: "reduce" }]);
  await page.evaluateOnNewDocument(() => {
    globalThis.violations = [];
    addEventListener("securitypolicyviolation", (event) => globalThis.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
  });
  if (first) await page.evaluateOnNewDocument(first);
  if (key) await page.evaluateOnNewDocument((known) => sessionStorage.setItem("tideline.key", known), key);
  await page.goto(path.startsWith("about:") ? path : `${server.page}${path}`);
  return page;
}

/** The example of `clients/javascript/ai` in front of a server, with its model, which takes so long for a word. */
export async function startChat(server, word_ms) {
  const port = await freePort();
  const env = { ...OWN_ENV, TIDELINE_MODULES: folder, WORD_MS: String(word_ms), MODEL_STORE: join(server.folder, "model.store") };
  const example = join(import.meta.dirname, "../../clients/javascript/ai/example/serve.js");
  const child = spawn(process.execPath, [example, String(port), server.url], { stdio: process.env.TIDELINE_LOUD ? "inherit" : "ignore", env });
  ending.push(() => child.kill());
  const page = `http://127.0.0.1:${port}`;
  await until("the example is served", async () => (await fetch(`${page}/chat/`)).ok);
  return { page };
}

/** Presses keys one after the other; "type:TEXT" types a text. */
export async function press(page, ...keys) {
  for (const key of keys) {
    if (key.startsWith("type:")) await page.keyboard.type(key.slice(5));
    else if (key.includes("+")) {
      const [held, then] = key.split("+");
      await page.keyboard.down(held);
      await page.keyboard.press(then);
      await page.keyboard.up(held);
    } else await page.keyboard.press(key);
  }
}

/** What can be read in the page, or in one element of it. */
export const text = (page, selector = "body") => page.$eval(selector, (element) => element.innerText);

/** Waits until a text is to be read. */
export const reads = (page, wanted, selector = "body", patience_ms) =>
  until(`${selector} reads ${wanted}`, async () => {
    const found = await text(page, selector);
    return (wanted instanceof RegExp ? wanted.test(found) : found.includes(wanted)) && found;
  }, patience_ms);

const AXE = readFileSync(modules.resolve("axe-core/axe.min.js"), "utf8");

/** What axe-core finds, one line each. Through the debugger, as the page's own rules let in no foreign script. In a dark
 *  page it looks at colours alone: all else is the same as in a light one. */
export async function findings(page, theme = "light") {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(`${AXE};0`);
  return page.evaluate(async (dark) => {
    const only = dark ? { runOnly: { type: "rule", values: ["color-contrast"] } } : {};
    const { violations } = await globalThis.axe.run(document, { resultTypes: ["violations"], ...only });
    return violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => `${id}: ${target.join(" ")}: ${failureSummary.replaceAll("\n", " ")}`));
  }, theme === "dark");
}

/** Contrast of every text that can be seen against what is painted behind it: [{text, ratio, size}], the least first. */
const contrasts = (page) =>
  page.evaluate(() => {
    const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgba = (colour) => {
      context.clearRect(0, 0, 1, 1);
      context.fillStyle = colour;
      context.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
      return [r, g, b, a / 255];
    };
    const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
    const ground = (element) => {
      const layers = [];
      for (let one = element; one; one = one.parentElement) layers.push(rgba(getComputedStyle(one).backgroundColor));
      return layers.reverse().reduce((below, layer) => over(layer, below), rgba(getComputedStyle(document.body).backgroundColor));
    };
    const light = ([r, g, b]) => {
      const [x, y, z] = [r, g, b].map((value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      const said = walker.currentNode.textContent.trim();
      if (!said || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || element.closest("script, noscript, :disabled")) continue;
      const style = getComputedStyle(element);
      const behind = ground(element);
      const ink = over(rgba(element instanceof SVGElement ? style.fill : style.color), behind);
      const [high, low] = [light(ink), light(behind)].sort((a, b) => b - a);
      found.push({ text: said.slice(0, 40), ratio: Math.round(((high + 0.05) / (low + 0.05)) * 100) / 100, size: style.fontSize, at: element.className?.baseVal ?? element.className });
    }
    return found.sort((a, b) => a.ratio - b.ratio);
  });

/** All that must be true of how a page looks: axe-core finds nothing, and texts have contrast. */
export async function looksSound(page, { theme, what } = {}) {
  assert.deepEqual(await findings(page, theme), [], what);
  assert.deepEqual((await contrasts(page)).filter(({ ratio }) => ratio < CONTRAST_LEAST), [], what);
}

/** Takes a page's errors, but those that the browser says while nobody listens at the server's port. */
export const ownErrors = (page) => page.quiet().filter((error) => !/ERR_CONNECTION|WebSocket|Failed to load/.test(error));

/** All that must be true of a page at any time: no error, no breach of its rules, few elements in its two lists. */
export async function isSound(page) {
  const [violations, rows] = await page.evaluate(() => [globalThis.violations, document.querySelectorAll("[role=listbox] .row").length]);
  assert.deepEqual([page.errors, violations], [[], []]);
  assert.ok(rows <= 120, `${rows} row elements in two lists`);
}
