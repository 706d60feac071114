// A store in one file, for programs on Node.
//
// Owns: the file: a first line, then one line of JSON for each write, which is all there or not at all. In memory is what
// they come to. Promises: a write that has resolved is on disk (fdatasync; writes of the same moment share one); a line
// that a crash cut short is dropped, any other damage is an error that names the line; of two processes the second is
// refused. Must not: be used by two clients at once.

import { open, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { MemoryStore } from "./memory.js";

const FIRST = '{"tideline":1}\n';
const WRITES = new Set(["apply", "grow", "forget", "addToOutbox", "removeFromOutbox"]);
const GROWTH_BYTES_MIN = 1 << 20;

export class FileStore extends MemoryStore {
  #path;
  #file = null;
  #lines = [];
  #waiters = [];
  #writing = null;
  #failure = null;
  #bytes = 0; // of the file, and after it was last written anew:
  #bytes_anew = 0;

  /** Opens `path`, or makes it. */
  static async open(path) {
    const store = new FileStore();
    store.#path = path;
    await lock(`${path}.lock`);
    try {
      await store.#replay();
    } catch (error) {
      await unlock(`${path}.lock`);
      throw error;
    }
    return store;
  }

  async #replay() {
    const text = await readFile(this.#path, "utf8").catch((error) => {
      if (error.code === "ENOENT") return "";
      throw error;
    });
    const lines = text.split("\n");
    lines.pop(); // empty, or cut short
    if (lines.length && `${lines[0]}\n` !== FIRST) throw new Error(`${this.#path} is not a store of this version`);
    for (let at = 1; at < lines.length; at++) {
      try {
        const [what, ...args] = JSON.parse(lines[at]);
        if (!WRITES.has(what)) throw new Error(`an unknown write ${what}`);
        await super[what](...args);
      } catch (error) {
        throw new Error(`${this.#path}, line ${at + 1}: ${error.message}`);
      }
    }
    await this.#writeAnew();
  }

  async apply(timeline, place, messages) {
    super.apply(timeline, place, messages);
    return this.#write("apply", timeline, place, messages);
  }

  async grow(timeline, growth) {
    super.grow(timeline, growth);
    return this.#write("grow", timeline, growth);
  }

  async forget(timeline) {
    super.forget(timeline);
    return this.#write("forget", timeline);
  }

  async addToOutbox(item) {
    super.addToOutbox(item);
    return this.#write("addToOutbox", item);
  }

  async removeFromOutbox({ timeline, message_id }) {
    super.removeFromOutbox({ timeline, message_id });
    return this.#write("removeFromOutbox", { timeline, message_id });
  }

  async close() {
    await this.#writing;
    const file = this.#file;
    if (file === null) return; // the lock may be another's by now
    this.#file = null;
    await file.close();
    await unlock(`${this.#path}.lock`);
  }

  #write(...what) {
    if (this.#failure) return Promise.reject(this.#failure);
    if (!this.#file) return Promise.reject(new Error("the store is closed"));
    this.#lines.push(`${JSON.stringify(what)}\n`);
    return new Promise((resolve, reject) => {
      this.#waiters.push({ resolve, reject });
      this.#writing ??= this.#flush();
    });
  }

  async #flush() {
    while (this.#waiters.length) {
      const [text, waiters] = [this.#lines.splice(0).join(""), this.#waiters.splice(0)];
      try {
        if (this.#bytes > GROWTH_BYTES_MIN + 2 * this.#bytes_anew) await this.#writeAnew();
        else await this.#append(text);
        for (const { resolve } of waiters) resolve();
      } catch (error) {
        // How much of it is in the file is not known, so nothing is written behind it.
        this.#failure = error;
        for (const { reject } of waiters) reject(error);
      }
    }
    this.#writing = null;
  }

  async #append(text) {
    await this.#file.appendFile(text);
    await this.#file.datasync();
    this.#bytes += Buffer.byteLength(text);
  }

  /** The file as short as it can be; a new one takes the old one's place at once, whole. */
  async #writeAnew() {
    // Taken in one turn, so that a write is either in it or comes behind it.
    const text = [FIRST, ...Array.from(this.writes(), (write) => `${JSON.stringify(write)}\n`)].join("");
    const beside = await open(`${this.#path}.new`, "w");
    try {
      await beside.appendFile(text);
      await beside.datasync();
      await rename(`${this.#path}.new`, this.#path);
      await syncFolder(dirname(this.#path));
    } catch (error) {
      await beside.close();
      throw error;
    }
    await this.#file?.close();
    this.#file = beside;
    this.#bytes = this.#bytes_anew = Buffer.byteLength(text);
  }
}

/** Until then a power cut may bring back the file that a rename has replaced. Windows has no such call. */
async function syncFolder(path) {
  if (process.platform === "win32") return;
  const folder = await open(path);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

const mine = new Set();

/** Takes the lock file, also that of a process that is gone. */
async function lock(path) {
  for (;;) {
    try {
      await writeFile(path, String(process.pid), { flag: "wx" });
      mine.add(path);
      return;
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
    const owner = Number(await readFile(path, "utf8").catch(() => ""));
    // A container's process often has the number of the one before it.
    const used = owner === process.pid ? mine.has(path) : isAlive(owner);
    if (used) throw new Error(`${path} is held by process ${owner}: one client at a time`);
    await rm(path, { force: true });
  }
}

async function unlock(path) {
  mine.delete(path);
  await rm(path, { force: true });
}

function isAlive(process_id) {
  if (!(process_id > 0)) return false;
  try {
    return process.kill(process_id, 0);
  } catch (error) {
    return error.code === "EPERM";
  }
}
