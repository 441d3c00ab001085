import { describe, expect, it } from '@jest/globals';
import { Duration } from 'aws-cdk-lib';
import { type BatchScoringProps, lambdaCompute, lambdaGpuCompute } from '../../infra/index.ts';
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

  it('starts no more invocations at a time than it may', () => {
    const compute = lambdaCompute({ maximumConcurrency: 7, reservedConcurrency: 7 });
    const template = synthesize({ compute });
    expect(only(template, MAPPING)).toMatchObject({ ScalingConfig: { MaximumConcurrency: 7 } });
    expect(only(template, 'AWS::Lambda::Function')).toMatchObject({ ReservedConcurrentExecutions: 7 });
  });

  it.each([
    [2, 2],
    [40, 40],
    [1249, 1000],
    [1250, undefined],
  ])('starts no more than the %d that are reserved, unless told otherwise: %s', (reservedConcurrency, maximum) => {
    const { ScalingConfig } = only(synthesize({ compute: lambdaCompute({ reservedConcurrency }) }), MAPPING);
    expect(ScalingConfig).toEqual(maximum === undefined ? undefined : { MaximumConcurrency: maximum });
  });

  it.each([2001, 10_000])('may have %s provisioned pollers', (maximumPollers) => {
    const compute = lambdaCompute({ maximumPollers });
    expect(only(synthesize({ compute }), MAPPING)).toMatchObject({
      ProvisionedPollerConfig: { MaximumPollers: maximumPollers },
    });
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
