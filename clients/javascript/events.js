// Listeners by event name.
//
// Owns: the listeners of each event. Promises: listeners are called in the order in which they came; one that throws
// hinders no other, and its error is reported as uncaught. Must not: know what the events mean.

export class Events {
  #listeners = new Map();

  /** Calls `listener` at each such event; what is returned ends that. */
  on(event, listener) {
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  emit(event, detail) {
    for (const listener of [...(this.#listeners.get(event) ?? [])]) {
      try {
        listener(detail);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
