import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { stackOf } from '../helpers/stacks.ts';

const folder = mkdtempSync(join(tmpdir(), 'batchscore-stack-'));
afterAll(() => rmSync(folder, { recursive: true }));

const priceList = (name: string, content: string): string => {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
};

describe('the stack of the app', () => {
  it('has every setting of the context', () => {
    const topic = 'arn:aws:sns:eu-central-1:123456789012:on-call';
    const template = Template.fromStack(
      stackOf({
        defaultModel: 'tickets',
        batchSize: 20,
        windowSeconds: 2,
        latencyTargetSeconds: 77,
        maxReceiveCount: 7,
        results: 'queue,table,bucket',
        resultsPerMessage: 'fill',
        resultMessageBytes: '131072',
        resultTtlSeconds: 86_400,
        resultExpiryDays: '400',
        payloadExpiryDays: 20,
        retainData: false,
        logRetentionDays: 7,
        alarmTopicArn: topic,
        prices: priceList('own.json', '{"date": "2030-01", "lambdaX86GbSecond": 1}'),
        maxBatchRows: 32,
        checkPercent: 5,
        architecture: 'x86_64',
        memoryMb: 512,
        ephemeralStorageMb: 2048,
        timeoutSeconds: 10,
        maximumConcurrency: 3,
        reservedConcurrency: 4,
      }),
    );
    template.hasResourceProperties('AWS::Lambda::Function', {
      Architectures: ['x86_64'],
      MemorySize: 512,
      EphemeralStorage: { Size: 2048 },
      Timeout: 10,
      ReservedConcurrentExecutions: 4,
    });
    const [scoringFunction] = Object.values(template.findResources('AWS::Lambda::Function'));
    expect(scoringFunction?.Properties.Environment.Variables).toMatchObject({
      BATCHSCORE_DEFAULT_MODEL: 'tickets',
      BATCHSCORE_BATCH_SIZE: '20',
      BATCHSCORE_WINDOW_SECONDS: '2',
      BATCHSCORE_RESULTS: 'queue,table,bucket',
      BATCHSCORE_RESULTS_PER_MESSAGE: 'fill',
      BATCHSCORE_RESULT_MESSAGE_BYTES: '131072',
      BATCHSCORE_RESULT_TTL_SECONDS: '86400',
      BATCHSCORE_MAX_BATCH_ROWS: '32',
      BATCHSCORE_CHECK_PERCENT: '5',
    });
    template.hasResourceProperties('AWS::Lambda::EventSourceMapping', { ScalingConfig: { MaximumConcurrency: 3 } });
    template.hasResourceProperties('AWS::SQS::Queue', { RedrivePolicy: { maxReceiveCount: 7 }, VisibilityTimeout: 62 });
    template.hasResourceProperties('AWS::CloudWatch::Alarm', { Threshold: 77 });
    template.allResourcesProperties('AWS::CloudWatch::Alarm', { AlarmActions: [topic] });
    template.allResourcesProperties('AWS::Logs::LogGroup', { RetentionInDays: 7 });
    template.allResources('AWS::S3::Bucket', { DeletionPolicy: 'Delete' });
    for (const ExpirationInDays of [20, 400]) {
      const Rules = [Match.objectLike({ ExpirationInDays })];
      template.hasResourceProperties('AWS::S3::Bucket', { LifecycleConfiguration: { Rules } });
    }
    const dashboard = JSON.stringify(template.findResources('AWS::CloudWatch::Dashboard'));
    expect(dashboard).toContain('2030-01');
    expect(dashboard).toContain('* 1.000000000000');
  });

  it('has every setting of the context that a service of workers knows', () => {
    const common = {
      minimumTasks: '1',
      maximumTasks: '6',
      backlogPerTask: 5000,
      stopTimeoutSeconds: 100,
      timeoutSeconds: '70',
      windowSeconds: '0.5',
      vcpus: '2',
      memoryMb: 8192,
      spot: 'true',
    };
    const onFargate = Template.fromStack(stackOf({ ...common, compute: 'ecs', ephemeralStorageMb: 40_960 }));
    onFargate.hasResourceProperties('AWS::ECS::TaskDefinition', {
      Cpu: '2048',
      Memory: '8192',
      EphemeralStorage: { SizeInGiB: 40 },
      ContainerDefinitions: [
        Match.objectLike({
          StopTimeout: 100,
          Environment: Match.arrayWith([
            { Name: 'BATCHSCORE_WINDOW_SECONDS', Value: '0.5' },
            { Name: 'BATCHSCORE_TIMEOUT_SECONDS', Value: '70' },
            { Name: 'BATCHSCORE_STOP_SECONDS', Value: '100' },
          ]),
        }),
      ],
    });
    onFargate.hasResourceProperties('AWS::ApplicationAutoScaling::ScalableTarget', { MinCapacity: 1, MaxCapacity: 6 });
    onFargate.hasResourceProperties('AWS::ApplicationAutoScaling::ScalingPolicy', {
      TargetTrackingScalingPolicyConfiguration: Match.objectLike({ TargetValue: 5000 }),
    });
    onFargate.hasResourceProperties('AWS::ECS::Service', {
      CapacityProviderStrategy: [{ CapacityProvider: 'FARGATE_SPOT', Weight: 1 }],
    });
    const ofGpus = { ...common, compute: 'ecs-gpu', capacity: 'asg', gpuCount: 1, gpuMemoryGiB: '20' };
    const onGpus = Template.fromStack(stackOf({ ...ofGpus, instanceTypes: 'g4dn.xlarge,g6.xlarge, g5.xlarge' }));
    onGpus.hasResourceProperties('AWS::AutoScaling::AutoScalingGroup', {
      MixedInstancesPolicy: {
        LaunchTemplate: { Overrides: [{ InstanceType: 'g6.xlarge' }, { InstanceType: 'g5.xlarge' }] },
        InstancesDistribution: { OnDemandPercentageAboveBaseCapacity: 0 },
      },
    });
  });

  it('opens what the former key has encrypted', () => {
    const formerKeyArn = 'arn:aws:kms:eu-central-1:123456789012:key/0a1b';
    const policies = Object.values(Template.fromStack(stackOf({ formerKeyArn })).findResources('AWS::IAM::Policy'));
    const statements = policies.flatMap(({ Properties }) => Properties.PolicyDocument.Statement);
    expect(statements).toContainEqual({ Action: 'kms:Decrypt', Effect: 'Allow', Resource: formerKeyArn });
  });

  it('says how much is logged, whether it is traced, and how new versions take over', () => {
    const stepsOf = (context: Readonly<Record<string, unknown>>): Template => Template.fromStack(stackOf(context));
    const template = stepsOf({ logLevel: 'debug', tracing: 'true', provisionedConcurrency: 2, canaryPercent: '20' });
    template.hasResourceProperties('AWS::Lambda::Function', {
      LoggingConfig: { ApplicationLogLevel: 'DEBUG' },
      TracingConfig: { Mode: 'Active' },
    });
    template.hasResourceProperties('AWS::Lambda::Alias', {
      ProvisionedConcurrencyConfig: { ProvisionedConcurrentExecutions: 2 },
    });
    const canary = (CanaryInterval: number) => ({
      TrafficRoutingConfig: { TimeBasedCanary: { CanaryInterval, CanaryPercentage: 20 } },
    });
    template.hasResourceProperties('AWS::CodeDeploy::DeploymentConfig', canary(15));
    const slow = stepsOf({ canaryPercent: 20, canaryMinutes: 60 });
    slow.hasResourceProperties('AWS::CodeDeploy::DeploymentConfig', canary(60));
  });

  it('has jobs as the context says', () => {
    const context = { jobs: 'true', jobsBucket: 'files', jobsInputPrefix: 'a/', jobsOutputPrefix: 'b/' };
    const numbers = { jobsConcurrency: '7', jobsReservedConcurrency: '9', jobsMemoryMb: '2048', jobsPartMb: '32' };
    const template = Template.fromStack(stackOf({ ...context, ...numbers }));
    const functions = Object.values(template.findResources('AWS::Lambda::Function')).map(
      ({ Properties }) => Properties,
    );
    const variables = Object.assign({}, ...functions.map(({ Environment }) => Environment?.Variables));
    expect(variables).toMatchObject({
      BATCHSCORE_JOBS_BUCKET: 'files',
      BATCHSCORE_JOBS_INPUT_PREFIX: 'a/',
      BATCHSCORE_JOBS_OUTPUT_PREFIX: 'b/',
      BATCHSCORE_JOBS_CONCURRENCY: '7',
      BATCHSCORE_JOBS_PART_BYTES: '33554432',
    });
    template.hasResourceProperties('AWS::Lambda::Function', { MemorySize: 2048, ReservedConcurrentExecutions: 9 });
    expect(Object.keys(template.toJSON().Outputs)).toEqual(expect.arrayContaining(['jobStateMachine', 'jobBucket']));
  });

  it('is deployed without a dashboard, and switched off, when the context says so', () => {
    const template = Template.fromStack(stackOf({ dashboard: 'false', eventSourceEnabled: 'false' }));
    template.resourceCountIs('AWS::CloudWatch::Dashboard', 0);
    template.hasResourceProperties('AWS::Lambda::EventSourceMapping', { Enabled: false });
  });

  it.each([
    [{ logRetentionDays: 8 }, 'logRetentionDays: expected one of 1, 3, 5, 7, 14, 30,'],
    [
      { prices: '/no/such.json' },
      'prices: expected a JSON file, got /no/such.json, which cannot be read as one; check',
    ],
    [{ prices: priceList('typo.json', '{"lambda": 1}') }, 'got what is not: expected no other keys, got "lambda"'],
    [
      { prices: priceList('text.json', '{"s3ThousandPuts": "1"}') },
      's3ThousandPuts: expected US dollars as a number of at least 0, got "1"',
    ],
  ])('is refused for %j', (context, sentence) => {
    expect(() => stackOf(context)).toThrow(sentence);
  });
});
