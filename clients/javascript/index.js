// What the package gives: a client, its stores for browsers and programs (that in files is `tideline/file`), its error.

export { Client } from "./client.js";
export { TidelineError } from "./errors.js";
export { IndexedDbStore } from "./store/indexeddb.js";
export { MemoryStore } from "./store/memory.js";
