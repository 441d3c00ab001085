import { type Deferred, deferred } from '../../../core/base/deferred.ts';
import { RunAbandonedError } from '../../../core/contract/model.ts';

/** Lets work be done one after the other, first come, first served. */
export interface Turns {
  /**
   * Does `work` when everything before it is done.
   *
   * @throws RunAbandonedError when the signal is aborted before its turn comes: it is never started
   */
  take<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T>;
}

export function createTurns(): Turns {
  const waiting = new Set<Deferred<void>>();
  let taken = false;
  const myTurn = async (signal: AbortSignal | undefined): Promise<void> => {
    const turn = deferred();
    waiting.add(turn);
    // At once: a turn that is given to one who has gone would never be passed on.
    const withdraw = (): void => {
      if (waiting.delete(turn)) turn.reject(withdrawn());
    };
    signal?.addEventListener('abort', withdraw);
    await turn.promise.finally(() => signal?.removeEventListener('abort', withdraw));
  };
  const passOn = (): void => {
    const [next] = waiting;
    taken = next !== undefined;
    if (next === undefined) return;
    waiting.delete(next);
    next.resolve();
  };
  return {
    async take(work, signal) {
      if (signal?.aborted) throw withdrawn();
      if (taken) await myTurn(signal);
      taken = true;
      try {
        return await work();
      } finally {
        passOn();
      }
    },
  };
}

export function withdrawn(): RunAbandonedError {
  return new RunAbandonedError('expected the run to start in its time, got no turn until then; it was withdrawn');
}
