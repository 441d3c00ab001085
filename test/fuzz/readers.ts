import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Random } from '../../bench/workload/random.ts';
import { readStack } from '../../cli/network/deployment.ts';
import { createReader, resultOf, unpackResults } from '../../client/readResult.ts';
import { loadConfig, loadJobControlConfig, loadJobScoreConfig } from '../../lambda/hosts/config.ts';
import { withGraph } from '../../lambda/onnx/graph.ts';
import { readModelConfig } from '../../lambda/onnx/modelConfig.ts';
import { checkModelFile } from '../../lambda/onnx/modelFile.ts';
import { MIXING, SOUND } from '../helpers/mixingModels.ts';
import { modelWithWeightsIn } from '../helpers/onnxModels.ts';
import { mutateBytes, mutated, mutateJson, mutateText, pick, rarely } from './mutate.ts';
import type { Target } from './target.ts';

const CONFIG = {
  maxBatchRows: 64,
  allowedSizes: [1, 8, 64],
  ragged: { axis: 'sequence', pad: { ids: 0, mask: 0 }, cut: { tokens: 1 }, allowedSizes: [16, 32] },
  batchAxis: { state: 1 },
  outputs: ['label'],
  constants: { sr: 16_000, bias: [0.5, 'NaN'] },
  batching: 'trust',
  providers: ['cpu', { name: 'cuda', deviceId: 1 }],
  devices: [0, 1],
  sessionOptions: { intraOpNumThreads: 1, extra: { session: { a: '1' } } },
  warmup: { sequence: 128 },
  transform: 'transform.ts',
};

const ENVIRONMENT = {
  BATCHSCORE_REQUEST_QUEUE_URL: 'https://sqs.eu-central-1.amazonaws.com/123456789012/requests',
  BATCHSCORE_RESULT_QUEUE_URL: 'https://sqs.eu-central-1.amazonaws.com/123456789012/results',
  BATCHSCORE_MODELS_DIR: '/models',
  BATCHSCORE_MODELS_URI: 's3://bucket/models/current.json',
  BATCHSCORE_RESULTS: 'queue,table,bucket',
  BATCHSCORE_RESULT_TABLE: 'results',
  BATCHSCORE_RESULT_BUCKET: 'bucket',
  BATCHSCORE_RESULTS_PER_MESSAGE: '10000',
  BATCHSCORE_MAX_BATCH_ROWS: '512',
  BATCHSCORE_PROVIDERS: 'cuda,cpu',
  BATCHSCORE_CHECK_PERCENT: '1.5',
  BATCHSCORE_PRELOAD: 'true',
  BATCHSCORE_LOG_LEVEL: 'debug',
  BATCHSCORE_TIMEOUT_SECONDS: '60',
  AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '1769',
};

const STACK = {
  requestQueueUrl: 'https://sqs.eu-central-1.amazonaws.com/1/requests',
  resultQueueUrl: 'https://sqs.eu-central-1.amazonaws.com/1/results',
  resultTable: 'results',
  payloadBucket: 'payloads',
  payloadPrefix: 'fraud/',
  region: 'eu-central-1',
  endpoint: 'http://127.0.0.1:4566',
  jobStateMachine: 'arn:aws:states:eu-central-1:123456789012:stateMachine:jobs',
  jobConcurrency: '4',
};

const HEAD = { message_id: 'm-1', id: 'a', model_name: 'sum', model_version: '1' };
const OUTPUTS = [
  { name: 'sums', datatype: 'FP32', shape: [1, 3], data: [11, 'NaN', 33] },
  { name: 'label', datatype: 'BYTES', shape: [1], data: ['total 70'] },
  { name: 'big', datatype: 'INT64', shape: [1], data: ['9007199254740993'] },
];
const RESULTS: readonly unknown[] = [
  { ...HEAD, outputs: OUTPUTS },
  { ...HEAD, outputs: [{ name: 'sums', datatype: 'FP32', shape: [1, 3] }], raw_output_contents: ['AACAQAAA4EAAACBB'] },
  { ...HEAD, predictions: [{ sums: [4, 6], total: 15 }] },
  { message_id: 'm-1', id: 'a', code: 'INVALID_DATA', error: 'inputs[0].data[1]: expected a number' },
  [
    { ...HEAD, outputs: OUTPUTS },
    { message_id: 'm-1', code: 'RUN_FAILED', error: 'it failed' },
  ],
  ['software.amazon.payloadoffloading.PayloadS3Pointer', { s3BucketName: 'payloads', s3Key: 'results/1' }],
];

/** Texts of what is read whole at a start, a synth or a command, and what reads them. It may refuse them in a sentence. */
const READERS: Readonly<Record<string, readonly [make: (random: Random) => string, read: (text: string) => unknown]>> =
  {
    config: [ofJson(CONFIG), (text) => withFile('config.json', text, (_, folder) => readModelConfig(folder))],
    environment: [
      (random) => JSON.stringify(mutated<unknown>(ENVIRONMENT, random, mutateValues)),
      (text) => {
        const environment = JSON.parse(text);
        for (const load of [loadConfig, loadJobScoreConfig, loadJobControlConfig])
          refusedInASentence(() => load(environment));
      },
    ],
    stack: [
      (random) => ofJson(rarely(random, 2) ? STACK : { Batchscore: STACK })(random),
      (text) => withFile('stack.json', text, (path) => readStack(path)),
    ],
    model: [modelBytes, (text) => withFile('model.onnx', Buffer.from(text, 'latin1'), readModel)],
    result: [(random) => ofJson(pick(random, RESULTS))(random), readResult],
  };

function ofJson(value: unknown) {
  return (random: Random): string => {
    const text = JSON.stringify(rarely(random, 4) ? value : mutated<unknown>(value, random, mutateJson)) ?? '';
    return rarely(random, 3) ? mutated(text, random, mutateText) : text;
  };
}

/** The values of an environment are texts. */
function mutateValues(value: unknown, random: Random): unknown {
  const entries = Object.entries(value as Record<string, string>);
  const at = random.below(entries.length);
  const kind = random.below(5);
  return Object.fromEntries(
    entries.flatMap(([key, text], index) => {
      if (index !== at) return [[key, text]];
      if (kind === 0) return [];
      return kind === 1 ? [[mutateText(key, random), text]] : [[key, mutateText(text, random)]];
    }),
  );
}

function modelBytes(random: Random): string {
  const sound = pick(random, [
    ...Object.values(MIXING),
    ...Object.values(SOUND),
    () => modelWithWeightsIn('weights.bin'),
  ]);
  return mutated(Buffer.from(sound()).toString('latin1'), random, mutateBytes);
}

function readModel(path: string): unknown {
  checkModelFile(path);
  return withGraph(path, (graph) => graph.allNodes().map(({ attributes }) => attributes.size));
}

/** What a consumer gets, whoever wrote it, is a result: nothing is thrown. */
async function readResult(text: string): Promise<void> {
  const stored = await createReader(undefined)('m-1', text);
  if (typeof stored !== 'object') throw new TypeError('expected a result');
  const results = unpackResults(text, '2');
  if (!('problem' in results))
    for (const { messageId } of results) if (messageId === '') throw new TypeError('expected an ID');
  const { result } = stored;
  for (const id of ['m-1', 'm-1/0', 'm-1/7']) resultOf(id, result);
}

let folder: Promise<string> | undefined;

async function withFile<T>(
  name: string,
  content: string | Buffer,
  read: (path: string, folder: string) => T,
): Promise<T> {
  folder ??= mkdtemp(join(tmpdir(), 'batchscore-fuzz-'));
  const path = join(await folder, name);
  await writeFile(path, content);
  return await read(path, await folder);
}

/** What refuses a value says so in a sentence; anything else that is thrown is a bug. */
function refusedInASentence(read: () => unknown): void {
  try {
    read();
  } catch (error) {
    if (!isRefusal(error)) throw error;
  }
}

export function isRefusal(error: unknown): boolean {
  const isOwn = error instanceof Error && !/^(Type|Range|Syntax|Reference)Error$/.test(error.name);
  return isOwn && /expected|not a valid/.test(error.message);
}

export async function openReader(name: string): Promise<Target> {
  const [make, read] = READERS[name] as (typeof READERS)[string];
  return {
    make,
    async check(inputs) {
      const found: (string | undefined)[] = [];
      for (const input of inputs) {
        const thrown = await Promise.resolve()
          .then(() => read(input))
          .then(
            () => undefined,
            (error: unknown) => error,
          );
        const problem = thrown === undefined || (name !== 'result' && isRefusal(thrown)) ? undefined : thrown;
        found.push(
          problem === undefined ? undefined : `it threw ${problem instanceof Error ? problem.stack : problem}`,
        );
      }
      return found;
    },
    async close() {
      if (folder !== undefined) await rm(await folder, { recursive: true });
      folder = undefined;
    },
  };
}
