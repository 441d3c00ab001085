import { BatchWriteItemCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  SendMessageBatchCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { createDynamoDbClient, HOST_PATIENCE } from '../../../lambda/aws/awsClients.ts';
import { destroyed, local, localSqs, QUEUE, seen } from './recordingServer.ts';

describe('the body of a request', () => {
  const texts = ['', 'plain', '"\\/', '\u0000\b\t\n\f\r\u001f\u007f', 'ü€', '\u{1f600}', '\ud800x\udc00', '\u2028'];

  it.each(texts)('is what the SDK would send: messages of %j', async (text) => {
    const entry = {
      Id: '0',
      MessageBody: text,
      MessageAttributes: { [`a${text}`]: { DataType: 'String', StringValue: text } },
      MessageGroupId: undefined,
      DelaySeconds: 3,
    };
    const receipt = { Id: '0', ReceiptHandle: text };
    const plain = destroyed(new SQSClient({ ...local(), md5: false, useQueueUrlAsEndpoint: false }));
    for (const sqs of [plain, localSqs()]) {
      await sqs.send(new SendMessageBatchCommand({ QueueUrl: QUEUE, Entries: [entry, { ...entry, Id: '1' }] }));
      await sqs.send(new DeleteMessageBatchCommand({ QueueUrl: QUEUE, Entries: [receipt] }));
      await sqs.send(
        new ChangeMessageVisibilityBatchCommand({ QueueUrl: QUEUE, Entries: [{ ...receipt, VisibilityTimeout: 7 }] }),
      );
    }

    expect(contents(3)).toEqual(contents(0, 3));
  });

  it('is what the SDK would send: an attribute of bytes', async () => {
    const MessageAttributes = { picture: { DataType: 'Binary', BinaryValue: Uint8Array.of(0, 127, 255) } };
    const Entries = [{ Id: '0', MessageBody: 'x', MessageAttributes }];
    await localSqs().send(new SendMessageBatchCommand({ QueueUrl: QUEUE, Entries }));

    expect(contents(0)).toMatchObject([{ Entries: [{ MessageAttributes: { picture: { BinaryValue: 'AH//' } } }] }]);
  });

  it.each(texts)('is what the SDK would send: items of %j', async (text) => {
    const command = new BatchWriteItemCommand({
      RequestItems: { results: [{ PutRequest: { Item: { messageId: { S: text }, expiresAt: { N: '1' } } } }] },
    });
    const plain = destroyed(new DynamoDBClient(local()));
    for (const dynamodb of [plain, destroyed(createDynamoDbClient(HOST_PATIENCE, local()))])
      await dynamodb.send(command);

    expect(contents(1)).toEqual(contents(0, 1));
  });
});

function contents(from: number, to?: number): unknown[] {
  return seen.slice(from, to).map(({ body }) => JSON.parse(String(body)));
}
