import { describe, expect, it } from '@jest/globals';
import { readContext } from '../../infra/context.ts';

const DEFAULTS = { stackName: 'Batchscore', compute: 'lambda', models: 'models', encryption: 'service' };

describe('the context', () => {
  it('may be empty', () => {
    expect(readContext({})).toEqual(DEFAULTS);
  });

  it('means the same as text of the command line and as values of cdk.json', () => {
    const values = { batchSize: 500, windowSeconds: 0, fifo: false, results: ['queue', 'table'], retainData: true };
    const texts = { batchSize: '500', windowSeconds: '0', fifo: 'false', results: 'queue, table', retainData: 'true' };
    expect(readContext(texts)).toEqual(readContext(values));
    expect(readContext(values)).toEqual({ ...DEFAULTS, ...values });
  });

  it('leaves alone what the command and the library keep there', () => {
    const ofCdk = {
      '@aws-cdk/core:checkSecretUsage': true,
      '@aws-cdk-containers/ecs-service-extensions:enableDefaultLogDriver': true,
      'aws:cdk:enable-path-metadata': true,
      'aws:cdk:bundling-stacks': ['**'],
      'aws-cdk:enableDiffNoFail': true,
      'availability-zones:account=123456789012:region=eu-central-1': ['eu-central-1a'],
      'vpc-provider:account=123456789012:filter.isDefault=true:region=eu-central-1': { vpcId: 'vpc-1' },
      'cli-telemetry': false,
      'acknowledged-issue-numbers': [34_892],
    };
    expect(readContext(ofCdk)).toEqual(DEFAULTS);
  });

  it.each([
    [
      { batchsize: 5 },
      'batchsize: expected a context key of this app, got an unknown one; did you mean batchSize, a whole number from 1 to 10000?',
    ],
    [
      { colour: 'red' },
      'colour: expected a context key of this app, got an unknown one; docs/configuration.md lists them',
    ],
    [
      { batchSize: 'many' },
      'batchSize: expected a whole number from 1 to 10000, got "many"; change it in cdk.json or with -c batchSize=…',
    ],
    [
      { memoryMb: 'much' },
      'memoryMb: expected a number from 0, got "much"; change it in cdk.json or with -c memoryMb=…',
    ],
    [{ fifo: 'yes' }, 'fifo: expected true or false, got "yes"; change it in cdk.json or with -c fifo=…'],
    [
      { compute: 'batch' },
      'compute: expected one of lambda, lambda-gpu, ecs, ecs-gpu, got "batch"; change it in cdk.json or with -c compute=…',
    ],
    [
      { gpuMemoryGiB: 16 },
      'gpuMemoryGiB: expected only with compute=lambda-gpu or ecs-gpu, got it with compute=lambda; leave it out',
    ],
    [
      { stackName: 'my stack' },
      'stackName: expected a letter followed by letters, digits and hyphens, at most 128 in all, got "my stack"; ' +
        'change it in cdk.json or with -c stackName=…',
    ],
    [
      { alarmTopicArn: 'arn:aws:sqs:eu-central-1:123456789012:on-call' },
      'alarmTopicArn: expected the ARN of an SNS topic, arn:aws:sns:REGION:ACCOUNT:NAME, got ' +
        '"arn:aws:sqs:eu-central-1:123456789012:on-call"; change it in cdk.json or with -c alarmTopicArn=…',
    ],
    [
      { canaryMinutes: 10 },
      'canaryMinutes: expected only with canaryPercent, got 10 without it; give both, or leave it out',
    ],
    [
      { fifo: 'yes', batchsize: 1 },
      'fifo: expected true or false, got "yes"; change it in cdk.json or with -c fifo=…; ' +
        'batchsize: expected a context key of this app, got an unknown one; did you mean batchSize, a whole number from 1 to 10000?',
    ],
  ])('%j is refused in one sentence', (context, sentence) => {
    expect(() => readContext(context)).toThrow(new Error(sentence));
  });
});
