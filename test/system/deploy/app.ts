// The stacks that `npm run test:deploy` deploys, one a run: `node test/system/deploy/app.ts STACK [BATCH_SIZE]`.
import { App, Stack } from 'aws-cdk-lib';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import { BatchScoring, type BatchScoringProps, type LambdaOptions, lambdaCompute } from '../../../infra/index.ts';

const [name = '', batchSize] = process.argv.slice(2);
const stack = new Stack(new App(), name);

/** A function that this machine can run. */
const computeOf = (options: LambdaOptions = {}) =>
  lambdaCompute({ architecture: process.arch === 'arm64' ? Architecture.ARM_64 : Architecture.X86_64, ...options });

const DIGITS = { models: 'models', defaultModel: 'digits', compute: computeOf() };

const PROPS: Readonly<Record<string, () => BatchScoringProps>> = {
  Batchscore: () => DIGITS,
  Jobs: () => ({
    ...DIGITS,
    compute: computeOf({ maximumConcurrency: 2 }),
    results: ['table'],
    encryptionKey: new Key(stack, 'Key', { enableKeyRotation: true }),
    jobs: { concurrency: 2 },
  }),
  Fifo: () => ({ ...DIGITS, fifo: true, shards: 2, results: ['queue', 'table', 'bucket'], tracing: true }),
  Bucket: () => ({
    models: process.env.MODELS ?? '',
    defaultModel: 'lookup',
    compute: computeOf({ maximumConcurrency: 2 }),
    results: ['bucket'],
    maxReceiveCount: 5,
    ...(batchSize !== undefined && { batchSize: Number(batchSize) }),
  }),
};

const props = PROPS[name];
if (props === undefined) throw new Error(`STACK: expected one of ${Object.keys(PROPS).join(', ')}, got '${name}'`);
new BatchScoring(stack, 'Scoring', props()).addClientOutputs();
