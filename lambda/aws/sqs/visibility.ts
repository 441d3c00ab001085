import { ChangeMessageVisibilityBatchCommand } from '@aws-sdk/client-sqs';
import { ofAttempt } from '../observedCalls.ts';
import type { RetryOptions } from '../untilDone.ts';
import type { ReceivedMessage } from './acknowledge.ts';
import type { SqsCaller } from './caller.ts';
import { type ActOnMessages, createMessageAction } from './messageAction.ts';

export interface VisibilityOptions<M> {
  readonly sqs: SqsCaller;
  readonly queueUrl: string;
  /** What the change is for, in problems: `retry delay`. */
  readonly name: string;
  /** Whole seconds from now until a message is visible, 0 to 43,200. */
  readonly secondsOf: (message: M) => number;
  /** Told when SQS would not change visibilities; the messages then come back when the former timeout ends. */
  readonly onProblem: (error: Error) => void;
  /** @default three attempts */
  readonly retry?: RetryOptions | undefined;
}

/**
 * Changes when received messages become visible to others, ten in a batch request. Never throws.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibilityBatch.html
 */
export function createVisibilityChange<M extends ReceivedMessage>(options: VisibilityOptions<M>): ActOnMessages<M> {
  const { sqs, queueUrl: QueueUrl, secondsOf } = options;
  return createMessageAction<M>({
    ...options,
    otherwise: 'messages whose visibility was not changed, and that come back when their timeout ends',
    send(messages, signal, attempt) {
      const Entries = messages.map((message, id) => ({
        Id: String(id),
        ReceiptHandle: message.receiptHandle,
        VisibilityTimeout: secondsOf(message),
      }));
      const command = ofAttempt(attempt, new ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries }));
      return sqs.send(command, { abortSignal: signal });
    },
  });
}
