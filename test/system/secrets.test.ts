import { describe, expect, it } from '@jest/globals';
import { isObject } from '../../lambda/core/json.ts';
import { pointerBody } from '../../lambda/core/record.ts';
import { HOSTS, useHosts } from '../helpers/hosts.ts';
import { lookupModel } from '../helpers/onnxModels.ts';
import { FAULTS } from '../helpers/strictSqs.ts';

const hosts = useHosts();
const SECRET = 'known-to-the-producer';
const CREDENTIALS = { AWS_SECRET_ACCESS_KEY: 'key-of-the-role', AWS_SESSION_TOKEN: 'token-of-the-role' };
const QUIET = { sessionOptions: { logSeverityLevel: 4 } };

const MODELS = {
  'lookup/1/model.onnx': lookupModel(),
  'lookup/config.json': QUIET,
  'own/1/model.onnx': lookupModel(),
  'own/config.json': { ...QUIET, transform: 'transform.mjs' },
  // What a transform throws may hold what it was given.
  'own/transform.mjs': 'export function decode(body) { throw new Error(JSON.stringify(body)); }',
};

const VALID = {
  id: 'a',
  model_name: 'lookup',
  model_version: '1',
  inputs: [{ name: 'index', datatype: 'INT64', shape: [1], data: [0] }],
  outputs: [{ name: 'value' }],
  parameters: { binary_data_output: false },
};

/** The value with the secret in place of each of its parts, and of each of its keys. */
function spoilt(value: unknown): unknown[] {
  if (Array.isArray(value))
    return [SECRET, ...value.flatMap((one, at) => spoilt(one).map((part) => value.with(at, part)))];
  if (!isObject(value)) return [SECRET];
  return [
    SECRET,
    ...Object.entries(value).flatMap(([key, one]) => {
      const { [key]: _, ...others } = value;
      return [...spoilt(one).map((part) => ({ ...value, [key]: part })), { ...others, [SECRET]: one }];
    }),
  ];
}

const BODIES: readonly unknown[] = [
  ...spoilt(VALID),
  ...spoilt([VALID, VALID]),
  ...spoilt({
    model_name: 'lookup',
    inputs: [{ name: 'index', datatype: 'INT64', shape: [1] }],
    raw_input_contents: ['AA=='],
  }),
  ...spoilt({ model_name: 'lookup', instances: [0] }),
  ...spoilt(JSON.parse(pointerBody({ bucket: 'payloads', key: 'requests/1' }))),
  { model_name: 'own', instances: SECRET },
  // Its run fails, and ONNX Runtime quotes the value.
  { ...VALID, id: SECRET, inputs: [{ ...VALID.inputs[0], data: [777_888_999] }] },
  `${SECRET} {"inputs"`,
  '{"id": "known-to-the-producer',
];

describe.each(HOSTS)('what %s prints at the level debug', (name) => {
  it('holds nothing of a message, no receipt handle and no credential, also while results are refused', async () => {
    const environment = { BATCHSCORE_LOG_LEVEL: 'debug', ...CREDENTIALS };
    const host = await hosts.start(name, { models: MODELS, environment });
    const handles = new Set<string>();
    let refused = 0;
    hosts.intercept(({ operation, body }) => {
      for (const [, handle = ''] of body.matchAll(/"ReceiptHandle":"([^"]+)"/g)) handles.add(handle);
      if (operation !== 'SendMessageBatch' || refused >= 3) return undefined;
      refused += 1;
      return FAULTS.denied;
    });

    const ids = host.send(BODIES);
    await host.become('deleted', ids);

    const printed = host.printed();
    expect(printed).toContain('"message":"micro-batch"');
    expect(handles.size).toBeGreaterThanOrEqual(BODIES.length);
    const found = [SECRET, '777888999', ...Object.values(CREDENTIALS), ...handles].filter((one) =>
      printed.includes(one),
    );
    expect(found).toEqual([]);
  });
});
