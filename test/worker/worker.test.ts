import { describe, expect, it } from '@jest/globals';
import { modelsDirectory } from '../adapters/onnx/setup.ts';
import { lookupModel } from '../helpers/onnxModels.ts';
import { useSqsServer } from '../helpers/sqsServer.ts';
import { lookupRequest } from '../lambda/setup.ts';
import { startWorkerProcess } from './workerProcess.ts';

const server = useSqsServer();

describe('the worker', () => {
  it('answers every message once under its ID, deletes it, and ends with 0 on SIGTERM', async () => {
    const [requestQueueUrl, resultQueueUrl] = [server.queue(), server.queue()];
    const bodies = Array.from({ length: 300 }, (_, index) => JSON.stringify(lookupRequest(index % 3)));
    server.send(requestQueueUrl, [...bodies, 'not JSON']);
    const worker = startWorkerProcess({
      AWS_ENDPOINT_URL_SQS: new URL(requestQueueUrl).origin,
      BATCHSCORE_MODELS_DIR: await modelsDirectory({ 'lookup/1/model.onnx': lookupModel() }),
      BATCHSCORE_REQUEST_QUEUE_URL: requestQueueUrl,
      BATCHSCORE_RESULT_QUEUE_URL: resultQueueUrl,
      BATCHSCORE_STOP_SECONDS: '4',
    });

    const results: Record<string, unknown>[] = [];
    while (results.length < 301) {
      const messages = await server.drain(resultQueueUrl);
      results.push(...messages.map(({ Body = '' }) => JSON.parse(Body)));
    }
    worker.send('SIGTERM');

    expect(await worker.ended).toEqual({ code: 0, signal: null });
    expect(new Set(results.map(({ message_id }) => message_id)).size).toBe(301);
    expect(results.filter(({ code }) => code !== undefined)).toMatchObject([{ code: 'INVALID_JSON' }]);
    expect(await server.receive(requestQueueUrl)).toEqual([]);
    expect(server.secondsInFlight(requestQueueUrl)).toEqual({});
    expect(worker.printed()).toContain('the worker has drained');
  });
});
