import type { Message, MessageAttributeValue } from '@aws-sdk/client-sqs';
import type { SQSMessageAttribute, SQSMessageAttributes, SQSRecord, SQSRecordAttributes } from 'aws-lambda';

/** The queue that a record came from, as its record names it. */
export interface RecordSource {
  queueArn: string;
  region: string;
}

/** Bytes of an event around its records: `{"Records":[]}`, less the comma that its last record lacks. */
export const ENVELOPE_BYTES = 13;

/**
 * Makes the record that Lambda is handed for a received message: every attribute, nothing undefined, equal to
 * its own JSON round trip.
 *
 * @throws when the server left out what SQS always sends.
 * @see https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
 */
export function toSqsRecord(message: Message, source: RecordSource): SQSRecord {
  return {
    messageId: sent(message.MessageId, 'MessageId'),
    receiptHandle: sent(message.ReceiptHandle, 'ReceiptHandle'),
    body: sent(message.Body, 'Body'),
    attributes: systemAttributes(message),
    messageAttributes: messageAttributes(message.MessageAttributes ?? {}),
    md5OfBody: sent(message.MD5OfBody, 'MD5OfBody'),
    ...(message.MD5OfMessageAttributes === undefined ? {} : { md5OfMessageAttributes: message.MD5OfMessageAttributes }),
    eventSource: 'aws:sqs',
    eventSourceARN: source.queueArn,
    awsRegion: source.region,
  };
}

/** Bytes that a record adds to an event's JSON, with its comma. */
export function recordBytes(record: SQSRecord): number {
  return Buffer.byteLength(JSON.stringify(record)) + 1;
}

function systemAttributes({ Attributes = {} }: Message): SQSRecordAttributes {
  return {
    ...Attributes,
    ApproximateReceiveCount: sent(Attributes.ApproximateReceiveCount, 'ApproximateReceiveCount'),
    SentTimestamp: sent(Attributes.SentTimestamp, 'SentTimestamp'),
    SenderId: sent(Attributes.SenderId, 'SenderId'),
    ApproximateFirstReceiveTimestamp: sent(
      Attributes.ApproximateFirstReceiveTimestamp,
      'ApproximateFirstReceiveTimestamp',
    ),
  };
}

function messageAttributes(attributes: Record<string, MessageAttributeValue>): SQSMessageAttributes {
  return Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name, messageAttribute(value)]));
}

function messageAttribute(value: MessageAttributeValue): SQSMessageAttribute {
  return {
    ...(value.StringValue === undefined ? {} : { stringValue: value.StringValue }),
    ...(value.BinaryValue === undefined ? {} : { binaryValue: Buffer.from(value.BinaryValue).toString('base64') }),
    stringListValues: [],
    binaryListValues: [],
    dataType: sent(value.DataType, 'DataType'),
  };
}

function sent(value: string | undefined, name: string): string {
  if (value === undefined) {
    throw new Error(`received message: expected ${name}, which SQS always sends, got none; check the SQS endpoint`);
  }
  return value;
}
