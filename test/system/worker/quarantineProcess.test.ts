import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { pointerBody } from '../../../lambda/core/record.ts';
import { useS3Server } from '../../helpers/awsServers.ts';
import { runScript } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';
import { HOSTS, type Host, lookup, until, useHosts } from '../../helpers/hosts.ts';
import { lookupModel } from '../../helpers/onnxModels.ts';
import { modelsDirectory } from '../../helpers/openModels.ts';

const MODELS = {
  'lookup/1/model.onnx': lookupModel(),
  'killer/1/model.onnx': lookupModel(),
  'killer/config.json': { transform: 'transform.mjs' },
  // Where the second is read, the main thread hears of nothing any more.
  'killer/transform.mjs': `import { existsSync, writeFileSync } from 'node:fs';

  const isChild = process.argv[1].includes('quarantineChild');
  function isFirst(name) {
    const file = new URL(name, import.meta.url);
    if (existsSync(file)) return false;
    writeFileSync(file, '');
    return true;
  }
  // What a terminal and systemd send to all processes; the first child ends by it all the same.
  function beStopped() {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.kill(process.pid, signal);
    if (isFirst('stopped')) process.removeAllListeners('SIGTERM').kill(process.pid, 'SIGTERM');
  }

  export function decode({ index }) {
    if (index === -1) process.kill(process.pid, 'SIGKILL');
    while (index === -2);
    if (index < -2 && !isChild) process.kill(process.pid, 'SIGKILL');
    if (index === -3) beStopped();
    if (index < -3 && isFirst('killed')) process.kill(process.pid, 'SIGKILL');
    return [{ name: 'index', datatype: 'INT64', shape: [1], data: [index < 0 ? 0 : index] }];
  }`,
  'sleeper/1/model.onnx': lookupModel(),
  'sleeper/config.json': { transform: 'transform.mjs' },
  // A process of its own never opens it; elsewhere all but the first message are answered.
  'sleeper/transform.mjs': `import { writeFileSync } from 'node:fs';

  if (process.argv[1].includes('quarantineChild')) {
    writeFileSync(process.env.SIGNS + '/opening', '');
    await new Promise(() => {});
  }
  let isFirst = true;
  export function decode({ index }) {
    if (isFirst) {
      isFirst = false;
      throw Object.assign(new Error('not yet'), { retryable: true });
    }
    return [{ name: 'index', datatype: 'INT64', shape: [1], data: [index] }];
  }`,
};
/** A minute has passed as soon as there is a file. */
const MINUTE = `
  const now = performance.now.bind(performance);
  const { existsSync } = process.getBuiltinModule('fs');
  performance.now = () => now() + (existsSync(process.env.SIGNS + '/minute') ? 61_000 : 0);`;
/** Whatever is to happen after a minute happens soon. */
const SOON = `
  const { setTimeout } = globalThis;
  globalThis.setTimeout = (work, ms, ...given) => setTimeout(work, ms === 60_000 ? 50 : ms, ...given);`;
const hosts = useHosts(2);
const s3 = useS3Server();

function killer(index: number): string {
  return JSON.stringify({ id: `request ${index}`, model_name: 'killer', index });
}

/** The processes of a host's quarantine, as Linux tells of them. */
function childrenOf({ requests }: Host): string[] {
  const url = `${hosts.sqs().endpoint}/000000000000/${requests}`;
  return readdirSync('/proc').filter((pid) => {
    try {
      const isChild = readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('quarantineChild');
      return isChild && readFileSync(`/proc/${pid}/environ`, 'utf8').includes(url);
    } catch {
      return false;
    }
  });
}

describe.each(HOSTS)('the quarantine of %s', (name) => {
  const inFolder = useFolder();
  it('starts no process for messages that come for the first time', async () => {
    const host = await hosts.start(name, { models: MODELS });
    const ids = host.send([lookup(0), killer(1)]);
    await host.become('deleted', ids);

    expect(childrenOf(host)).toEqual([]);
  });

  it('answers a message for which the system kills its process as one that is out of memory, and the others', async () => {
    const host = await hosts.start(name, { models: MODELS });
    const ids = host.send([killer(-1), killer(0)]);
    await host.become('deleted', ids);

    expect(await host.answers(ids)).toMatchObject([
      { id: 'request -1', code: 'OUT_OF_MEMORY', error: expect.stringContaining('SIGKILL') },
      { id: 'request 0', outputs: [{ data: [10] }] },
    ]);
  });

  it.each([
    ['a signal that asks its process to end', -3],
    ['memory that was short once', -4],
  ])('blames no message for %s', async (_, index) => {
    const host = await hosts.start(name, { models: MODELS });
    const ids = host.send([killer(index)]);
    await host.become('deleted', ids);

    expect(await host.answers(ids)).toMatchObject([{ outputs: [{ data: [10] }] }]);
  });

  it('ends a minute after its last work', async () => {
    const environment = { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(SOON)}` };
    const host = await hosts.start(name, { models: MODELS, environment });
    const ids = host.send([killer(-4)]);
    await host.become('deleted', ids);
    await until(() => childrenOf(host).length === 0);
    const others = host.send([lookup(0)]);
    await host.become('deleted', others);
  });

  it('answers a culprit in a packed message, and one that lies in S3', async () => {
    const bucket = await s3.bucket();
    const environment = {
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'a',
      AWS_SECRET_ACCESS_KEY: 'b',
      AWS_ENDPOINT_URL_S3: s3.endpoint(),
      BATCHSCORE_PAYLOAD_BUCKET: bucket,
    };
    const pointer = async (index: number): Promise<object> => {
      const key = `requests/${index}`;
      await s3.put(bucket, key, killer(index));
      return JSON.parse(pointerBody({ bucket, key }));
    };
    const packed = (...indexes: number[]): string => `[${indexes.map(killer).join()}]`;
    const host = await hosts.start(name, { models: MODELS, environment });
    const ids = host.send([packed(0, -1), packed(0, 1), await pointer(-1), await pointer(1)]);
    await host.become('deleted', ids);

    const codes = ids.map((id) => host.written().flatMap((one) => (one.message_id === id ? [one.code] : [])));
    expect(codes).toEqual([['OUT_OF_MEMORY'], [undefined, undefined], ['OUT_OF_MEMORY'], [undefined]]);
    expect(Math.max(...host.receives(ids))).toBeLessThanOrEqual(3);
  });

  it('answers the culprits of message groups in their place, and what is behind them', async () => {
    const host = await hosts.start(name, { models: MODELS, fifo: true });
    const indexes = [0, -1, 1, 2, -1, 1];
    const ids = host.send(indexes.map(killer), (at) => String(at % 2));
    await host.become('deleted', ids);

    const answers = await host.answers(ids);
    expect(answers.map(({ code }) => code)).toEqual(indexes.map((index) => (index < 0 ? 'OUT_OF_MEMORY' : undefined)));
    const inOrder = [...new Set(host.written().map(({ message_id }) => message_id))];
    for (const group of [0, 1]) {
      const own = ids.filter((_, at) => at % 2 === group);
      expect(inOrder.filter((id) => own.includes(id))).toEqual(own);
    }
  });

  it('is given up where it hangs while it opens its model: the host scores then', async () => {
    const environment = {
      SIGNS: inFolder(''),
      NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(MINUTE)}`,
      BATCHSCORE_DEADLINE_MARGIN_MS: '500',
    };
    const host = await hosts.start(name, { models: MODELS, environment, timeoutSeconds: 3 });
    const ids = host.send([JSON.stringify({ model_name: 'sleeper', index: 0 })]);
    await until(() => existsSync(inFolder('opening')));
    writeFileSync(inFolder('minute'), '');
    await host.become('deleted', ids);

    expect(await host.answers(ids)).toMatchObject([{ outputs: [{ data: [10] }] }]);
    expect(await host.says('to open the model within 60 s, it did not')).toBeDefined();
  });

  it('ends with a host that is killed while the main thread of its process hangs', async () => {
    const host = await hosts.start(name, { models: MODELS });
    const ids = host.send([killer(-2)]);
    await host.become('in flight', ids);
    await host.kill();
    await until(() => childrenOf(host).length === 1 && host.receives(ids)[0] === 2);
    const children = childrenOf(host);
    await host.kill();
    await until(() => !childrenOf(host).some((pid) => children.includes(pid)));
  });

  it('takes a model that crashes for all messages for broken, and hands them back', async () => {
    const host = await hosts.start(name, { models: MODELS });
    const ids = host.send(Array.from({ length: 16 }, () => killer(-1)));
    await host.says('it ended 8 processes in a row');
    const other = host.send([lookup(0)]);
    await host.become('deleted', other);

    expect(host.fates(ids).filter((fate) => fate !== 'deleted').length).toBeGreaterThanOrEqual(8);
  });
});

it.each([
  ['waits for the writes of its host, as scoring in it does', [], 100],
  ['waits no longer for the model of its host than there is time', ['lost'], 0],
])('a quarantine %s', async (_, args, replies) => {
  const config = { batching: 'alone' };
  const env = {
    BATCHSCORE_MODELS_DIR: await modelsDirectory({ 'one/1/model.onnx': lookupModel(), 'one/config.json': config }),
    BATCHSCORE_REQUEST_QUEUE_URL: 'http://127.0.0.1/requests',
    BATCHSCORE_RESULT_QUEUE_URL: 'http://127.0.0.1/results',
  };
  const { stdout } = await runScript('test/system/worker/slowWrites.ts', args, { env });

  const { answered, atOnce } = JSON.parse(stdout);
  expect(answered).toBe(replies);
  expect(atOnce).toBeLessThanOrEqual(2);
});
