import { describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../helpers/sqsServer.ts';
import { deployment, lookup } from './setup.ts';

const server = useSqsServer();

describe('the log of the worker', () => {
  it('has at the level debug a line for each call to AWS, those that receive as well', async () => {
    const { requestQueueUrl, start, results } = await deployment(server, {
      environment: { BATCHSCORE_LOG_LEVEL: 'debug' },
    });
    server.send(requestQueueUrl, [lookup(0)]);
    const worker = start();
    await results(1);

    const call = { message: 'AWS call', aws: 'SQS', entries: 1, attempt: 1, outcome: 'done' };
    expect(await worker.says('"SendMessageBatch"')).toMatchObject(call);
    expect(await worker.says('"ReceiveMessage"')).toMatchObject(call);
    expect(await worker.says('"DeleteMessageBatch"')).toMatchObject(call);
  });
});
