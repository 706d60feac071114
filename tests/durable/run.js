// The protocol's own conformance suite against a real server: all of it but what tests subscriptions (`__ds`), which are not served; and the
// program of docs/STREAMS.md for the protocol's client.
//
// Owns: the server and the folder that vitest runs in. Needs TIDELINE_BIN and TIDELINE_MODULES, the folder with node_modules.

import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const { TIDELINE_BIN, TIDELINE_MODULES } = process.env;
const TESTS = 332;
const SUITE = `import { runConformanceTests } from "@durable-streams/server-conformance-tests";
runConformanceTests({ baseUrl: process.env.STREAMS_URL, longPollTimeoutMs: 1500 });
`;
const SETTINGS = `allowed_origins = ["https://example.com"]
stream_wait_ms = 1500
`;

const port = await new Promise((resolve) => {
  const probe = createServer().listen(0, "127.0.0.1", () => {
    const { port } = probe.address();
    probe.close(() => resolve(port));
  });
});
const folder = mkdtempSync(join(tmpdir(), "durable-"));
writeFileSync(join(folder, "tideline.toml"), SETTINGS);
writeFileSync(join(TIDELINE_MODULES, "streams.test.js"), SUITE);
const server = spawn(TIDELINE_BIN, ["serve", "--config", join(folder, "tideline.toml"), "--data", join(folder, "data"), "--listen", `127.0.0.1:${port}`], { stdio: "ignore" });
const url = `http://127.0.0.1:${port}`;
let said, results, program, printed;
try {
  while (!(await fetch(`${url}/readyz`).then((answer) => answer.ok, () => false))) await new Promise((resolve) => setTimeout(resolve, 50));
  const found = join(folder, "results.json");
  said = spawnSync(process.execPath, [join(TIDELINE_MODULES, "node_modules/vitest/vitest.mjs"), "run", "streams.test.js", "--testTimeout=60000", "--reporter=json", `--outputFile=${found}`], {
    cwd: TIDELINE_MODULES,
    env: { ...process.env, STREAMS_URL: url, NO_PROXY: "127.0.0.1" },
    encoding: "utf8",
  });
  const page = readFileSync(new URL("../../docs/STREAMS.md", import.meta.url), "utf8");
  const [, text, wanted] = page.match(/```js\n(import \{ DurableStream.*?)```\n+```text\n(.*?)```/s);
  writeFileSync(join(TIDELINE_MODULES, "program.mjs"), text.replace("7070", port));
  program = spawnSync(process.execPath, ["program.mjs"], { cwd: TIDELINE_MODULES, env: { ...process.env, NO_PROXY: "127.0.0.1" }, encoding: "utf8" });
  printed = program.stdout === wanted;
  results = JSON.parse(readFileSync(found, "utf8")).testResults.flatMap(({ assertionResults }) => assertionResults);
} catch (error) {
  console.error(said?.stdout, said?.stderr);
  throw error;
} finally {
  server.kill();
  rmSync(folder, { recursive: true, force: true });
}
const failed = results.filter(({ status }) => status === "failed");
const passed = results.filter(({ status }) => status === "passed").length;
for (const { fullName, failureMessages } of failed) console.error(`failed: ${fullName}\n  ${failureMessages.join("\n").slice(0, 600)}`);
if (!printed) console.error(`the program of docs/STREAMS.md printed:\n${program.stdout}\n${program.stderr}`);
console.log(`${passed} of ${passed + failed.length} tests of the conformance suite pass`);
process.exit(passed === TESTS && !failed.length && printed ? 0 : 1);
