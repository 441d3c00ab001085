import { CreateQueueCommand } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { numbered, recordsOf, sendAll, stack } from './setup.ts';

describe('events', () => {
  it('hands over the event that Lambda would, with every attribute', async () => {
    const { send, map } = await stack();
    await send([
      {
        MessageBody: '{"instances":[[1]]}',
        MessageAttributes: {
          tenant: { DataType: 'String', StringValue: 'é' },
          size: { DataType: 'Number', StringValue: '12' },
          raw: { DataType: 'Binary', BinaryValue: new Uint8Array([0, 255, 16]) },
        },
      },
      'plain',
    ]);

    const { events } = map();
    const [event] = await events.reaching(1);

    const common = {
      messageId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      receiptHandle: expect.any(String),
      attributes: {
        ApproximateReceiveCount: '1',
        SentTimestamp: expect.stringMatching(/^\d{13}$/),
        SenderId: expect.any(String),
        ApproximateFirstReceiveTimestamp: expect.stringMatching(/^\d{13}$/),
      },
      md5OfBody: expect.stringMatching(/^[0-9a-f]{32}$/),
      eventSource: 'aws:sqs',
      eventSourceARN: 'arn:aws:sqs:us-east-1:000000000000:batchscore-requests',
      awsRegion: 'us-east-1',
    };
    expect(JSON.parse(JSON.stringify(event))).toStrictEqual(event);
    expect(event).toEqual({
      Records: [
        {
          ...common,
          body: '{"instances":[[1]]}',
          messageAttributes: {
            tenant: { stringValue: 'é', stringListValues: [], binaryListValues: [], dataType: 'String' },
            size: { stringValue: '12', stringListValues: [], binaryListValues: [], dataType: 'Number' },
            raw: { binaryValue: 'AP8Q', stringListValues: [], binaryListValues: [], dataType: 'Binary' },
          },
          md5OfMessageAttributes: expect.stringMatching(/^[0-9a-f]{32}$/),
        },
        { ...common, body: 'plain', messageAttributes: {} },
      ],
    });
  });

  it('keeps the order of a FIFO group, and gives its attributes', async () => {
    const { queues, sqs, map } = await stack();
    const QueueName = 'ordered.fifo';
    await sqs.send(new CreateQueueCommand({ QueueName, Attributes: { FifoQueue: 'true' } }));
    const queueUrl = queues.requestQueueUrl.replace('batchscore-requests', QueueName);
    const entries = numbered(5).map((MessageBody, index) => ({
      MessageBody,
      MessageGroupId: 'group',
      MessageDeduplicationId: `d${index}`,
    }));
    await sendAll(sqs, queueUrl, entries);

    const { events } = map({ queueUrl, queueArn: `arn:aws:sqs:us-east-1:000000000000:${QueueName}` });
    const records = recordsOf(await events.until((seen) => recordsOf(seen).length === 5));

    expect(records.map(({ body }) => body)).toEqual(numbered(5));
    expect(records[0]?.attributes).toMatchObject({
      MessageGroupId: 'group',
      MessageDeduplicationId: 'd0',
      SequenceNumber: expect.stringMatching(/^\d{20}$/),
    });
  });
});
