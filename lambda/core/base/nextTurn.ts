/** Lets the event loop see to timers, reads and writes. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
