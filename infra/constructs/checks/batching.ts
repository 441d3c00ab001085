import type { Batching } from '../base/batching.ts';
import { outside, type Problem } from '../base/refuse.ts';

const MAX_BATCH_WITHOUT_WINDOW = 10;

/**
 * What an event source mapping refuses.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/api/API_CreateEventSourceMapping.html
 */
export function batchingProblems({ fifo, batchSize, windowSeconds }: Batching): Problem[] {
  return [
    outside('batchSize', batchSize, 1, 10_000),
    outside('windowSeconds', windowSeconds, 0, 300),
    ...(fifo ? fifoProblems(batchSize, windowSeconds) : [standardProblem(batchSize, windowSeconds)]),
  ];
}

function fifoProblems(batchSize: number, windowSeconds: number): Problem[] {
  return [
    batchSize > MAX_BATCH_WITHOUT_WINDOW
      ? `batchSize: expected at most ${MAX_BATCH_WITHOUT_WINDOW} on a FIFO queue, got ${batchSize}, ` +
        'lower it or use a standard queue'
      : undefined,
    windowSeconds > 0
      ? `windowSeconds: expected 0 on a FIFO queue, which has no batching window, got ${windowSeconds}, ` +
        'set it to 0 or use a standard queue'
      : undefined,
  ];
}

function standardProblem(batchSize: number, windowSeconds: number): Problem {
  if (batchSize <= MAX_BATCH_WITHOUT_WINDOW || windowSeconds >= 1) return undefined;
  return (
    `windowSeconds: expected at least 1 with a batchSize above ${MAX_BATCH_WITHOUT_WINDOW}, ` +
    `got ${windowSeconds} with batchSize ${batchSize}, raise windowSeconds or lower batchSize`
  );
}
