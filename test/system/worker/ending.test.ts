import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { freePort, REPOSITORY } from '../../helpers/command.ts';
import { deployment, SLOW, slow, until } from '../../helpers/hosts.ts';

const server = useSqsServer();

/** One batch of two at a time, so that all else waits. */
const TWO_AT_A_TIME = { BATCHSCORE_BATCH_SIZE: '2', BATCHSCORE_PIPELINE_DEPTH: '1' };

/** Two signals within 200 ms come from one press of Ctrl-C. */
const SAME_PRESS_MS = 250;

describe('a worker that is told to end', () => {
  it('ends when npm run, which has started it, is told to', async () => {
    const endpoint = `http://127.0.0.1:${await freePort()}`;
    const npm = spawn('npm', ['run', '-s', 'worker'], {
      cwd: REPOSITORY,
      env: {
        ...process.env,
        ...{ AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' },
        AWS_ENDPOINT_URL: endpoint,
        BATCHSCORE_REQUEST_QUEUE_URL: `${endpoint}/000000000000/requests`,
        BATCHSCORE_RESULT_QUEUE_URL: `${endpoint}/000000000000/results`,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
      detached: true,
    });
    try {
      await once(npm.stdout, 'data');
      npm.kill('SIGTERM');
      // Its stdout closes when the last process that inherited it ends.
      await once(npm, 'close');
    } finally {
      if (npm.stdout.readable) process.kill(-Number(npm.pid), 'SIGKILL');
    }
  });

  it('scores what it holds while there is time, what waits included, and takes no more', async () => {
    const { requestQueueUrl, start, results } = await deployment(server, {
      models: SLOW,
      environment: { ...TWO_AT_A_TIME, BATCHSCORE_STOP_SECONDS: '8' },
    });
    const worker = start();
    await worker.says('the worker is ready');
    server.send(requestQueueUrl, Array(12).fill(slow(500)));
    await until(() => server.counts(requestQueueUrl).inFlight >= 4);
    worker.send('SIGTERM');

    expect(await worker.ended).toEqual({ code: 0, signal: null });
    const { ready, inFlight } = server.counts(requestQueueUrl);
    expect(inFlight).toBe(0);
    expect(ready).toBeGreaterThan(0);
    expect(await results(12 - ready)).toHaveLength(12 - ready);
    expect(await worker.says('the worker has drained')).toMatchObject({ finished: 12 - ready, handedBack: 0 });
  });

  it('hands back at once what waits when the time is over', async () => {
    const { requestQueueUrl, start } = await deployment(server, {
      models: SLOW,
      environment: { ...TWO_AT_A_TIME, BATCHSCORE_STOP_SECONDS: '3' },
    });
    const worker = start();
    await worker.says('the worker is ready');
    server.send(requestQueueUrl, Array(12).fill(slow(4_000)));
    await until(() => server.counts(requestQueueUrl).inFlight >= 4);
    worker.send('SIGTERM');

    expect(await worker.ended).toEqual({ code: 0, signal: null });
    expect(server.counts(requestQueueUrl)).toMatchObject({ ready: 12, inFlight: 0 });
  });

  it('ends at once by a second signal, not with 0, and says what is left', async () => {
    const { requestQueueUrl, start } = await deployment(server, {
      models: SLOW,
      environment: { BATCHSCORE_STOP_SECONDS: '60' },
    });
    const worker = start();
    await worker.says('the worker is ready');
    server.send(requestQueueUrl, [slow(4_900)]);
    await until(() => server.counts(requestQueueUrl).inFlight === 1);
    worker.send('SIGTERM');
    await worker.says('told to end');
    const toldAt = Date.now();
    await until(() => Date.now() > toldAt + SAME_PRESS_MS);
    worker.send('SIGTERM');

    expect(await worker.ended).toEqual({ code: 1, signal: null });
    expect(await worker.says('before it has drained')).toMatchObject({ left: 1, because: 'a second signal, SIGTERM' });
  });

  it('ends with 0 while its models are being loaded', async () => {
    const port = await freePort();
    const { start } = await deployment(server, {
      models: { ...SLOW, 'slow/transform.mjs': 'await new Promise((resolve) => setTimeout(resolve, 600_000));' },
      environment: { BATCHSCORE_HEALTH_PORT: String(port) },
    });
    const worker = start();
    await until(async () => (await statusOf(port, 'live')) === 200);
    expect(await statusOf(port, 'ready')).toBe(503);
    worker.send('SIGTERM');

    expect(await worker.ended).toEqual({ code: 0, signal: null });
  });
});

describe('the health port', () => {
  it('says that the worker is ready, until it is told to end', async () => {
    const port = await freePort();
    const { requestQueueUrl, start } = await deployment(server, {
      models: SLOW,
      environment: { BATCHSCORE_HEALTH_PORT: String(port) },
    });
    const worker = start();
    await worker.says('the worker is ready');
    expect(await Promise.all(['live', 'ready', 'else'].map((path) => statusOf(port, path)))).toEqual([200, 200, 404]);
    server.send(requestQueueUrl, [slow(4_000)]);
    await until(() => server.counts(requestQueueUrl).inFlight === 1);
    worker.send('SIGTERM');
    await until(async () => (await statusOf(port, 'ready')) === 503);
    expect(await statusOf(port, 'live')).toBe(200);
    await worker.ended;

    expect(await statusOf(port, 'live')).toBeUndefined();
  });

  it('that is taken keeps the worker from starting, with a sentence', async () => {
    const taken = Number(new URL(server.queue()).port);
    const { start } = await deployment(server, { environment: { BATCHSCORE_HEALTH_PORT: String(taken) } });
    const worker = start();

    expect(await worker.ended).toEqual({ code: 1, signal: null });
    expect(worker.printed()).toContain(`health port: expected ${taken} on 127.0.0.1 to be free`);
  });
});

/** Undefined where nobody answers. */
async function statusOf(port: number, path: string): Promise<number | undefined> {
  return await fetch(`http://127.0.0.1:${port}/${path}`).then(
    ({ status }) => status,
    () => undefined,
  );
}
