import { describe, expect, it } from '@jest/globals';
import { Duration } from 'aws-cdk-lib';
import { Match } from 'aws-cdk-lib/assertions';
import { SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { Key } from 'aws-cdk-lib/aws-kms';
import { ecsCompute, ecsGpuCompute } from '../../infra/index.ts';
import { loadConfig } from '../../lambda/hosts/config.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import {
  containerIn,
  createScoring,
  createStack,
  deployedEnvironment,
  endpointsIn,
  only,
  templateOf,
  workerEnvironmentIn,
} from '../helpers/stacks.ts';
import { rightsIn } from './policies.ts';

const TASK = 'AWS::ECS::TaskDefinition';
const SERVICE = 'AWS::ECS::Service';

describe('ecs', () => {
  const template = templateOf(createScoring({ compute: ecsCompute() }));

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

  it('logs without waiting for the log, to a group of its own', () => {
    expect(containerIn(template).LogConfiguration).toMatchObject({
      Options: { 'awslogs-group': { Ref: expect.stringContaining('ecsLog') }, mode: 'non-blocking' },
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
    own.hasResourceProperties('AWS::KMS::Key', {
      KeyPolicy: {
        Statement: Match.arrayWith([Match.objectLike({ Principal: { Service: 'fargate.amazonaws.com' } })]),
      },
    });
  });
});

describe('the environment of a worker', () => {
  const options = {
    timeout: Duration.seconds(30),
    stopTimeout: Duration.seconds(40),
    pipelineDepth: 3,
    maxPolls: 9,
  };

  it.each([
    ['ecs', ecsCompute(options)],
    ['ecs-gpu', ecsGpuCompute(options)],
  ])('of %s is one that the worker accepts, with batch size, window, times and region', (_, compute) => {
    const props = { batchSize: 500, window: Duration.millis(20), results: ['queue', 'table'] } as const;
    const scoring = createScoring({ compute, ...props });
    const environment = workerEnvironmentIn(templateOf(scoring));
    expect(loadConfig(deployedEnvironment(environment))).toMatchObject({
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
    // Not every instance names it.
    expect(environment.AWS_REGION).toEqual({ Ref: 'AWS::Region' });
  });

  it('hides messages as long as the queue says, which is a batch with its window and a minute at least', () => {
    const compute = ecsCompute({ timeout: Duration.seconds(80) });
    const template = templateOf(createScoring({ compute, window: Duration.seconds(7) }));
    template.hasResourceProperties('AWS::SQS::Queue', { VisibilityTimeout: 87 });
    expect(workerEnvironmentIn(template)[CONFIG_KEYS.visibilitySeconds]).toBe('87');
  });

  it('may gather more than ten records of a FIFO queue, in a window', () => {
    const props = { fifo: true, batchSize: 50, window: Duration.seconds(2) };
    expect(workerEnvironmentIn(templateOf(createScoring({ compute: ecsCompute(), ...props })))).toMatchObject({
      [CONFIG_KEYS.batchSize]: '50',
      [CONFIG_KEYS.windowSeconds]: '2',
    });
  });
});

describe('the network of tasks', () => {
  it('is one of its own, which leads to what tasks on Fargate call, and nowhere else', () => {
    const template = templateOf(createScoring({ compute: ecsCompute() }));
    expect(endpointsIn(template)).toEqual(['dynamodb', 'ecr.api', 'ecr.dkr', 'logs', 's3', 'sqs']);
    template.resourceCountIs('AWS::EC2::InternetGateway', 0);
    template.resourceCountIs('AWS::EC2::NatGateway', 0);
    expect(only(template, SERVICE)).toMatchObject({
      NetworkConfiguration: { AwsvpcConfiguration: { AssignPublicIp: 'DISABLED' } },
    });
    // The layers of images lie in a bucket of ECR.
    const endpoints = Object.values(template.findResources('AWS::EC2::VPCEndpoint'));
    const allowed = rightsIn(endpoints.flatMap(({ Properties }) => Properties.PolicyDocument.Statement));
    expect(allowed).toContain('s3:GetObject arn:aws:s3:::prod-<AWS::Region>-starport-layer-bucket/*');
  });

  it('leads to ECS too where instances register with it', () => {
    const template = templateOf(createScoring({ compute: ecsGpuCompute() }));
    expect(endpointsIn(template)).toEqual(expect.arrayContaining(['ecs', 'ecs-agent', 'ecs-telemetry']));
  });

  it.each([
    ['private', SubnetType.PRIVATE_WITH_EGRESS, 'DISABLED'],
    ['public', SubnetType.PUBLIC, 'ENABLED'],
  ] as const)('may exist already, with %s subnets', (_, subnetType, AssignPublicIp) => {
    const stack = createStack();
    const vpc = new Vpc(stack, 'Own', { restrictDefaultSecurityGroup: false });
    const subnets = { subnetType };
    const template = templateOf(createScoring({ compute: ecsCompute({ vpc, subnets }) }, stack));
    template.resourceCountIs('AWS::EC2::VPC', 1);
    template.resourceCountIs('AWS::EC2::VPCEndpoint', 0);
    const Subnets = stack.resolve(vpc.selectSubnets(subnets).subnetIds);
    expect(only(template, SERVICE)).toMatchObject({
      NetworkConfiguration: { AwsvpcConfiguration: { AssignPublicIp, Subnets } },
    });
  });
});
