// `EventSource` in a real browser: it follows a timeline, comes back by itself, and nothing is lost or comes twice.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openPage, startServer, until } from "./bed.js";

const TIMELINE = "room/events";

test("an EventSource goes on exactly through kills of the server", async () => {
  const server = await startServer();
  await server.call("timeline.create", { timeline: TIMELINE });
  const page = await openPage(server, "/demo/");
  await page.evaluate((timeline) => {
    window.got = [];
    window.opened = 0;
    const events = new EventSource(`/v1/events?timeline=${timeline}&after=0`);
    const take = (messages) => window.got.push(...messages.map(({ entry }) => entry.text));
    events.addEventListener("open", () => (window.opened += 1));
    events.addEventListener("subscribed", ({ data }) => take(JSON.parse(data).timelines[timeline].messages));
    events.addEventListener("message", ({ data }) => take(JSON.parse(data).messages));
    window.events = events;
  }, TIMELINE);
  const got = () => page.evaluate(() => window.got);
  const sent = [];
  for (let round = 0; round < 3; round += 1) {
    await until(`open ${round}`, () => page.evaluate((wanted) => window.opened > wanted, round));
    for (let at = 0; at < 20; at += 1) {
      sent.push(`${round}/${at}`);
      await server.append(TIMELINE, { text: sent.at(-1) });
    }
    await until("all is there", async () => (await got()).length >= sent.length);
    assert.deepEqual(await got(), sent);
    await server.kill();
    await server.start();
    sent.push(`while away ${round}`);
    await server.append(TIMELINE, { text: sent.at(-1) });
  }
  await until("what came last is there", async () => (await got()).length >= sent.length);
  assert.deepEqual(await got(), sent);
  await server.call("timeline.delete", { timeline: TIMELINE });
  await until("a stream with nothing to go on with is closed", () => page.evaluate(() => window.events.readyState === EventSource.CLOSED));
  assert.deepEqual(await got(), sent);
});
