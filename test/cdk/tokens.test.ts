import { describe, expect, it } from '@jest/globals';
import { CfnParameter, Duration, type Stack } from 'aws-cdk-lib';
import { Annotations } from 'aws-cdk-lib/assertions';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import {
  type BatchScoringProps,
  type Compute,
  ecsCompute,
  ecsGpuCompute,
  lambdaCompute,
  lambdaGpuCompute,
} from '../../infra/index.ts';
import { createScoring, createStack } from '../helpers/stacks.ts';

type Props = Partial<BatchScoringProps<Compute>>;

/** A number and a text that only the deployment knows, and a bucket of the app. */
interface Late {
  readonly number: number;
  readonly text: string;
  readonly bucket: Bucket;
}

function late(stack: Stack): Late {
  return {
    number: new CfnParameter(stack, 'Number', { type: 'Number' }).valueAsNumber,
    text: new CfnParameter(stack, 'Text').valueAsString,
    bucket: new Bucket(stack, 'Own'),
  };
}

/** The sentence that making the construct throws, and the warnings if it throws none. */
function saidOf(propsOf: (values: Late) => Props): { readonly refused?: string; readonly warnings?: unknown } {
  const stack = createStack();
  try {
    createScoring<Compute>(propsOf(late(stack)), stack);
  } catch (error) {
    return { refused: (error as Error).message };
  }
  return {
    warnings: Annotations.fromStack(stack)
      .findWarning('*', '*')
      .map(({ entry }) => entry.data),
  };
}

describe('a rule that does not read a token holds', () => {
  it.each<[said: string, props: (values: Late) => Props]>([
    [
      'queueProps.queueName: expected none with 3 request queues, each of which has a name of its own, got a token; leave it out',
      ({ text }) => ({ shards: 3, queueProps: { queueName: text } }),
    ],
    [
      'keyPrefix: expected it with a payloadBucket, resultBucket or capture.bucket that exists already, as new ones are ' +
        'shared with nobody, got a token without; leave it out',
      ({ text }) => ({ keyPrefix: text }),
    ],
    [
      'window: expected 0 on a FIFO queue, which has no batching window, got 5; set it to 0 or use a standard queue',
      ({ number }) => ({ fifo: true, batchSize: number, window: Duration.seconds(5) }),
    ],
    [
      'resultsPerMessage: expected queue among the results, got table; add queue or leave it out',
      ({ number }) => ({ results: ['table'], resultsPerMessage: number }),
    ],
  ])('%s', (said, props) => {
    expect(saidOf(props)).toEqual({ refused: `Test/Scoring: ${said}` });
  });
});

describe('a rule that reads a token is passed over, and so is a warning', () => {
  const queueOnly = { results: ['queue'] } as const;
  it.each<[name: string, props: (values: Late) => Props]>([
    [
      'batchSize and maximumConcurrency',
      ({ number }) => ({ batchSize: number, compute: lambdaCompute({ maximumConcurrency: number }) }),
    ],
    ['reservedConcurrency', ({ number }) => ({ compute: lambdaCompute({ reservedConcurrency: number }) })],
    [
      'reservedConcurrency and pollers',
      ({ number }) => ({
        compute: lambdaCompute({ reservedConcurrency: 100, minimumPollers: number, maximumPollers: number }),
      }),
    ],
    [
      'provisionedConcurrency',
      ({ number }) => ({ compute: lambdaCompute({ provisionedConcurrency: number, reservedConcurrency: 5 }) }),
    ],
    ['maxReceiveCount', ({ number }) => ({ maxReceiveCount: number })],
    ['resultsPerMessage', ({ number }) => ({ ...queueOnly, resultsPerMessage: number })],
    ['alarmThresholds', ({ number }) => ({ alarmThresholds: { retriedPercent: number, errorPercent: number } })],
    ['keyPrefix', ({ text, bucket }) => ({ payloadBucket: bucket, keyPrefix: text, jobs: { bucket } })],
    ['queueName', ({ text }) => ({ queueProps: { queueName: text } })],
    ['defaultModel', ({ text }) => ({ defaultModel: text })],
    ['environment', ({ text }) => ({ environment: { TZ: text } })],
    ['tuning', ({ number, text }) => ({ tuning: { maxBatchRows: number, checkPercent: number, providers: text } })],
    ['jobs', ({ number, text }) => ({ jobs: { concurrency: number, inputPrefix: text, outputPrefix: 'out/' } })],
    ['maximumEnvironments', ({ number }) => ({ compute: lambdaGpuCompute({ maximumEnvironments: number }) })],
    ['instanceTypes', ({ text }) => ({ compute: ecsGpuCompute({ instanceTypes: [text] }) })],
    [
      'tasks',
      ({ number }) => ({
        batchSize: 10_000,
        compute: ecsCompute({ maximumTasks: number, pipelineDepth: number, maxPolls: number, backlogPerTask: number }),
      }),
    ],
  ])('%s', (_, props) => {
    expect(saidOf(props)).toEqual({ warnings: [] });
  });
});
