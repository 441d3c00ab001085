import type { Construct } from 'constructs';
import {
  BATCH_BYTES,
  MAX_EVENT_BYTES,
  MESSAGES_IN_FLIGHT,
  outside,
  RANGES_BY_MEMORY,
} from '../../../lambda/core/limits.ts';
import type { Batching } from '../base/batching.ts';
import type { Problem } from '../base/refuse.ts';
import { warn } from '../base/warn.ts';
import { type Concurrency, mostInvocations } from './concurrency.ts';

const MAX_MESSAGE_BYTES = 1_048_576;

/** What makes a batch full, and what it is then. */
const MOST_BYTES = {
  mapping: [MAX_EVENT_BYTES, 'invocation'],
  worker: [BATCH_BYTES, 'batch of a worker'],
} as const;

/** Any message may wait out the whole window, so a target within the window would be missed constantly. */
export function latencyProblems({ windowSeconds }: Batching, latencyTargetSeconds: number): Problem[] {
  return [
    outside('latencyTargetSeconds', latencyTargetSeconds, { least: 1, most: 1_209_600 }),
    latencyTargetSeconds <= windowSeconds
      ? `latencyTargetSeconds: expected more than windowSeconds, ${windowSeconds}, got ${latencyTargetSeconds}; ` +
        'raise it or shorten the window'
      : undefined,
  ];
}

/** Larger than SQS takes is not refused: such messages go through the payload bucket. */
export function largestMessageProblem(largestMessageBytes: number | undefined): Problem {
  return outside('largestMessageBytes', largestMessageBytes, { least: 1, most: RANGES_BY_MEMORY.maxPayloadBytes.most });
}

/**
 * Lambda invokes the function as soon as 6 MB have gathered, and a worker scores 32 MiB, so a batch that would be larger
 * never fills. That works, so it is only a warning.
 */
export function warnOfLargeMessages(
  scope: Construct,
  { batchSize }: Batching,
  largestMessageBytes: number | undefined,
  feed: 'mapping' | 'worker' = 'mapping',
): void {
  if (largestMessageBytes === undefined) return;
  const inlineBytes = Math.min(largestMessageBytes, MAX_MESSAGE_BYTES);
  const [most, where] = MOST_BYTES[feed];
  if (batchSize * inlineBytes <= most) return;
  warn(
    scope,
    'messageBytes',
    `batchSize: expected at most ${most} bytes in one ${where}, got ${batchSize} × ${inlineBytes} ` +
      `bytes = ${batchSize * inlineBytes}; lower batchSize to ${Math.floor(most / inlineBytes)} ` +
      'or send large bodies through the payload bucket',
  );
}

/**
 * Beyond the quota of a queue a long poll gets nothing, without an error: further invocations find no messages. That
 * works, only slower than the settings say, so it is a warning. Nothing is said where no ceiling is set: then batches that
 * are full and as many as Lambda allows are not what anybody asked for.
 *
 * @param ofEach what one mapping may have
 */
export function warnOfMessagesInFlight(scope: Construct, { batchSize, shards }: Batching, ofEach: Concurrency): void {
  const invocations = mostInvocations(ofEach);
  if (invocations === undefined || batchSize * invocations <= MESSAGES_IN_FLIGHT) return;
  const most = Math.floor(MESSAGES_IN_FLIGHT / batchSize);
  warn(
    scope,
    'messagesInFlight',
    `batchSize: expected at most ${MESSAGES_IN_FLIGHT} messages in flight from one queue, which is what SQS hands out, ` +
      `got ${batchSize} × ${invocations} invocations = ${batchSize * invocations}; lower batchSize, allow at most ` +
      `${most} invocations at a time${shards === 1 ? '' : ' for each shard'}, or raise shards, now ${shards}`,
  );
}

/**
 * The same of tasks, which share all queues evenly.
 *
 * @param batchesPerTask that a worker scores, and gathers, at a time
 */
export function warnOfMessagesHeld(
  scope: Construct,
  { batchSize, shards }: Batching,
  { tasks, batchesPerTask }: { readonly tasks: number; readonly batchesPerTask: number },
): void {
  const messages = batchSize * batchesPerTask * tasks;
  if (messages <= shards * MESSAGES_IN_FLIGHT) return;
  warn(
    scope,
    'messagesInFlight',
    `batchSize: expected at most ${MESSAGES_IN_FLIGHT} messages in flight from one queue, which is what SQS hands out, ` +
      `got ${batchSize} × ${batchesPerTask} batches × ${tasks} tasks = ${messages} from ${shards}; lower batchSize or ` +
      'maximumTasks, or raise shards',
  );
}
