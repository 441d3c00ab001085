import { createHash, randomUUID } from 'node:crypto';
import type { Message } from '@aws-sdk/client-sqs';
import type { Context, SQSEvent, SQSRecord } from 'aws-lambda';
import { createLambdaContext } from '../../cli/local/lambdaContext.ts';

const QUEUE_ARN = 'arn:aws:sqs:eu-central-1:123456789012:requests';

/** A record as Lambda hands it over, with every attribute. A `body` that is not a string is sent as JSON. */
export function sqsRecord(body: unknown, overrides: Partial<SQSRecord> = {}): SQSRecord {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return {
    messageId: randomUUID(),
    receiptHandle: 'AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a',
    body: text,
    attributes: {
      ApproximateReceiveCount: '1',
      SentTimestamp: '1545082649183',
      SenderId: 'AIDAIENQZJOLO23YVJ4VO',
      ApproximateFirstReceiveTimestamp: '1545082649185',
    },
    messageAttributes: {},
    md5OfBody: createHash('md5').update(text).digest('hex'),
    eventSource: 'aws:sqs',
    eventSourceARN: QUEUE_ARN,
    awsRegion: 'eu-central-1',
    ...overrides,
  };
}

/** The record of a message that was really received from a queue. */
export function recordOfMessage(
  { MessageId = '', ReceiptHandle = '', Body = '', Attributes }: Message,
  queueUrl: string,
): SQSRecord {
  const eventSourceARN = `arn:aws:sqs:us-east-1:000000000000:${queueUrl.slice(queueUrl.lastIndexOf('/') + 1)}`;
  const record = sqsRecord(Body, { messageId: MessageId, receiptHandle: ReceiptHandle, eventSourceARN });
  const { ApproximateReceiveCount = '1' } = Attributes ?? {};
  return { ...record, attributes: { ...record.attributes, ApproximateReceiveCount } };
}

/** A record of a FIFO queue, the `sequence`th of its group. */
export function fifoSqsRecord(group: string, sequence: number, body: unknown): SQSRecord {
  const record = sqsRecord(body, { eventSourceARN: `${QUEUE_ARN}.fifo` });
  return {
    ...record,
    attributes: {
      ...record.attributes,
      MessageGroupId: group,
      SequenceNumber: String(sequence).padStart(20, '0'),
      MessageDeduplicationId: record.messageId,
    },
  };
}

export function sqsEvent(Records: SQSRecord[]): SQSEvent {
  return { Records };
}

/** The context of an invocation that has `remainingMs` left. */
export function lambdaContext(remainingMs = 30_000): Context {
  return createLambdaContext(Date.now() + remainingMs);
}
