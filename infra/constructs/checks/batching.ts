import { Annotations } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { outside } from '../../../lambda/limits/range.ts';
import type { Batching } from '../base/batching.ts';
import type { Problem } from '../base/refuse.ts';

const MAX_BATCH_WITHOUT_WINDOW = 10;
/** @see https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html */
const MAX_EVENT_BYTES = 6 * 1024 * 1024;
const MAX_MESSAGE_BYTES = 1_048_576;

/**
 * What an event source mapping refuses.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/api/API_CreateEventSourceMapping.html
 */
export function batchingProblems({ fifo, batchSize, windowSeconds }: Batching): Problem[] {
  return [
    outside('batchSize', batchSize, { least: 1, most: 10_000 }),
    outside('windowSeconds', windowSeconds, { least: 0, most: 300 }),
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

/** Every message may wait out the window, so that a target within it would be missed all the time. */
export function latencyProblems({ windowSeconds }: Batching, latencyTargetSeconds: number): Problem[] {
  return [
    outside('latencyTargetSeconds', latencyTargetSeconds, { least: 1, most: 1_209_600 }),
    latencyTargetSeconds <= windowSeconds
      ? `latencyTargetSeconds: expected more than windowSeconds, ${windowSeconds}, got ${latencyTargetSeconds}, ` +
        'raise it or shorten the window'
      : undefined,
  ];
}

/**
 * Lambda calls the function as soon as 6 MB have gathered: a larger batch is never as full as it says. It works, and so
 * it is a warning.
 */
export function warnOfLargeMessages(
  scope: Construct,
  { batchSize }: Batching,
  largestMessageBytes: number | undefined,
): void {
  if (largestMessageBytes === undefined) return;
  const inlineBytes = Math.min(largestMessageBytes, MAX_MESSAGE_BYTES);
  if (batchSize * inlineBytes <= MAX_EVENT_BYTES) return;
  Annotations.of(scope).addWarningV2(
    'batchscore:messageBytes',
    `batchSize: expected at most ${MAX_EVENT_BYTES} bytes in one call, got ${batchSize} × ${inlineBytes} bytes = ` +
      `${batchSize * inlineBytes}, lower batchSize to ${Math.floor(MAX_EVENT_BYTES / inlineBytes)} or send large bodies ` +
      'through the payload bucket',
  );
}
