/** The bound of connections. */

/** A number of slots. Callers that find none wait in order, each within its own time. */
export class Slots {
  #free: number;
  // A set keeps the order and forgets a waiter in constant time.
  readonly #waiters = new Set<() => void>();

  constructor(count: number) {
    this.#free = count;
  }

  /** Takes a slot. Returns false if there was none within the time. */
  take(ms: number): true | Promise<boolean> {
    if (this.#free > 0) {
      this.#free -= 1;
      return true;
    }
    return new Promise((resolve) => {
      const admit = () => {
        clearTimeout(timer);
        resolve(true);
      };
      const timer = setTimeout(() => {
        this.#waiters.delete(admit);
        resolve(false);
      }, ms);
      this.#waiters.add(admit);
    });
  }

  /** Gives a slot back, to the first waiter if there is one. */
  give(): void {
    const [first] = this.#waiters;
    if (first === undefined) {
      this.#free += 1;
      return;
    }
    this.#waiters.delete(first);
    first();
  }
}
