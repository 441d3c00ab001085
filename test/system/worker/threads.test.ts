import { describe, expect, it } from '@jest/globals';
import { lookupModel } from '../../helpers/onnxModels.ts';
import { useSqsServer } from '../../helpers/sqsServer.ts';
import { afterAnother, deployment, until } from '../../helpers/worker.ts';

const server = useSqsServer();
const MESSAGES = 300;
const VISIBILITY_SECONDS = 6;

/** Decoding a request keeps the event loop busy. */
const BUSY = {
  'busy/1/model.onnx': lookupModel(),
  'busy/config.json': { transform: 'transform.mjs' },
  'busy/transform.mjs': `export function decode({ index }) {
    const until = performance.now() + 12;
    while (performance.now() < until);
    return [{ name: 'index', datatype: 'INT64', shape: [1], data: [index % 3] }];
  }`,
};

/** A worker that has answered some of many messages, and whose threads make the calls by now. */
async function withThreads(mostThreads: number) {
  const deployed = await deployment(server, {
    models: BUSY,
    environment: {
      BATCHSCORE_HOP_THREADS: String(mostThreads),
      BATCHSCORE_VISIBILITY_SECONDS: String(VISIBILITY_SECONDS),
      BATCHSCORE_BATCH_SIZE: '20',
    },
  });
  server.send(
    deployed.requestQueueUrl,
    Array.from({ length: MESSAGES }, (_, index) => JSON.stringify({ index })),
  );
  const worker = deployed.start();
  if (mostThreads > 0) await worker.says('one more thread makes calls of SQS');
  const answered = (): number => server.counts(deployed.resultQueueUrl).ready;
  const before = answered();
  await until(() => answered() > before);
  return { ...deployed, worker };
}

describe('a worker whose threads call SQS', () => {
  it('loses nothing by SIGTERM', async () => {
    const { worker, ...deployed } = await withThreads(2);
    worker.send('SIGTERM');

    expect(await worker.ended).toEqual({ code: 0, signal: null });
    for (const seconds of Object.values(server.secondsInFlight(deployed.requestQueueUrl))) {
      expect(seconds).toBeLessThanOrEqual(VISIBILITY_SECONDS / 3);
    }
    const answers = await afterAnother(server, deployed, MESSAGES);

    expect(answers).toHaveLength(MESSAGES);
    expect(new Set(answers.map(({ message_id }) => message_id)).size).toBe(MESSAGES);
  });

  it('loses nothing by SIGKILL', async () => {
    const { worker, ...deployed } = await withThreads(2);
    worker.send('SIGKILL');
    await worker.ended;
    const answers = await afterAnother(server, deployed, MESSAGES);

    expect(new Set(answers.map(({ message_id }) => message_id)).size).toBe(MESSAGES);
  });

  it('has none where it may have none', async () => {
    const { worker, results } = await withThreads(0);

    const answers = await results(MESSAGES);
    expect(answers).toHaveLength(MESSAGES);
    expect(answers.filter(({ code }) => code !== undefined)).toEqual([]);
    expect(worker.printed()).not.toContain('one more thread');
  });
});
