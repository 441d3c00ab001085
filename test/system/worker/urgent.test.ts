import { describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { deployment, LOOKUP, lookup, SLOW, slow } from '../../helpers/hosts.ts';

const server = useSqsServer();

describe('a worker with an urgent queue', () => {
  it('answers urgent requests while all its batches of others are busy, and then those', async () => {
    const urgentQueueUrl = server.queue();
    const { requestQueueUrl, start, results } = await deployment(server, {
      models: { ...LOOKUP, ...SLOW },
      environment: {
        BATCHSCORE_URGENT_QUEUE_URL: urgentQueueUrl,
        BATCHSCORE_BATCH_SIZE: '1',
        BATCHSCORE_PIPELINE_DEPTH: '1',
        BATCHSCORE_DEFAULT_MODEL: 'lookup',
        BATCHSCORE_WINDOW_SECONDS: '1',
      },
    });
    server.send(requestQueueUrl, [slow(4_000), slow(4_000)]);
    const worker = start();
    await worker.says('the worker is ready');
    server.send(urgentQueueUrl, [lookup(0), lookup(1), lookup(2)]);

    const answers = await results(5);
    // The requests of `lookup` have an id, and those of `slow` have none.
    expect(answers.map(({ id }) => id !== undefined)).toEqual([true, true, true, false, false]);
    worker.send('SIGTERM');
    expect(await worker.ended).toEqual({ code: 0, signal: null });
    for (const queue of [requestQueueUrl, urgentQueueUrl])
      expect(server.counts(queue)).toEqual({ inFlight: 0, ready: 0 });
  });

  it('hands back what it holds of both queues when it has to end', async () => {
    const urgentQueueUrl = server.queue();
    const { requestQueueUrl, start } = await deployment(server, {
      models: { ...LOOKUP, ...SLOW },
      environment: { BATCHSCORE_URGENT_QUEUE_URL: urgentQueueUrl, BATCHSCORE_DEFAULT_MODEL: 'lookup' },
    });
    for (const queue of [requestQueueUrl, urgentQueueUrl]) server.send(queue, [slow(60_000)]);
    const worker = start();
    await worker.says('the worker is ready');
    while (server.counts(requestQueueUrl).inFlight + server.counts(urgentQueueUrl).inFlight < 2) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    worker.send('SIGTERM');

    await worker.ended;
    for (const queue of [requestQueueUrl, urgentQueueUrl])
      expect(server.counts(queue)).toEqual({ inFlight: 0, ready: 1 });
  });
});
