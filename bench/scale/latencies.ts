import type { Pieces } from './backlog.ts';

/** Latencies, counted in steps. */
export interface Latencies {
  /** @param endMs when these messages were answered */
  add(pieces: Pieces, endMs: number): void;
  /** Milliseconds within which this share of the messages was answered; NaN where none was. */
  quantile(share: number): number;
  readonly meanMs: number;
  clear(): void;
}

const STEP_MS = 10;

export function createLatencies(): Latencies {
  let counts: number[] = [];
  let total = 0;
  let sum = 0;
  return {
    add(pieces, endMs) {
      for (let index = 0; index < pieces.length; index += 2) {
        const [ms, messages] = [endMs - (pieces[index] ?? 0), pieces[index + 1] ?? 0];
        const step = Math.ceil(ms / STEP_MS);
        while (counts.length <= step) counts.push(0);
        counts[step] = (counts[step] ?? 0) + messages;
        total += messages;
        sum += ms * messages;
      }
    },
    quantile(share) {
      let seen = 0;
      const step = counts.findIndex((messages) => {
        seen += messages;
        return seen >= share * total && seen > 0;
      });
      return step < 0 ? Number.NaN : step * STEP_MS;
    },
    get meanMs() {
      return sum / total;
    },
    clear() {
      counts = [];
      total = 0;
      sum = 0;
    },
  };
}
