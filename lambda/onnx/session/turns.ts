import { type Deferred, deferred } from '../../core/concurrency.ts';
import { RunAbandonedError } from '../../core/model.ts';

/** Lets work be done at some places, at each one after the other, first come, first served. */
export interface Turns {
  /**
   * Does `work` at the first place that is free.
   *
   * @param place the only place that will do. @default any
   * @throws RunAbandonedError when the signal is aborted before its turn comes: it is never started
   */
  take<T>(work: (place: number) => Promise<T>, signal?: AbortSignal, place?: number): Promise<T>;
  /** Whether work that is given now would be the next, and not at once. */
  wouldBeNext(): boolean;
}

interface Waiting {
  readonly turn: Deferred<number>;
  readonly wanted: number | undefined;
}

/** @param places how many there are, numbered from 0 */
export function createTurns(places = 1): Turns {
  const free = new Set(Array.from({ length: places }, (_, place) => place));
  const waiting = new Set<Waiting>();
  const myTurn = async (signal: AbortSignal | undefined, wanted: number | undefined): Promise<number> => {
    const one = { turn: deferred<number>(), wanted };
    waiting.add(one);
    // At once: a turn that is given to one who has gone would never be passed on.
    const withdraw = (): void => {
      if (waiting.delete(one)) one.turn.reject(withdrawn());
    };
    signal?.addEventListener('abort', withdraw);
    return one.turn.promise.finally(() => signal?.removeEventListener('abort', withdraw));
  };
  const firstFree = (wanted: number | undefined): number | undefined =>
    [...free].find((place) => wanted === undefined || place === wanted);
  const passOn = (place: number): void => {
    const next = [...waiting].find(({ wanted }) => wanted === undefined || wanted === place);
    if (next === undefined) {
      free.add(place);
      return;
    }
    waiting.delete(next);
    next.turn.resolve(place);
  };
  return {
    wouldBeNext: () => free.size === 0 && waiting.size === 0,
    async take(work, signal, wanted) {
      if (signal?.aborted) throw withdrawn();
      const found = firstFree(wanted);
      if (found !== undefined) free.delete(found);
      const place = found ?? (await myTurn(signal, wanted));
      try {
        return await work(place);
      } finally {
        passOn(place);
      }
    },
  };
}

export function withdrawn(): RunAbandonedError {
  return new RunAbandonedError('expected the run to start in its time, got no turn until then; it was withdrawn');
}
