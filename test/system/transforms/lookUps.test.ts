import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BatchWriteItemCommand, CreateTableCommand, waitUntilTableExists } from '@aws-sdk/client-dynamodb';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { useDynamoDbServer } from '../../helpers/awsServers.ts';
import { jsonLines, runScript } from '../../helpers/command.ts';
import { model, node } from '../../helpers/graph.ts';
import { useHosts } from '../../helpers/hosts.ts';
import { jobOf, LIMITS, runJob } from '../../helpers/jobs.ts';
import { modelsDirectory, openModels, type RepositoryFiles } from '../../helpers/openModels.ts';

const EXAMPLE = fileURLToPath(new URL('../../../examples/features/transform.ts', import.meta.url));
const MODELS = {
  'features/1/model.onnx': model('features FP32[batch,3]', 'y FP32[batch,3]', [node('Identity', 'features', 'y')]),
  'features/config.json': { transform: 'transform.ts' },
  'features/transform.ts': `export * from ${JSON.stringify(EXAMPLE)};`,
};
const CUSTOMERS = 200;
const TableName = 'features';

const hosts = useHosts();
const server = useDynamoDbServer();
beforeAll(async () => {
  const dynamodb = server.client();
  const AttributeName = 'customer';
  await dynamodb.send(
    new CreateTableCommand({
      TableName,
      AttributeDefinitions: [{ AttributeName, AttributeType: 'S' }],
      KeySchema: [{ AttributeName, KeyType: 'HASH' }],
      BillingMode: 'PAY_PER_REQUEST',
    }),
  );
  await waitUntilTableExists({ client: dynamodb, maxWaitTime: 5, minDelay: 0.01, maxDelay: 0.1 }, { TableName });
  for (let from = 0; from < CUSTOMERS; from += 25) {
    const puts = Array.from({ length: 25 }, (_, index) => ({
      PutRequest: {
        Item: {
          customer: { S: `c-${from + index}` },
          features: { L: [from + index, 1, 2].map((one) => ({ N: `${one}` })) },
        },
      },
    }));
    await dynamodb.send(new BatchWriteItemCommand({ RequestItems: { [TableName]: puts } }));
  }
});

/** Ten requests name nobody, or somebody unknown; the others name 200 customers, each of them five times. */
const REQUESTS = Array.from({ length: 1_010 }, (_, index) => {
  if (index % 101 === 50) return index % 2 === 0 ? { id: `${index}` } : { id: `${index}`, customer: 'nobody' };
  return { id: `${index}`, customer: `c-${index % CUSTOMERS}` };
});

interface Result {
  readonly id: string;
  readonly error?: string;
  readonly outputs?: readonly { readonly data: readonly number[] }[];
  readonly result?: readonly number[];
}

/** Scores requests of a model, packed where they go by a queue. */
type Way = (asked: Asked) => Promise<readonly Result[]>;

interface Asked {
  readonly model: string;
  readonly models: RepositoryFiles;
  readonly requests: readonly object[];
  /** Where the table is. */
  readonly environment?: Readonly<Record<string, string>>;
}

const byHost =
  (name: 'the function' | 'the worker'): Way =>
  async ({ models, requests, environment = {} }) => {
    const host = await hosts.start(name, { models, environment });
    const ids = host.send([JSON.stringify(requests)]);
    await host.become('deleted', ids);
    return host.written() as unknown as Result[];
  };

const byJob: Way = async ({ models, requests, environment }) => {
  Object.assign(process.env, environment);
  const { repository } = await openModels(models);
  const limits = { ...LIMITS, maxRequestsPerMessage: 10_000, maxAnswerCharacters: 10_000_000, maxBatchElements: 1e6 };
  const rows = JSON.stringify(requests);
  const job = jobOf('in/rows.jsonl', rows, { models: repository, limits, partBytes: 1e9, pieceBytes: 1e9 });
  return (await runJob(job)).flat() as unknown as Result[];
};

const byScore: Way = async ({ model, models, requests, environment: env = {} }) => {
  const folder = await modelsDirectory(models);
  const [input, output] = [join(folder, 'in.jsonl'), join(folder, 'out.jsonl')];
  writeFileSync(input, requests.map((request) => JSON.stringify(request)).join('\n'));
  const args = ['score', join(folder, model), input, '--out', output, '--batch-size', '2000'];
  const { code, stderr } = await runScript('cli/batchscore.ts', args, { env });
  expect([code, stderr]).toEqual([3, expect.any(String)]);
  return jsonLines(readFileSync(output, 'utf8'));
};

const WAYS: readonly [string, Way][] = [
  ['the function', byHost('the function')],
  ['the worker', byHost('the worker')],
  ['a job', byJob],
  ['batchscore score', byScore],
];

describe.each(WAYS)('features of customers in a table, looked up by %s', (_, way) => {
  it('are asked for a hundred at a time, each once, and a request without any fails alone', async () => {
    const table = await server.front();
    const environment = {
      AWS_ENDPOINT_URL_DYNAMODB: table.endpoint,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
    };
    const results = await way({ model: 'features', models: MODELS, requests: REQUESTS, environment });
    const byId = new Map(results.map((result) => [result.id, result]));
    const answers = REQUESTS.map(({ id }) => byId.get(id)?.outputs?.[0]?.data ?? byId.get(id)?.error);
    expect(answers).toEqual(
      REQUESTS.map(({ customer }) => {
        if (customer === undefined) return expect.stringContaining('customer: expected a string, got none');
        if (customer === 'nobody') return expect.stringContaining('customer: expected one with features');
        return [Number(customer.slice(2)), 1, 2];
      }),
    );
    const keys = table.requests.map(({ body }) => JSON.parse(body).RequestItems.features.Keys.length);
    expect(keys.toSorted()).toEqual([1, 100, 100]);
  });
});

const HOSTILE = {
  'hostile/1/model.onnx': MODELS['features/1/model.onnx'],
  'hostile/config.json': { transform: 'transform.mjs' },
  'hostile/transform.mjs': `
    const inputsOf = ({ n }) => [{ name: 'features', datatype: 'FP32', shape: [1, 3], data: [n, 1, 2] }];
    export async function decodeBatch(bodies) {
      // One too few, from which nobody could tell whose is missing.
      if (bodies.length > 1) return bodies.slice(1).map(inputsOf);
      const [body] = bodies;
      if (body.does === 'throws') throw new Error('this one throws');
      if (body.does === 'gives an error') return [new Error('this one is wrong')];
      if (body.does === 'gives none') return [];
      if (body.does === 'gives two') return [inputsOf(body), inputsOf(body)];
      const inputs = inputsOf(body);
      for (const key in body) delete body[key];
      return [inputs];
    }
    export async function encodeBatch(outputs) {
      if (outputs.length > 1) throw new Error('one of many');
      const [{ y }] = outputs;
      return [Array.from(y.data)];
    }`,
};
const MISDEEDS: Readonly<Record<number, readonly [does: string, error: string]>> = {
  3: ['throws', 'this one throws'],
  8: ['gives an error', 'this one is wrong'],
  13: ['gives none', 'to return 1 result, got 0'],
  21: ['gives two', 'to return 1 result, got 2'],
};

it.each(WAYS)(
  'by %s, hooks that fail for all are asked for each: who is at fault fails alone, by name',
  async (_, way) => {
    const requests = Array.from({ length: 40 }, (_, n) => ({ id: `${n}`, n, does: MISDEEDS[n]?.[0] }));
    const results = await way({ model: 'hostile', models: HOSTILE, requests });
    const byId = new Map(results.map((result) => [result.id, result]));

    expect(requests.map(({ id }) => byId.get(id)?.result ?? byId.get(id)?.error)).toEqual(
      requests.map(({ n }) => {
        const error = MISDEEDS[n]?.[1];
        return error === undefined ? [n, 1, 2] : expect.stringContaining(error);
      }),
    );
  },
);
