// Real servers, if TIDELINE_BIN is the binary; TIDELINE_FAULTS=1 says that it has the faults.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

const BINARY = process.env.TIDELINE_BIN;

/** What a client needs in place of the usual waits. */
export const options = { delay_ms: [10, 50] };
export const running = new Set();

export const real = (name, body) => test(name, { skip: !BINARY }, body);
/** A control: something on the server is broken on purpose. */
export const broken = (name, body) => test(name, { skip: !BINARY || process.env.TIDELINE_FAULTS !== "1" }, body);

async function freePort() {
  const probe = createServer();
  await new Promise((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port } = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

/** A folder with data and a port, on which `start` starts a server, perhaps one with a fault; all ends with the tests. */
export async function bed() {
  const folder = mkdtempSync(join(tmpdir(), "tideline-"));
  const port = await freePort();
  after(async () => {
    await Promise.all([...running].map((child) => ended(child, "SIGKILL")));
    rmSync(folder, { recursive: true, force: true });
  });
  async function start(fault) {
    if (!BINARY) return null;
    const args = ["serve", "--data", join(folder, "data"), "--listen", `127.0.0.1:${port}`];
    const env = { ...process.env, ...(fault && { TIDELINE_FAULT: fault }) };
    const server = spawn(BINARY, args, { stdio: "ignore", env });
    running.add(server);
    for (;;) {
      const ready = await fetch(`http://127.0.0.1:${port}/readyz`).then(({ ok }) => ok, () => false);
      if (ready) return server;
      assert.equal(server.exitCode, null, "the server ended");
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
  return { folder, port, start, url: `ws://127.0.0.1:${port}/v1/connect` };
}

export function ended(child, signal) {
  running.delete(child);
  const gone = new Promise((resolve) => child.on("exit", resolve));
  child.kill(signal);
  return gone;
}
