/** The newest of what comes, so many at the most. */
export interface Newest<T> {
  add(one: T): void;
  /** The newest last. */
  all(): readonly T[];
  /** Those that came since this was called last, so many of the newest at the most. */
  takeNew(most: number): readonly T[];
}

export function createNewest<T>(capacity: number): Newest<T> {
  const kept: T[] = [];
  let isNew = 0;
  return {
    add(one) {
      kept.push(one);
      if (kept.length > capacity) kept.shift();
      isNew = Math.min(isNew + 1, capacity);
    },
    all: () => [...kept],
    takeNew(most) {
      const taken = isNew === 0 ? [] : kept.slice(-Math.min(isNew, most));
      isNew = 0;
      return taken;
    },
  };
}
