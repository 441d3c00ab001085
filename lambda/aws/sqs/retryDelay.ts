import type { MessageRecord } from '../../core/record.ts';
import type { RetryOptions } from '../untilDone.ts';
import type { SqsCaller } from './caller.ts';
import type { ActOnMessages } from './messageAction.ts';
import { createVisibilityChange } from './visibility.ts';

/** Sets when records that must be retried become visible again. @param signal ends requests that get no answer */
export type DelayRetries = ActOnMessages<MessageRecord>;

export interface RetryDelayOptions {
  readonly sqs: SqsCaller;
  readonly queueUrl: string;
  /** Whole seconds until a record comes back, by how often it was received. @default `backoffSeconds` */
  readonly secondsAfter?: (receiveCount: number, random: () => number) => number;
  /** Told when SQS would not change visibilities; the records then come back when their timeout ends. */
  readonly onProblem: (error: Error) => void;
  /** @default Math.random */
  readonly random?: () => number;
  /** @default three attempts */
  readonly retry?: RetryOptions;
}

/** Lets records come back after a backoff that grows with their receive count, not after the queue's visibility timeout. */
export function createRetryDelay(options: RetryDelayOptions): DelayRetries {
  const { random = Math.random, secondsAfter = backoffSeconds } = options;
  return createVisibilityChange<MessageRecord>({
    ...options,
    name: 'retry delay',
    secondsOf: ({ attributes }) => secondsAfter(Number(attributes.ApproximateReceiveCount), random),
  });
}

const CAP_SECONDS = 300;

/** Whole seconds: between half and all of 1, 2, 4, … for the first, second, third receive, at most five minutes. */
export function backoffSeconds(receiveCount: number, random: () => number): number {
  const longest = Math.min(CAP_SECONDS, 2 ** (Math.max(1, receiveCount) - 1));
  return Math.ceil(longest / 2 + (random() * longest) / 2);
}

const OUTAGE_FACTOR = 16;
/** 68 min, the delay after the fourth receive. */
const OUTAGE_CAP_SECONDS = OUTAGE_FACTOR ** 3;
const OUTAGE_JITTER = 1 / 8;

/**
 * Whole seconds: up to 1, 16, 256 and 4,096 for the first four receives, at most an eighth less. An outage that begins
 * with the first receive and lasts for 1 + 14 + 224 + 3,584 s, more than an hour, is over at the fifth. The first delay
 * is as short as any, because most failures pass within a second.
 */
export function outageSeconds(receiveCount: number, random: () => number): number {
  const longest = Math.min(OUTAGE_CAP_SECONDS, OUTAGE_FACTOR ** (Math.max(1, receiveCount) - 1));
  return Math.ceil(longest * (1 - OUTAGE_JITTER * random()));
}
