import { describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../helpers/sqsServer.ts';
import { deployment, LOOKUP, lookup, SLOW, slow } from './setup.ts';

const server = useSqsServer();

function distinct(results: readonly { readonly message_id: string }[]): number {
  return new Set(results.map(({ message_id }) => message_id)).size;
}

describe('the worker', () => {
  it('answers every message once under its ID, deletes it, and ends with 0 on SIGTERM', async () => {
    const { requestQueueUrl, start, results } = await deployment(server);
    server.send(requestQueueUrl, [...Array.from({ length: 300 }, (_, index) => lookup(index)), 'not JSON']);
    const worker = start();

    const answers = await results(301);
    worker.send('SIGTERM');

    expect(await worker.ended).toEqual({ code: 0, signal: null });
    expect(answers).toHaveLength(301);
    expect(distinct(answers)).toBe(301);
    expect(answers.filter(({ code }) => code !== undefined)).toMatchObject([{ code: 'INVALID_JSON' }]);
    expect(await server.receive(requestQueueUrl)).toEqual([]);
    expect(server.secondsInFlight(requestQueueUrl)).toEqual({});
    expect(await worker.says('the worker has drained')).toMatchObject({ level: 'INFO', cause: 'SIGTERM' });
  });

  it('answers packed messages in packed results', async () => {
    const { requestQueueUrl, resultQueueUrl, start, results } = await deployment(server, {
      environment: { BATCHSCORE_RESULTS_PER_MESSAGE: 'fill', BATCHSCORE_WINDOW_SECONDS: '0.5' },
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

  it('keeps a lone message for the window, and without one not at all', async () => {
    const windowMs = 3_000;
    const waited: number[] = [];
    for (const seconds of [0, windowMs / 1000]) {
      const { requestQueueUrl, start, results } = await deployment(server, {
        environment: { BATCHSCORE_WINDOW_SECONDS: String(seconds) },
      });
      const worker = start();
      await worker.says('the worker is ready');
      const sentAt = Date.now();
      server.send(requestQueueUrl, [lookup(0)]);
      const [answer] = await results(1);
      waited.push((answer?.sentAt ?? 0) - sentAt);
    }

    expect(waited[0]).toBeLessThan(windowMs);
    expect(waited[1]).toBeGreaterThanOrEqual(windowMs);
    expect(waited[1]).toBeLessThan(2 * windowMs);
  });

  it('does not let a slow model hold up others', async () => {
    const { requestQueueUrl, start, results } = await deployment(server, {
      models: { ...SLOW, ...LOOKUP },
      environment: { BATCHSCORE_PIPELINE_DEPTH: '1' },
    });
    const worker = start();
    await worker.says('the worker is ready');
    server.send(requestQueueUrl, [slow(4_000)]);
    server.send(
      requestQueueUrl,
      Array.from({ length: 40 }, (_, index) => lookup(index)),
    );

    const answers = await results(41);

    expect(answers.at(-1)).toMatchObject({ model_name: 'slow' });
    expect(answers.at(-1)?.sentAt).toBeGreaterThan((answers.at(-2)?.sentAt ?? 0) + 1_000);
  });

  it('answers each message group of a FIFO queue in order', async () => {
    const { requestQueueUrl, start, results } = await deployment(server, { fifo: true });
    const bodies = Array.from({ length: 30 }, (_, index) => lookup(index));
    server.send(requestQueueUrl, bodies, (index) => `group ${index % 3}`);
    start();

    const ids = (await results(30)).map(({ id }) => Number(id));

    for (const group of [0, 1, 2]) {
      expect(ids.filter((id) => id % 3 === group)).toEqual(Array.from({ length: 10 }, (_, index) => 3 * index + group));
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

    for (const queueUrl of [requestQueueUrl, other]) expect(server.secondsInFlight(queueUrl)).toEqual({});
  });
});
