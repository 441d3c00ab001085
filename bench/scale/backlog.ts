/** Messages by when they came, in pairs: the time in milliseconds, and how many came then. */
export type Pieces = number[];

/** Messages that wait in a queue, oldest first. */
export interface Backlog {
  readonly messages: number;
  /** When the oldest came; Infinity where none waits. */
  readonly oldestMs: number;
  add(cameMs: number, messages: number): void;
  /** Moves the oldest to the end of `pieces`. */
  take(messages: number, pieces: Pieces): void;
}

/** Pieces that were taken, before they are let go of. */
const MOST_TAKEN = 10_000;

export function createBacklog(): Backlog {
  let pieces: Pieces = [];
  let first = 0;
  let all = 0;
  return {
    get messages() {
      return all;
    },
    get oldestMs() {
      return pieces[first] ?? Number.POSITIVE_INFINITY;
    },
    add(cameMs, messages) {
      if (messages > 0) pieces.push(cameMs, messages);
      all += messages;
    },
    take(messages, into) {
      all -= messages;
      for (let left = messages; left > 0; ) {
        const [cameMs, waiting] = [pieces[first], pieces[first + 1]];
        if (cameMs === undefined || waiting === undefined) throw new Error(`expected ${left} more messages, got none`);
        const taken = Math.min(left, waiting);
        if (into.at(-2) === cameMs) into[into.length - 1] = (into.at(-1) ?? 0) + taken;
        else into.push(cameMs, taken);
        pieces[first + 1] = waiting - taken;
        left -= taken;
        if (taken === waiting) first += 2;
      }
      if (first > MOST_TAKEN) {
        pieces = pieces.slice(first);
        first = 0;
      }
    },
  };
}
