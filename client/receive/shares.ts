import { placeOf } from '../base/requestIds.ts';
import type { ScoringResult } from '../result/result.ts';
import { resultOf } from '../result/resultOf.ts';
import type { Finished } from './finished.ts';

/** A result, and what to tell its store. */
export interface Arrival {
  readonly result: ScoringResult;
  /** It reached its caller: the store may drop it. */
  accept(): void;
  /** Its caller no longer wants it: it stays in the store. */
  giveBack(): void;
}

/**
 * What each of those who wait for `ids` gets of an arrival, in their order. Its store may drop it once every request of
 * the message has reached its caller or is dismissed; until then the store keeps it, for those who come later.
 */
export function sharesOf(arrival: Arrival, ids: readonly string[], finished: Finished): Arrival[] {
  const { result } = arrival;
  const { messageId } = result;
  if (ids.length === 1 && ids[0] === messageId) return [arrival];
  finished.note(result);
  const requests = 'results' in result ? result.results.length : 0;
  let open = ids.length;
  let isWanted = false;
  // Nobody can tell how many requests there are behind the error of a whole message.
  let isDone = 'error' in result;
  const settle = (): void => {
    open -= 1;
    if (open > 0) return;
    if (isDone && !isWanted) arrival.accept();
    else arrival.giveBack();
  };
  return ids.map((id) => ({
    result: resultOf(id, result),
    accept() {
      const { position = 0 } = placeOf(id);
      if (id === messageId) isDone = true;
      else if (position < requests) {
        finished.add(id, requests);
        isDone ||= finished.has(messageId);
      }
      settle();
    },
    giveBack() {
      isWanted = true;
      settle();
    },
  }));
}
