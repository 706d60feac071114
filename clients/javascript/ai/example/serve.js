// Serves the example in front of a running server, and is its model: it recites, word by word, and needs no network.
//   node example/serve.js [PORT] [http://127.0.0.1:7070] [CHAT …]
//
// Owns: the bundle of the page, in a folder of its own. Promises: killed and started again, it goes on with the answer that it
// was writing. Must not: be served. TIDELINE_MODULES is the folder of `ai`, `@ai-sdk/react`, `react`, `react-dom`, `esbuild`.

import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "../../index.js";
import { FileStore } from "../../store/file.js";
import { answerChat } from "../answering.js";

const WORD_MS = Number(process.env.WORD_MS ?? 60);
const POEM = `The tide comes in, the tide goes out,
and what it takes it brings again:
a bottle with a word about
a harbour in the April rain,
the boats that turn upon their chains,
the light that counts from one to ten,
and every word that here remains
is written once, and read again 🌊
`;

const [port = "7072", behind = "http://127.0.0.1:7070", ...chats] = process.argv.slice(2);
const modules = process.env.TIDELINE_MODULES ?? join(import.meta.dirname, "..");
const { build } = createRequire(join(modules, "package.json"))("esbuild");
const folder = mkdtempSync(join(tmpdir(), "tideline-chat-"));
const here = (path) => join(import.meta.dirname, path);

await build({
  entryPoints: [here("page.js")],
  outdir: folder,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  nodePaths: [join(modules, "node_modules")],
  alias: { tideline: here("../../index.js"), "tideline-ai": here("../index.js") },
  define: { "process.env.NODE_ENV": '"production"' },
  external: ["./socket.js"],
  logLevel: "error",
});
copyFileSync(here("index.html"), join(folder, "index.html"));

/** Recites behind what it has recited. */
async function* recite({ text, signal }) {
  const words = POEM.repeat(3).slice(text.length).match(/\S+\s*/g) ?? [];
  for (const word of words) {
    await new Promise((resolve) => setTimeout(resolve, WORD_MS));
    if (signal.aborted) return;
    yield word;
  }
}

const url = new URL("/v1/connect", behind.replace(/^http/, "ws")).href;
const store = FileStore.open(process.env.MODEL_STORE ?? join(folder, "model.store"));
const client = new Client(url, { user: "model", store, delay_ms: [100, 500] });
for (const chat of chats.length ? chats : ["harbour"]) {
  await answerChat(client, `chat/${chat}`, recite, { failed: (error) => console.error(error) });
}

process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit());
process.argv.splice(2, Infinity, port, behind, `/chat/=${folder}`);
await import("../../../../console/scripts/serve.js");
