import type { Problem } from '../base/refuse.ts';
import type { BatchScoringProps } from '../props.ts';

/** What does not fit together of that which is there already. */
export function existingProblems({ fifo, requestQueue, stores }: BatchScoringProps): Problem[] {
  const ofQueue = requestQueue?.queue.fifo;
  return [
    fifo !== undefined && ofQueue !== undefined && fifo !== ofQueue
      ? `fifo: expected ${ofQueue}, as the given request queue is, got ${fifo}, leave it out`
      : undefined,
    mixedQueues(ofQueue ?? fifo ?? false, stores?.resultQueue?.fifo),
  ];
}

/** The order of a message group would be lost, or its name missing. */
function mixedQueues(requests: boolean, results: boolean | undefined): Problem {
  if (results === undefined || results === requests) return undefined;
  const kind = (isFifo: boolean): string => (isFifo ? 'FIFO' : 'standard');
  return (
    `stores.resultQueue: expected a ${kind(requests)} queue, as the request queue is one, got a ${kind(results)} queue, ` +
    'give one of the same kind'
  );
}
