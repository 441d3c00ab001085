import { describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { deployment, lookup } from '../../helpers/hosts.ts';

const server = useSqsServer();

function distinct(results: readonly { readonly message_id: string }[]): number {
  return new Set(results.map(({ message_id }) => message_id)).size;
}

describe('the worker', () => {
  it('answers packed messages in packed results', async () => {
    const { requestQueueUrl, resultQueueUrl, start, results } = await deployment(server, {
      environment: { BATCHSCORE_RESULTS_PER_MESSAGE: '10000', BATCHSCORE_WINDOW_SECONDS: '0.5' },
    });
    const packed = Array.from({ length: 20 }, () => `[${Array.from({ length: 30 }, (_, i) => lookup(i)).join(',')}]`);
    server.send(requestQueueUrl, packed);
    start();

    const answers = await results(600);

    expect(answers).toHaveLength(600);
    expect(distinct(answers)).toBe(20);
    expect(answers.slice(0, 30).map(({ id }) => id)).toEqual(Array.from({ length: 30 }, (_, index) => String(index)));
    expect(await server.receive(resultQueueUrl)).toEqual([]);
  });

  it('does not wait for others without a window, nor for its end once a batch is full', async () => {
    for (const [window, count] of [
      ['0', 1],
      ['300', 2],
    ] as const) {
      const { requestQueueUrl, start, results } = await deployment(server, {
        environment: { BATCHSCORE_WINDOW_SECONDS: window, BATCHSCORE_BATCH_SIZE: '2' },
      });
      const worker = start();
      await worker.says('the worker is ready');
      server.send(
        requestQueueUrl,
        Array.from({ length: count }, (_, index) => lookup(index)),
      );
      expect(await results(count)).toHaveLength(count);
    }
  });

  it('polls every shard', async () => {
    const { requestQueueUrl, start, results } = await deployment(server);
    const other = server.queue();
    for (const queueUrl of [requestQueueUrl, other]) server.send(queueUrl, [lookup(0), lookup(1)]);
    const worker = start({ BATCHSCORE_REQUEST_QUEUE_URL: `${requestQueueUrl},${other}` });

    expect(distinct(await results(4))).toBe(4);
    worker.send('SIGTERM');
    await worker.ended;

    for (const queueUrl of [requestQueueUrl, other]) expect(server.counts(queueUrl)).toEqual({ inFlight: 0, ready: 0 });
  });
});
