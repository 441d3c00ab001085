import { DeleteMessageBatchCommand } from '@aws-sdk/client-sqs';
import type { MessageRecord } from '../../core/record.ts';
import { ofAttempt } from '../observedCalls.ts';
import type { RetryOptions } from '../untilDone.ts';
import type { SqsCaller } from './caller.ts';
import { type ActOnMessages, createMessageAction } from './messageAction.ts';

/** What it takes to delete a message. */
export type ReceivedMessage = Pick<MessageRecord, 'receiptHandle'>;

/** Deletes messages that are answered. @param signal ends requests that get no answer */
export type Acknowledge = ActOnMessages<ReceivedMessage>;

export interface AcknowledgerOptions {
  readonly sqs: SqsCaller;
  readonly queueUrl: string;
  /** Told when SQS would not delete messages; they come back when their queue's timeout ends, and are answered again. */
  readonly onProblem: (error: Error) => void;
  /** Most batch requests in flight. @default 16 */
  readonly concurrency?: number;
  /** @default three attempts */
  readonly retry?: RetryOptions | undefined;
}

/** Deletes messages from a queue, ten in a batch request, several of these at once. Never throws. */
export function createAcknowledger<M extends ReceivedMessage>({
  sqs,
  queueUrl: QueueUrl,
  ...options
}: AcknowledgerOptions): ActOnMessages<M> {
  return createMessageAction<M>({
    ...options,
    name: 'acknowledgement',
    otherwise: "messages that were not deleted, and come back when their queue's timeout ends",
    send(messages, signal, attempt) {
      const Entries = messages.map(({ receiptHandle }, id) => ({ Id: String(id), ReceiptHandle: receiptHandle }));
      const command = ofAttempt(attempt, new DeleteMessageBatchCommand({ QueueUrl, Entries }));
      return sqs.send(command, { abortSignal: signal });
    },
  });
}
