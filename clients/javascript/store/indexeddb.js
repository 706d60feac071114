// A store in a browser's IndexedDB.
//
// Owns: one database per store. Promises: what a call writes is one transaction, so a tab that is closed leaves all of
// it or nothing; two tabs on the same store disturb each other in nothing but speed, because a place never moves back
// within an epoch, an older copy never replaces a newer one, and what would leave a gap is not written.

export class IndexedDbStore {
  #database;

  /** Opens the database `name`, or makes it. Take one for each user. */
  static async open(name = "tideline") {
    const store = new IndexedDbStore();
    const opening = indexedDB.open(name, 1);
    opening.onupgradeneeded = () => {
      const database = opening.result;
      database.createObjectStore("places");
      database.createObjectStore("messages");
      database.createObjectStore("outbox");
    };
    store.#database = await done(opening);
    // Otherwise a later version of this package could not change the database while this tab is open.
    store.#database.onversionchange = () => store.#database.close();
    return store;
  }

  timelines() {
    return this.#read("places", (places) => places.getAllKeys());
  }

  async place(timeline) {
    return (await this.#read("places", (places) => places.get(timeline))) ?? null;
  }

  async get(timeline, sequence) {
    return (await this.#read("messages", (messages) => messages.get([timeline, sequence]))) ?? null;
  }

  async range(timeline, { from = 0, to = Infinity, limit = Infinity, newest = false } = {}) {
    const place = await this.place(timeline);
    if (!place) return [];
    let [low, high] = [Math.max(from, place.first), Math.min(to, place.after + 1)];
    if (high - low > limit) [low, high] = newest ? [high - limit, high] : [low, low + limit];
    if (low >= high) return [];
    return this.#read("messages", (messages) => messages.getAll(between(timeline, low, high)));
  }

  apply(timeline, place, added) {
    return this.#write(["places", "messages"], async (places, messages) => {
      const known = await done(places.get(timeline));
      const same = known?.epoch === place.epoch;
      const { floor = place.first } = place;
      // Another tab may have forgotten the timeline, or begun it anew since this one read it: that one has the rest.
      const held = new Set(added.map(({ sequence }) => sequence));
      const all = (from, to) => {
        while (from < to && held.has(from)) from += 1;
        return from >= to;
      };
      if (!all(same ? Math.max(known.after + 1, place.first) : place.first, place.after + 1)) return;
      if (!same) messages.delete(between(timeline, 0, Infinity));
      // What another tab has of older messages stays, and a page of them goes in if it reaches up to that.
      const extends_it = same && place.first < known.first && all(place.first, known.first);
      const first = Math.max(!same || extends_it || place.first > known.after + 1 ? place.first : known.first, floor);
      const after = same ? Math.max(known.after, place.after) : place.after;
      const changes = same ? Math.max(known.changes, place.changes) : place.changes;
      if (same && first > known.first) messages.delete(between(timeline, 0, first));
      places.put({ ...place, first, after, changes }, timeline);
      for (const message of added) {
        const key = [timeline, message.sequence];
        const copy = same && message.sequence <= known.after ? await done(messages.get(key)) : null;
        if (message.sequence >= first && !isBehind(message, copy)) messages.put(message, key);
      }
    });
  }

  grow(timeline, { epoch, sequence }, message) {
    return this.#write(["places", "messages"], async (places, messages) => {
      const copy = await done(messages.get([timeline, sequence]));
      const same = (await done(places.get(timeline)))?.epoch === epoch;
      if (same && copy?.open && !isBehind(message, copy)) messages.put(message, [timeline, sequence]);
    });
  }

  forget(timeline, epoch = null) {
    return this.#write(["places", "messages"], async (places, messages) => {
      if (epoch !== null && (await done(places.get(timeline)))?.epoch !== epoch) return;
      places.delete(timeline);
      messages.delete(between(timeline, 0, Infinity));
    });
  }

  outbox() {
    return this.#read("outbox", (outbox) => outbox.getAll());
  }

  addToOutbox(item) {
    return this.#write(["outbox"], async (outbox) => outbox.put(item, [item.timeline, item.message_id]));
  }

  removeFromOutbox({ timeline, message_id }) {
    return this.#write(["outbox"], async (outbox) => outbox.delete([timeline, message_id]));
  }

  async close() {
    this.#database.close();
  }

  async #read(name, ask) {
    return done(ask(this.#database.transaction(name).objectStore(name)));
  }

  /** Resolves when it is committed. `act` may wait for requests of its own transaction only. */
  async #write(names, act) {
    const transaction = this.#database.transaction(names, "readwrite");
    const committed = new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(transaction.error ?? new Error("the write was aborted"));
    });
    act(...names.map((name) => transaction.objectStore(name))).catch(() => transaction.abort());
    return committed;
  }
}

/** Whether a copy is older than the stored one, or has fewer parts, as another tab may be slower. */
const isBehind = (message, copy) => {
  const ahead = (message.change ?? 0) - (copy?.change ?? 0);
  return ahead < 0 || (ahead === 0 && (message.parts ?? 0) < (copy?.parts ?? 0));
};

const between = (timeline, low, high) => IDBKeyRange.bound([timeline, low], [timeline, high], false, true);

const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
