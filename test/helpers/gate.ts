/** Holds whoever waits at it until it is opened. */
export interface Gate {
  readonly opened: Promise<void>;
  open(): void;
}

export function closedGate(): Gate {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: () => resolve() };
}

/** Lets everything go on that nobody holds: scoring in memory is microtasks, and one turn of the loop ends them all. */
export function whatCanHappen(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
