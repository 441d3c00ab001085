import type { Message } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { ENVELOPE_BYTES, recordBytes, toSqsRecord } from '../../../../cli/local/localMapping.ts';

const SOURCE = { queueArn: 'arn:aws:sqs:us-east-1:000000000000:requests', region: 'us-east-1' };

function received(overrides: Partial<Message> = {}): Message {
  return {
    MessageId: '059f36b4-87a3-44ab-83d2-661975830a7d',
    ReceiptHandle: 'AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a',
    Body: 'Test message.',
    Attributes: {
      ApproximateReceiveCount: '1',
      SentTimestamp: '1545082649183',
      SenderId: 'AIDAIENQZJOLO23YVJ4VO',
      ApproximateFirstReceiveTimestamp: '1545082649185',
    },
    MD5OfBody: 'e4e68fb7bd0e697a0ae8f1bb342846b3',
    ...overrides,
  };
}

describe('toSqsRecord', () => {
  it('makes the record of the Lambda documentation', () => {
    expect(toSqsRecord(received(), SOURCE)).toStrictEqual({
      messageId: '059f36b4-87a3-44ab-83d2-661975830a7d',
      receiptHandle: 'AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a',
      body: 'Test message.',
      attributes: {
        ApproximateReceiveCount: '1',
        SentTimestamp: '1545082649183',
        SenderId: 'AIDAIENQZJOLO23YVJ4VO',
        ApproximateFirstReceiveTimestamp: '1545082649185',
      },
      messageAttributes: {},
      md5OfBody: 'e4e68fb7bd0e697a0ae8f1bb342846b3',
      eventSource: 'aws:sqs',
      eventSourceARN: 'arn:aws:sqs:us-east-1:000000000000:requests',
      awsRegion: 'us-east-1',
    });
  });

  it('gives message attributes in the shape of Lambda, binary ones as base64', () => {
    const record = toSqsRecord(
      received({
        MessageAttributes: {
          tenant: { DataType: 'String', StringValue: 'a' },
          size: { DataType: 'Number.int', StringValue: '12' },
          raw: { DataType: 'Binary', BinaryValue: new Uint8Array([0, 255, 16]) },
        },
        MD5OfMessageAttributes: '00484c68b47a4de7',
      }),
      SOURCE,
    );

    expect(record.md5OfMessageAttributes).toBe('00484c68b47a4de7');
    expect(record.messageAttributes).toStrictEqual({
      tenant: { stringValue: 'a', stringListValues: [], binaryListValues: [], dataType: 'String' },
      size: { stringValue: '12', stringListValues: [], binaryListValues: [], dataType: 'Number.int' },
      raw: { binaryValue: 'AP8Q', stringListValues: [], binaryListValues: [], dataType: 'Binary' },
    });
  });

  it('says which field a server left out', () => {
    expect(() => toSqsRecord(received({ MD5OfBody: undefined }), SOURCE)).toThrow('expected MD5OfBody');
    expect(() => toSqsRecord(received({ Attributes: {} }), SOURCE)).toThrow('expected ApproximateReceiveCount');
  });
});

describe('recordBytes', () => {
  it('adds up to the bytes of the event', () => {
    const Records = ['plain', 'é→😀', '"quoted"'].map((Body) => toSqsRecord(received({ Body }), SOURCE));

    const sum = Records.reduce((bytes, record) => bytes + recordBytes(record), ENVELOPE_BYTES);

    expect(sum).toBe(Buffer.byteLength(JSON.stringify({ Records })));
  });
});
