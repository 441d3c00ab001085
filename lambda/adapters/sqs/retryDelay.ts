import type { MessageRecord } from '../../core/contract/record.ts';
import type { RetryOptions } from '../untilDone.ts';
import type { SqsCaller } from './caller.ts';
import type { ActOnMessages } from './messageAction.ts';
import { createVisibilityChange } from './visibility.ts';

/** Sets when records that must be retried become visible again. @param signal ends requests that get no answer */
export type DelayRetries = ActOnMessages<MessageRecord>;

export interface RetryDelayOptions {
  readonly sqs: SqsCaller;
  readonly queueUrl: string;
  /** Told when SQS would not change visibilities; the records then come back when their timeout ends. */
  readonly onProblem: (error: Error) => void;
  /** @default Math.random */
  readonly random?: () => number;
  /** @default three attempts */
  readonly retry?: RetryOptions;
}

/** Lets records come back after a backoff that grows with their receive count, not after the queue's visibility timeout. */
export function createRetryDelay({ random = Math.random, ...options }: RetryDelayOptions): DelayRetries {
  return createVisibilityChange<MessageRecord>({
    ...options,
    name: 'retry delay',
    secondsOf: ({ attributes }) => backoffSeconds(Number(attributes.ApproximateReceiveCount), random),
  });
}

const CAP_SECONDS = 300;

/** Whole seconds: between half and all of 1, 2, 4, … for the first, second, third receive, at most five minutes. */
export function backoffSeconds(receiveCount: number, random: () => number): number {
  const longest = Math.min(CAP_SECONDS, 2 ** (Math.max(1, receiveCount) - 1));
  return Math.ceil(longest / 2 + (random() * longest) / 2);
}
