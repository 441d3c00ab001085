/** Runs tasks concurrently, up to a number of them at a time. */
export interface Pipe {
  /** Starts the work as soon as there is room for it. */
  take(work: () => Promise<void>): Promise<void>;
  /** Waits until all the work is done. */
  drained(): Promise<void>;
}

export function createPipe(most: number): Pipe {
  const underWay = new Set<Promise<void>>();
  return {
    async take(work) {
      while (underWay.size >= most) await Promise.race(underWay);
      const started = work().finally(() => underWay.delete(started));
      underWay.add(started);
    },
    async drained() {
      while (underWay.size > 0) await Promise.race(underWay);
    },
  };
}
