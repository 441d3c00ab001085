import { beforeAll, describe, expect, it } from '@jest/globals';
import { type Answer, HOSTS, type Host, lookup, useHosts } from '../helpers/hosts.ts';
import { lookupModel } from '../helpers/onnxModels.ts';

const hosts = useHosts();

const MODELS = {
  'lookup/1/model.onnx': lookupModel(),
  'lookup/config.json': { sessionOptions: { logSeverityLevel: 4 } },
  'killer/1/model.onnx': lookupModel(),
  'killer/config.json': { transform: 'transform.mjs' },
  // Ends the process for one request, as a crash in native code does, or as the kernel does: each time, or once.
  'killer/transform.mjs': `import { existsSync, writeFileSync } from 'node:fs';
  const killed = new URL('killed', import.meta.url);
  export function decode({ index }) {
    if (index === -1) process.abort();
    if (index === -2 || (index === -3 && !existsSync(killed))) {
      if (index === -3) writeFileSync(killed, '');
      process.kill(process.pid, 'SIGKILL');
    }
    return [{ name: 'index', datatype: 'INT64', shape: [1], data: [index] }];
  }`,
};

/** Each sentence says what was expected, what came, and what to do. */
const BROKEN: readonly (readonly [body: unknown, code: string, error: RegExp])[] = [
  ['{"inputs": [', 'INVALID_JSON', /expected .*JSON/],
  ['42', 'INVALID_REQUEST', /expected .*, got /],
  [{ ...JSON.parse(lookup(0)), model_name: 'nobody' }, 'UNKNOWN_MODEL', /expected one of .*lookup.*, got "nobody"/],
  [
    { model_name: 'lookup', inputs: [{ name: 'index', datatype: 'INT64', shape: [1, 2], data: [1, 2] }] },
    'INVALID_SHAPE',
    /expected .*, got .*2/,
  ],
];
/** The lookup table has three values. */
const OUT_OF_RANGE = JSON.stringify({
  model_name: 'lookup',
  inputs: [{ name: 'index', datatype: 'INT64', shape: [1], data: [99] }],
});

function valuesOf(answers: readonly Answer[]): (number | string | undefined)[] {
  return answers.map(({ outputs, code }) => code ?? outputs?.[0]?.data[0]);
}

describe('2. A message can only fail itself', () => {
  describe.each(HOSTS)('%s', (name) => {
    let host: Host;
    beforeAll(async () => {
      host = await hosts.start(name, { models: MODELS, timeoutSeconds: 10 });
    });

    it('answers a bad message with an error that says what was expected and what came, and scores the others', async () => {
      const ids = host.send([lookup(0), ...BROKEN.map(([body]) => body), lookup(1)]);

      const [first, ...rest] = await host.answers(ids);
      const last = rest.pop();
      expect(rest).toEqual(
        BROKEN.map(([, code, error]) => expect.objectContaining({ code, error: expect.stringMatching(error) })),
      );
      expect(valuesOf([first, last] as Answer[])).toEqual([10, 20]);
      await host.become('deleted', ids);
    });

    it('halves a run that fails until the culprit stands alone', async () => {
      const ids = host.send([lookup(0), lookup(1), OUT_OF_RANGE, lookup(2), lookup(1)]);

      expect(valuesOf(await host.answers(ids))).toEqual([10, 20, 'RUN_FAILED', 30, 20]);
      await host.become('deleted', ids);
    });

    it.each([
      ['its bad ones', [lookup(0), OUT_OF_RANGE, '1', lookup(2)], [10, 'RUN_FAILED', 'INVALID_REQUEST', 30]],
      ['one that ends the process', [killer(0), killer(-1), killer(2)], [10, 'MODEL_CRASHED', 30]],
      ['one that is always killed', [killer(-2), killer(-3), killer(2)], ['OUT_OF_MEMORY', 10, 30]],
    ])('answers the good requests of a packed message beside %s', async (_, requests, expected) => {
      const [id = ''] = host.send([`[${requests.join(',')}]`]);
      await host.become('deleted', [id]);

      const answers = host.written().filter(({ message_id }) => message_id === id);
      expect(valuesOf(answers)).toEqual(expected);
    });

    it('scores the neighbours of a message that ends the process, and answers it with an error', async () => {
      const [killing = '', ...others] = host.send([killer(-1), killer(0), killer(1), lookup(2)]);
      await host.become('deleted', [killing, ...others]);

      const written = host.written().map(({ message_id }) => message_id);
      expect(written.slice(-4).toSorted()).toEqual([killing, ...others].toSorted());
      expect(valuesOf(await host.answers(others))).toEqual([10, 20, 30]);
      expect(await host.answers([killing])).toMatchObject([
        {
          code: 'MODEL_CRASHED',
          error: expect.stringMatching(/model 'killer': expected .*SIGABRT.*; do not send it again/),
        },
      ]);
      await host.stop();
    });
  });
});

function killer(index: number): string {
  return JSON.stringify({ model_name: 'killer', index });
}
