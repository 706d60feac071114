import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, mkdir, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { made } from "../scripts/types.js";
import { decodeMessage, encode, encodeEntry } from "../values.js";
import { message } from "./script.js";

const run = promisify(execFile);
const HERE = fileURLToPath(new URL("..", import.meta.url));

test("protocol.d.ts is what the schemas make it (npm run types)", async () => {
  assert.equal(await readFile(join(HERE, "protocol.d.ts"), "utf8"), made());
});

test("npm pack makes a package that can be installed and imported", async () => {
  const folder = await mkdtemp(join(tmpdir(), "tideline-"));
  const [npm, ...words] = (process.env.TIDELINE_NPM ?? "npm").split(" ");
  await run(npm, [...words, "pack", "--silent", "--pack-destination", folder], { cwd: HERE });
  const [packed] = await readdir(folder);
  const home = join(folder, "node_modules", "tideline");
  await mkdir(home, { recursive: true });
  await run("tar", ["-xzf", join(folder, packed), "-C", home, "--strip-components=1"]);
  const program = 'import { Client, IndexedDbStore } from "tideline"; import { FileStore } from "tideline/file"; console.log(Client.name, FileStore.name)';
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", program], { cwd: folder });
  assert.equal(stdout, "Client FileStore\n");
  const files = (await readdir(home)).sort();
  for (const wanted of ["README.md", "index.d.ts", "index.js", "protocol.d.ts", "socket.js", "store"]) assert.ok(files.includes(wanted), files.join());
  for (const kept of ["test", "scripts", "bench.js"]) assert.ok(!files.includes(kept), files.join());
  await rm(folder, { recursive: true });
});

test("nothing that browsers lack is imported but where it is said", async () => {
  for (const name of await readdir(HERE)) {
    if (!name.endsWith(".js") || ["socket.js", "bench.js"].includes(name)) continue;
    assert.doesNotMatch(await readFile(join(HERE, name), "utf8"), /from "node:/, name);
  }
});

test("values come back as they went", () => {
  const entry = { text: "ä", int: -5, big: -9223372036854775808n, half: 0.5, yes: true, bytes: new Uint8Array([0, 255]), list: [1, null, "x"], nested: { a: { b: 1 } } };
  const wire = JSON.parse(JSON.stringify(encodeEntry(entry)));
  assert.deepEqual([wire.big, wire.bytes], [{ $integer: "-9223372036854775808" }, { $binary: "AP8=" }]);
  assert.deepEqual(decodeMessage(message(1, { entry: wire })).entry, entry);
});

test("what is nearly a typed value is left as it is", () => {
  const entry = { a: { $integer: "many" }, b: { $binary: "*" }, c: { $integer: "1", d: 2 }, e: { $other: "x" }, f: { x: { $integer: "1" } } };
  assert.deepEqual(decodeMessage(message(1, { entry })).entry, entry);
});

test("typed values where a method has entries, and nowhere else", () => {
  const attributes = { set: { n: 5n }, remove: ["x"] };
  assert.deepEqual(encode({ user: "ann", attributes }), { user: "ann", attributes: { set: { n: { $integer: "5" } }, remove: ["x"] } });
  assert.deepEqual(encode({ messages: [{ entry: { n: 5n } }] }), { messages: [{ entry: { n: { $integer: "5" } } }] });
  const positions = JSON.parse('{"__proto__": {"after": 1}, "entry": {"after": 2}}');
  assert.equal(JSON.stringify(encode({ positions })), JSON.stringify({ positions }));
});

test("what can't go over the wire is refused with its field", () => {
  const refused = { nan: NaN, infinite: -Infinity, digits: 2 ** 60, big: 1n << 64n, nested: { deep: [1n] }, bytes: [new Uint8Array(1)], call() {} };
  for (const [name, value] of Object.entries(refused)) {
    assert.throws(() => encodeEntry({ [name]: value }), (error) => error.reason === "invalid_params" && error.data.field.startsWith(`entry.${name}`));
  }
});
