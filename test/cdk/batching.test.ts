import { describe, expect, it } from '@jest/globals';
import { Duration } from 'aws-cdk-lib';
import { type BatchScoringProps, type LambdaOptions, lambdaCompute, lambdaGpuCompute } from '../../infra/index.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { environmentIn, only, synthesize } from '../helpers/stacks.ts';

const MAPPING = 'AWS::Lambda::EventSourceMapping';
const WITH_DEAD_LETTERS = { RedrivePolicy: {} };

describe('batch size and window, stated once', () => {
  it.each([
    ['lambda', lambdaCompute({ timeout: Duration.seconds(20) })],
    ['lambda-gpu', lambdaGpuCompute({ timeout: Duration.seconds(20) })],
  ])('flow to mapping, visibility timeout and environment (%s)', (_, compute) => {
    const template = synthesize({ compute, batchSize: 2000, window: Duration.seconds(7) });
    expect(only(template, MAPPING)).toMatchObject({ BatchSize: 2000, MaximumBatchingWindowInSeconds: 7 });
    expect(only(template, 'AWS::SQS::Queue', WITH_DEAD_LETTERS)).toMatchObject({ VisibilityTimeout: 6 * 20 + 7 });
    expect(environmentIn(template)).toMatchObject({
      [CONFIG_KEYS.batchSize]: '2000',
      [CONFIG_KEYS.windowSeconds]: '7',
    });
    expect(Object.values(template.findResources('AWS::Lambda::Function'))[0]?.Properties.Timeout).toBe(20);
  });

  it('are 100 records and a second unless said otherwise', () => {
    expect(only(synthesize(), MAPPING)).toMatchObject({ BatchSize: 100, MaximumBatchingWindowInSeconds: 1 });
  });

  it('are ten records and no window on a FIFO queue', () => {
    const mapping = only(synthesize({ fifo: true }), MAPPING);
    expect(mapping).toMatchObject({ BatchSize: 10 });
    expect(mapping).not.toHaveProperty('MaximumBatchingWindowInSeconds');
  });
});

describe('the event source mapping', () => {
  it('takes answers for single records, and counts events', () => {
    expect(only(synthesize(), MAPPING)).toMatchObject({
      FunctionResponseTypes: ['ReportBatchItemFailures'],
      MetricsConfig: { Metrics: ['EventCount'] },
    });
  });

  const upTo = (MaximumConcurrency: number) => ({ ScalingConfig: { MaximumConcurrency } });
  const polledBy = (pollers: object) => ({ ProvisionedPollerConfig: pollers });

  it.each<[string, LambdaOptions, number, object]>([
    ['what is asked for', { maximumConcurrency: 7, reservedConcurrency: 9 }, 1, upTo(7)],
    ['what is reserved, where nothing else is said', { reservedConcurrency: 40 }, 1, upTo(40)],
    ['as much as a mapping may', { reservedConcurrency: 1249 }, 1, upTo(1000)],
    ['anything where the reserve is larger', { reservedConcurrency: 1250 }, 1, {}],
    ['as much as is said of each shard', { maximumConcurrency: 20 }, 3, upTo(20)],
    ['a share of what is reserved, without what is left over', { reservedConcurrency: 101 }, 2, upTo(50)],
    ['as much as two mappings may', { reservedConcurrency: 2499 }, 2, upTo(1000)],
    ['anything where the reserve is larger than that', { reservedConcurrency: 2500 }, 2, {}],
    [
      'what its pollers start',
      { minimumPollers: 9, maximumPollers: 300 },
      2,
      polledBy({ MinimumPollers: 9, MaximumPollers: 300 }),
    ],
  ])('starts %s', (_, options, shards, expected) => {
    const mappings = Object.values(synthesize({ compute: lambdaCompute(options), shards }).findResources(MAPPING));
    const scaled = mappings.map(({ Properties: { ScalingConfig, ProvisionedPollerConfig } }) => ({
      ...(ScalingConfig && { ScalingConfig }),
      ...(ProvisionedPollerConfig && { ProvisionedPollerConfig }),
    }));
    expect(scaled).toEqual(Array(shards).fill(expected));
  });

  it.each([
    ['lambda', lambdaCompute],
    ['lambda-gpu', lambdaGpuCompute],
  ])('is switched on by the deployment, or off when that is asked for (%s)', (_, compute) => {
    const enabledWith = (props: Partial<BatchScoringProps>) =>
      only(synthesize({ compute: compute(), ...props }), MAPPING).Enabled;
    expect([enabledWith({}), enabledWith({ eventSourceEnabled: false })]).toEqual([true, false]);
  });
});

it('the function keeps what is reserved for it', () => {
  const template = synthesize({ compute: lambdaCompute({ reservedConcurrency: 9 }) });
  expect(only(template, 'AWS::Lambda::Function')).toMatchObject({ ReservedConcurrentExecutions: 9 });
});
