import { type BatchResultErrorEntry, ChangeMessageVisibilityBatchCommand, type SQSClient } from '@aws-sdk/client-sqs';
import type { MessageRecord } from '../../core/contract/record.ts';
import { MAX_BATCH_ENTRIES } from './limits.ts';

/** Sets when records that must be retried become visible again. @param signal ends requests that get no answer */
export type DelayRetries = (records: readonly MessageRecord[], signal: AbortSignal) => Promise<void>;

export interface RetryDelayOptions {
  readonly sqs: SQSClient;
  readonly queueUrl: string;
  /** Told when SQS would not change a visibility; the record then comes back when its queue's timeout ends. */
  readonly onProblem: (error: unknown) => void;
  /** @default Math.random */
  readonly random?: () => number;
}

/** Lets records come back after a backoff that grows with their receive count, not after the queue's visibility timeout. */
export function createRetryDelay({ sqs, queueUrl, onProblem, random = Math.random }: RetryDelayOptions): DelayRetries {
  return async (records, signal) => {
    const changes: Promise<void>[] = [];
    for (let from = 0; from < records.length; from += MAX_BATCH_ENTRIES) {
      changes.push(changeVisibility(records.slice(from, from + MAX_BATCH_ENTRIES), signal));
    }
    await Promise.all(changes);
  };

  async function changeVisibility(records: readonly MessageRecord[], signal: AbortSignal): Promise<void> {
    const Entries = records.map(({ receiptHandle, attributes }, id) => ({
      Id: String(id),
      ReceiptHandle: receiptHandle,
      VisibilityTimeout: backoffSeconds(Number(attributes.ApproximateReceiveCount), random),
    }));
    try {
      const command = new ChangeMessageVisibilityBatchCommand({ QueueUrl: queueUrl, Entries });
      const { Failed = [] } = await sqs.send(command, { abortSignal: signal });
      for (const refusal of Failed) onProblem(notChanged(refusal));
    } catch (error) {
      onProblem(error);
    }
  }
}

function notChanged({ Code, Message = '' }: BatchResultErrorEntry): Error {
  return new Error(
    `retry delay: expected SQS to change a message's visibility, got ${Code} ${Message}; ` +
      "the message comes back when its queue's timeout ends",
  );
}

const CAP_SECONDS = 300;

/** Whole seconds: between half and all of 1, 2, 4, … for the first, second, third receive, at most five minutes. */
export function backoffSeconds(receiveCount: number, random: () => number): number {
  const longest = Math.min(CAP_SECONDS, 2 ** (Math.max(1, receiveCount) - 1));
  return Math.ceil(longest / 2 + (random() * longest) / 2);
}
