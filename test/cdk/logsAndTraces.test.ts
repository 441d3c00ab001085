import { describe, expect, it } from '@jest/globals';
import { NestedStack, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Bucket, EventType } from 'aws-cdk-lib/aws-s3';
import { SqsDestination } from 'aws-cdk-lib/aws-s3-notifications';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { BatchScoring, type Compute, ecsCompute, lambdaCompute, lambdaGpuCompute } from '../../infra/index.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import {
  createApp,
  createScoring,
  createStack,
  endpointsIn,
  environmentIn,
  only,
  SCORING,
  synthesize,
  templateOf,
} from '../helpers/stacks.ts';
import { rightsOf } from './policies.ts';

const FUNCTION = 'AWS::Lambda::Function';

describe.each([
  ['lambda', lambdaCompute()],
  ['lambda-gpu', lambdaGpuCompute()],
] as const)('of %s', (_, compute) => {
  // At its own level warn or error Lambda would drop the metrics.
  it.each([
    [undefined, undefined],
    ['debug', 'DEBUG'],
    ['info', undefined],
    ['error', undefined],
  ] as const)('the log is JSON, at level %s, of which Lambda is told %s', (logLevel, told) => {
    const template = synthesize({ compute, ...(logLevel && { logLevel }) });
    expect(only(template, FUNCTION, SCORING).LoggingConfig).toEqual({
      LogFormat: 'JSON',
      LogGroup: { Ref: expect.stringContaining('Log') },
      ...(told && { ApplicationLogLevel: told }),
    });
    expect(environmentIn(template)[CONFIG_KEYS.logLevel]).toBe(logLevel);
  });

  it('traces are taken where they are asked for, with the right to send them', () => {
    const scoring = createScoring({ compute, tracing: true });
    expect(only(templateOf(scoring), FUNCTION, SCORING)).toMatchObject({ TracingConfig: { Mode: 'Active' } });
    expect(rightsOf(scoring, 'Role', 'xray')).toEqual(['xray:PutTelemetryRecords *', 'xray:PutTraceSegments *']);
  });

  it('traces are not taken otherwise', () => {
    const template = synthesize({ compute });
    expect(only(template, FUNCTION, SCORING)).not.toHaveProperty('TracingConfig');
    expect(JSON.stringify(template.toJSON())).not.toContain('xray');
  });
});

it('traces from a GPU go through an endpoint of its own network', () => {
  expect(endpointsIn(synthesize({ compute: lambdaGpuCompute(), tracing: true }))).toContain('xray');
});

describe('functions of the CDK that come with a deployment', () => {
  it.each([
    ['one that closes a default security group', { compute: ecsCompute() }, /VpcRestrictDefaultSG/],
    ['one that sets the notifications of a bucket', { jobs: {} }, /BucketNotificationsHandler/],
  ])('have a log group that expires: %s', (_, props, id) => {
    const stack = createStack(createApp({ context: { '@aws-cdk/aws-ec2:restrictDefaultSecurityGroup': true } }));
    const template = templateOf(createScoring<Compute>({ ...props, logRetention: RetentionDays.ONE_WEEK }, stack));
    const [handler] = Object.entries(template.findResources(FUNCTION)).filter(([found]) => id.test(found));
    const { Ref = '' } = handler?.[1].Properties.LoggingConfig.LogGroup ?? {};
    expect(template.findResources('AWS::Logs::LogGroup')[Ref]?.Properties).toEqual({ RetentionInDays: 7 });
  });

  it('are created only if the app asks for them: the network of tasks needs none', () => {
    templateOf(createScoring({ compute: ecsCompute() })).resourceCountIs(FUNCTION, 0);
  });

  it('share a log group if one part of the CDK has several: those that replicate a table', () => {
    const scoring = createScoring({ results: ['table'], tableProps: { replicationRegions: ['eu-west-1'] } });
    const groups = templateOf(scoring).findResources('AWS::Logs::LogGroup');
    expect(Object.keys(groups).filter((id) => id.includes('ReplicaProvider'))).toHaveLength(1);
    const [provider] = Stack.of(scoring)
      .node.findAll()
      .filter((construct) => construct instanceof NestedStack);
    const handlers = Object.values(Template.fromStack(provider as NestedStack).findResources(FUNCTION));
    expect(handlers.length).toBeGreaterThan(1);
    const used = new Set(handlers.map(({ Properties }) => JSON.stringify(Properties.LoggingConfig.LogGroup)));
    expect([...used]).toEqual([expect.stringContaining('ReplicaProvider')]);
  });

  it('share it with a second deployment of the stack', () => {
    const stack = createStack();
    const scoring = createScoring({ jobs: {} }, stack);
    new BatchScoring(stack, 'Second', { image: scoring.image, jobs: {} });
    const [handler, other] = handlersIn(templateOf(scoring));
    expect([handler.LoggingConfig, other]).toEqual([
      { LogGroup: { Ref: expect.stringMatching(/^Scoring/) } },
      undefined,
    ]);
  });

  it('are left alone where the app had them before, and so is the rest of the app', () => {
    const stack = createStack();
    new Bucket(stack, 'Uploads').addEventNotification(
      EventType.OBJECT_CREATED,
      new SqsDestination(new Queue(stack, 'Told')),
    );
    const scoring = createScoring({ jobs: {} }, stack);
    expect(handlersIn(templateOf(scoring))).toEqual([
      expect.not.objectContaining({ LoggingConfig: expect.anything() }),
    ]);
  });
});

function handlersIn(template: Template) {
  const functions = Object.entries(template.findResources(FUNCTION));
  return functions
    .filter(([id]) => id.startsWith('BucketNotificationsHandler'))
    .map(([, { Properties }]) => Properties);
}
