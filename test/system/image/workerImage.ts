import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { freePort } from '../../helpers/command.ts';
import { secondsOf, secondsSince } from './command.ts';
import { common } from './common.ts';
import { type RunningContainer, startContainer } from './container.ts';
import { configOf } from './images.ts';
import { imageMessages } from './messages.ts';
import { type ImageQueues, startImageQueues } from './queues.ts';

const HEALTH_CHECK = ['node', 'healthCheck.js'];

/** Polls that are open when it is told to end are waited for; these are short. */
const STOP_SECONDS = 4;

const ONE_MINUTE = { timeout: 60_000 };

describe('the worker image', () => {
  it('starts Node itself, in its own folder, as a user other than root', async () => {
    const { Entrypoint, Cmd, WorkingDir, User, Volumes } = await configOf((await common()).worker);

    assert.deepEqual([...Entrypoint, ...Cmd], ['node', 'worker.js']);
    assert.deepEqual([WorkingDir, User, Volumes], ['/app', '65534', { '/tmp': {} }]);
  });
});

describe('the worker in its image, which writes to /tmp alone', () => {
  let queues: ImageQueues;
  let environment: Readonly<Record<string, string>>;
  let image: string;
  let worker: RunningContainer;
  const isHealthy = async () => (await startContainer(image, environment, HEALTH_CHECK)).ended;
  before(async () => {
    image = (await common()).worker;
    queues = await startImageQueues();
    environment = {
      ...queues.environment,
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
      BATCHSCORE_HEALTH_PORT: String(await freePort()),
      BATCHSCORE_STOP_SECONDS: String(STOP_SECONDS),
    };
  });
  after(async () => {
    await worker?.kill();
    await queues?.stop();
  });

  it('is healthy once it is ready, and not before', ONE_MINUTE, async () => {
    const whileGone = await isHealthy();
    const startedAt = performance.now();
    worker = await startContainer(image, environment);
    await worker.says('the worker is ready');
    console.log(`worker: ready after ${secondsSince(startedAt)} s, with the container's own`);
    let whenReady = { code: -1, log: '' };
    const seconds = await secondsOf(async () => {
      whenReady = await isHealthy();
    });
    console.log(`worker: its health is checked in ${seconds} s, with the container's own`);

    assert.equal(whileGone.code, 1);
    assert.match(whileGone.log, /^expected the worker to answer on port \d+ of 127\.0\.0\.1, got nobody there$/);
    assert.deepEqual(whenReady, { code: 0, log: '' });
  });

  it('is the first process of its container, of a user other than root', () => {
    const [command, status] = ['cmdline', 'status'].map((file) =>
      readFileSync(`/proc/${worker.firstProcess()}/${file}`, 'utf8'),
    ) as [string, string];

    assert.equal(command, 'node\0worker.js\0');
    assert.match(status, /^NSpid:\t\d+\t1$/m);
    assert.match(status, /^Uid:\t65534\t65534\t65534\t65534$/m);
    assert.match(status, /^Groups:\t *$/m);
  });

  it('answers every message under its ID: with its score, or with what is wrong with it', ONE_MINUTE, async () => {
    const messages = imageMessages();

    const ids = await queues.send(messages.map(({ body }) => body));
    const results = await queues.resultsOf(ids);

    assert.equal(results.size, messages.length);
    for (const [index, id] of ids.entries()) assert.partialDeepStrictEqual(results.get(id), messages[index]?.expected);
  });

  it('drains on SIGTERM, and ends with 0', ONE_MINUTE, async () => {
    process.kill(worker.firstProcess(), 'SIGTERM');
    let ended = { code: -1, log: '' };
    const seconds = await secondsOf(async () => {
      ended = await worker.ended;
    });

    assert.equal(ended.code, 0, ended.log);
    assert.partialDeepStrictEqual(JSON.parse(ended.log.split('\n').at(-1) ?? ''), {
      message: 'the worker has drained',
      cause: 'SIGTERM',
      handedBack: 0,
    });
    assert.ok(seconds < STOP_SECONDS, `expected the end within ${STOP_SECONDS} s, got ${seconds}`);
  });

  it('refuses to start on a variable that does not exist', async () => {
    const { ended } = await startContainer(image, { ...environment, BATCHSCORE_BATCHSIZE: '10' });
    const { code, log } = await ended;

    assert.equal(code, 1);
    assert.match(
      log,
      /configuration: BATCHSCORE_BATCHSIZE: expected a variable of batchscore, got an unknown one; did you mean BATCHSCORE_BATCH_SIZE, /,
    );
  });
});
