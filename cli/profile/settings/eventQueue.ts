/** What is to happen, soonest first. */
export interface EventQueue {
  /** When the next one is; Infinity where there is none. */
  readonly nextMs: number;
  add(atMs: number, slot: number): void;
  /** Takes the next one out. @returns its slot */
  take(): number;
}

const NEVER = Number.POSITIVE_INFINITY;

/** Times are added nearly in order: each looks for its place from the end. */
export function createEventQueue(): EventQueue {
  const times: number[] = [];
  const slots: number[] = [];
  let first = 0;
  return {
    get nextMs() {
      return times[first] ?? NEVER;
    },
    add(atMs, slot) {
      if (times.length === first || (times.at(-1) as number) <= atMs) {
        times.push(atMs);
        slots.push(slot);
        return;
      }
      let place = times.length - 1;
      while (place > first && (times[place - 1] as number) > atMs) place -= 1;
      times.splice(place, 0, atMs);
      slots.splice(place, 0, slot);
    },
    take() {
      const slot = slots[first++] as number;
      if (first > MOST_TAKEN) {
        times.splice(0, first);
        slots.splice(0, first);
        first = 0;
      }
      return slot;
    },
  };
}

/** Taken ones, before they are let go of. */
const MOST_TAKEN = 1_000;
