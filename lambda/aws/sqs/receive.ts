import { type Message, ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import { POINTER_ATTRIBUTES } from '../../core/pointer.ts';
import type { MessageRecord } from '../../core/record.ts';
import type { SqsCaller } from './caller.ts';
import { MAX_BATCH_ENTRIES } from './limits.ts';

export interface ReceiverOptions {
  /** Its patience must exceed the wait. */
  readonly sqs: SqsCaller;
  readonly queueUrl: string;
  /** Longest wait of one poll for a first message, 0 to 20. */
  readonly waitSeconds: number;
  /** How long what is received stays hidden from others. */
  readonly visibilitySeconds: number;
  /** Most messages of one poll. @default 10 */
  readonly most?: number | undefined;
}

/**
 * Makes long polls, each for as many messages as SQS gives in one. The records have what scoring reads, no more.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html
 */
export function createReceiver(options: ReceiverOptions): (signal: AbortSignal) => Promise<MessageRecord[]> {
  const { sqs, queueUrl, waitSeconds, visibilitySeconds, most = MAX_BATCH_ENTRIES } = options;
  const input = {
    QueueUrl: queueUrl,
    MaxNumberOfMessages: Math.min(most, MAX_BATCH_ENTRIES),
    WaitTimeSeconds: waitSeconds,
    VisibilityTimeout: visibilitySeconds,
    MessageSystemAttributeNames: [
      'ApproximateReceiveCount' as const,
      'SentTimestamp' as const,
      'MessageGroupId' as const,
    ],
    MessageAttributeNames: [...POINTER_ATTRIBUTES],
  };
  const eventSourceARN = arnOf(queueUrl);
  return async (signal) => {
    const { Messages = [] } = await sqs.send(new ReceiveMessageCommand(input), { abortSignal: signal });
    return Messages.map((message) => toRecord(message, eventSourceARN));
  };
}

/** Of the ARN only the queue's name is read, which says whether it is a FIFO queue. */
function arnOf(queueUrl: string): string {
  return `arn:aws:sqs:::${queueUrl.slice(queueUrl.lastIndexOf('/') + 1)}`;
}

function toRecord(message: Message, eventSourceARN: string): MessageRecord {
  const { Attributes = {}, MessageAttributes = {} } = message;
  const { ApproximateReceiveCount = '1', SentTimestamp = '0', MessageGroupId } = Attributes;
  const messageAttributes: Record<string, { readonly stringValue?: string | undefined }> = {};
  for (const name in MessageAttributes) messageAttributes[name] = { stringValue: MessageAttributes[name]?.StringValue };
  return {
    messageId: sent(message.MessageId, 'MessageId'),
    receiptHandle: sent(message.ReceiptHandle, 'ReceiptHandle'),
    body: sent(message.Body, 'Body'),
    attributes: { ApproximateReceiveCount, SentTimestamp, MessageGroupId },
    messageAttributes,
    eventSourceARN,
  };
}

function sent(value: string | undefined, name: string): string {
  if (value !== undefined) return value;
  throw new Error(`received message: expected ${name}, which SQS always sends, got none; check the SQS endpoint`);
}
