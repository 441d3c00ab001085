import { beforeAll, describe, expect, it } from '@jest/globals';
import { Duration } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { Key } from 'aws-cdk-lib/aws-kms';
import { ecsCompute, ecsGpuCompute } from '../../infra/index.ts';
import { loadConfig } from '../../lambda/hosts/config.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { containerIn, createScoring, createStack, only, templateOf, workerEnvironmentIn } from '../helpers/stacks.ts';
import { policiesOf } from './policies.ts';

const TASK = 'AWS::ECS::TaskDefinition';
const SERVICE = 'AWS::ECS::Service';

const templateWith = (options: Parameters<typeof ecsCompute>[0] = {}) =>
  templateOf(createScoring({ compute: ecsCompute(options) }));

describe('ecs', () => {
  let template: Template;
  beforeAll(() => {
    template = templateWith();
  });

  it('runs the image on Fargate, on arm64, with one vCPU and 2 GiB', () => {
    expect(only(template, TASK)).toMatchObject({
      RequiresCompatibilities: ['FARGATE'],
      NetworkMode: 'awsvpc',
      RuntimePlatform: { CpuArchitecture: 'ARM64', OperatingSystemFamily: 'LINUX' },
      Cpu: '1024',
      Memory: '2048',
    });
    expect(JSON.stringify(containerIn(template).Image)).toContain('scoring:v1');
    expect(only(template, SERVICE)).toMatchObject({
      CapacityProviderStrategy: [{ CapacityProvider: 'FARGATE', Weight: 1 }],
    });
    template.resourceCountIs('AWS::Lambda::EventSourceMapping', 0);
  });

  it('has new tasks ready before old ones end, and goes back when they never are', () => {
    expect(only(template, SERVICE)).toMatchObject({
      DeploymentConfiguration: {
        MinimumHealthyPercent: 100,
        MaximumPercent: 200,
        DeploymentCircuitBreaker: { Enable: true, Rollback: true },
      },
      AvailabilityZoneRebalancing: 'DISABLED',
    });
    expect(containerIn(template).HealthCheck).toMatchObject({ Command: ['CMD', 'node', 'healthCheck.js'] });
    expect(workerEnvironmentIn(template)[CONFIG_KEYS.healthPort]).toBe('8080');
  });

  it('keeps the number of tasks through a deployment, and runs none while it is switched off', () => {
    expect(only(template, SERVICE)).not.toHaveProperty('DesiredCount');
    const off = templateOf(createScoring({ compute: ecsCompute({ minimumTasks: 2 }), eventSourceEnabled: false }));
    expect(only(off, SERVICE)).toMatchObject({ DesiredCount: 0 });
    off.resourceCountIs('AWS::ApplicationAutoScaling::ScalableTarget', 0);
  });

  it('belongs to a cluster, with its capacity, before the service starts and until it is gone', () => {
    const [service] = Object.values(template.findResources(SERVICE));
    const [associations = ''] = Object.keys(template.findResources('AWS::ECS::ClusterCapacityProviderAssociations'));
    expect(service?.DependsOn).toContain(associations);
  });

  it('may protect its own tasks, and those alone', () => {
    const [cluster] = Object.keys(template.findResources('AWS::ECS::Cluster'));
    const statements = policiesOf(template, 'ComputeecsRole').filter(({ Action }) =>
      JSON.stringify(Action).includes('ecs:'),
    );
    expect(statements).toEqual([
      {
        Effect: 'Allow',
        Action: ['ecs:GetTaskProtection', 'ecs:UpdateTaskProtection'],
        Resource: {
          'Fn::Join': [
            '',
            [
              ...['arn:', { Ref: 'AWS::Partition' }, ':ecs:', { Ref: 'AWS::Region' }],
              ...[':', { Ref: 'AWS::AccountId' }, ':task/', { Ref: cluster }, '/*'],
            ],
          ],
        },
      },
    ]);
  });

  it('can write nowhere but to /tmp', () => {
    expect(containerIn(template)).toMatchObject({
      ReadonlyRootFilesystem: true,
      MountPoints: [{ ContainerPath: '/tmp', SourceVolume: 'tmp', ReadOnly: false }],
    });
    expect(only(template, TASK)).toMatchObject({ Volumes: [{ Name: 'tmp' }] });
  });

  it('is granted what scoring needs', () => {
    const actions = JSON.stringify(policiesOf(template, 'ComputeecsRole'));
    for (const action of ['sqs:ReceiveMessage', 'sqs:ChangeMessageVisibility', 's3:PutObject', 'sqs:SendMessage']) {
      expect(actions).toContain(`"${action}"`);
    }
  });

  it('logs without waiting for the log, to a group of its own', () => {
    const [logGroup] = Object.keys(template.findResources('AWS::Logs::LogGroup')).filter((id) => id.includes('ecsLog'));
    expect(containerIn(template).LogConfiguration).toMatchObject({
      Options: { 'awslogs-group': { Ref: logGroup }, mode: 'non-blocking' },
    });
  });

  it('encrypts log and disk with a key of your own', () => {
    const stack = createStack();
    const encryptionKey = new Key(stack, 'Key');
    const own = templateOf(createScoring({ compute: ecsCompute(), encryptionKey }, stack));
    const [key] = Object.keys(own.findResources('AWS::KMS::Key'));
    own.allResourcesProperties('AWS::Logs::LogGroup', { KmsKeyId: stack.resolve(encryptionKey.keyArn) });
    expect(only(own, 'AWS::ECS::Cluster')).toMatchObject({
      Configuration: { ManagedStorageConfiguration: { FargateEphemeralStorageKmsKeyId: { Ref: key } } },
    });
    const principals = only(own, 'AWS::KMS::Key').KeyPolicy as { Statement: { Principal: unknown }[] };
    expect(principals.Statement.map(({ Principal }) => Principal)).toContainEqual({
      Service: 'fargate.amazonaws.com',
    });
  });
});

describe('the environment of a worker', () => {
  it.each([
    [
      'ecs',
      ecsCompute({
        timeout: Duration.seconds(30),
        stopTimeout: Duration.seconds(40),
        pipelineDepth: 3,
        maxPolls: 9,
      }),
    ],
    [
      'ecs-gpu',
      ecsGpuCompute({
        timeout: Duration.seconds(30),
        stopTimeout: Duration.seconds(40),
        pipelineDepth: 3,
        maxPolls: 9,
      }),
    ],
  ])('of %s is one that the worker accepts, with batch size, window and times', (_, compute) => {
    const scoring = createScoring({
      compute,
      batchSize: 500,
      window: Duration.millis(20),
      results: ['queue', 'table'],
    });
    const environment = Object.entries(workerEnvironmentIn(templateOf(scoring))).map(([key, value]) => [
      key,
      typeof value === 'string' ? value : `https://deployed.example/${key}`,
    ]);
    expect(loadConfig(Object.fromEntries(environment))).toMatchObject({
      serviceName: scoring.serviceName,
      batchSize: 500,
      windowSeconds: 0.02,
      timeoutSeconds: 30,
      stopSeconds: 40,
      visibilitySeconds: 60,
      pipelineDepth: 3,
      maxPolls: 9,
      results: ['queue', 'table'],
    });
  });

  it('names the region, which not every instance does', () => {
    const environment = workerEnvironmentIn(templateOf(createScoring({ compute: ecsGpuCompute() })));
    expect(environment.AWS_REGION).toEqual({ Ref: 'AWS::Region' });
  });

  it('hides messages as long as the queue says, which is a batch with its window and a minute at least', () => {
    const compute = ecsCompute({ timeout: Duration.seconds(80) });
    const template = templateOf(createScoring({ compute, window: Duration.seconds(7) }));
    template.hasResourceProperties('AWS::SQS::Queue', { VisibilityTimeout: 87 });
    expect(workerEnvironmentIn(template)[CONFIG_KEYS.visibilitySeconds]).toBe('87');
  });

  it('may gather more than ten records of a FIFO queue, in a window', () => {
    const compute = ecsCompute();
    const template = templateOf(createScoring({ compute, fifo: true, batchSize: 50, window: Duration.seconds(2) }));
    expect(workerEnvironmentIn(template)).toMatchObject({
      [CONFIG_KEYS.batchSize]: '50',
      [CONFIG_KEYS.windowSeconds]: '2',
    });
  });
});
