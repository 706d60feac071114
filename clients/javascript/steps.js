// What is done one after the other.
//
// Owns: the steps that wait, and the one that runs. Promises: a step begins when the one before it is done; after a
// step that failed none begins, and `failed` is called; what is dropped does not begin. Must not: know what the steps
// do.

export class Steps {
  #waiting = [];
  #running = null; // a promise, while there is something to do
  #busy = false;
  #failed;

  constructor(failed) {
    this.#failed = failed;
  }

  get isBusy() {
    return this.#busy;
  }

  /** Does `step` after all that came before it; at once if there is nothing. */
  add(step) {
    this.#waiting.push(step);
    if (!this.#busy) this.#running = this.#run();
  }

  /** Drops what has not begun. */
  drop() {
    this.#waiting.length = 0;
  }

  /** Resolves when all is done. */
  async done() {
    while (this.#busy) await this.#running;
  }

  async #run() {
    this.#busy = true;
    try {
      for (let step; (step = this.#waiting.shift()); ) await step();
    } catch (error) {
      this.drop();
      this.#failed(error);
    }
    this.#busy = false;
  }
}
