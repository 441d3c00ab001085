import { describe, expect, it } from '@jest/globals';
import { Duration, Size, Stack } from 'aws-cdk-lib';
import { Vpc } from 'aws-cdk-lib/aws-ec2';
import { Key } from 'aws-cdk-lib/aws-kms';
import { lambdaCompute, lambdaGpuCompute } from '../../infra/index.ts';
import { loadConfig } from '../../lambda/hosts/config.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import {
  createApp,
  createScoring,
  createStack,
  deployedEnvironment,
  endpointsIn,
  environmentIn,
  only,
  SCORING,
  synthesize,
  templateOf,
} from '../helpers/stacks.ts';
import { rightsOf } from './policies.ts';

const FUNCTION = 'AWS::Lambda::Function';

describe('lambda', () => {
  it('runs an image on arm64 with one vCPU for at most a minute unless said otherwise', () => {
    const scoringFunction = only(synthesize(), FUNCTION);
    expect(scoringFunction).toMatchObject({
      PackageType: 'Image',
      Architectures: ['arm64'],
      MemorySize: 1769,
      Timeout: 60,
    });
    expect(JSON.stringify(scoringFunction.Code)).toContain('scoring:v1');
  });
});

describe('lambda-gpu', () => {
  const template = synthesize({
    compute: lambdaGpuCompute({ gpuMemory: Size.gibibytes(24), minimumEnvironments: 0, maximumEnvironments: 5 }),
  });

  it('has the GPU on the function, on x86_64', () => {
    expect(only(template, FUNCTION, SCORING)).toMatchObject({
      PackageType: 'Image',
      Architectures: ['x86_64'],
      AcceleratorConfig: { AcceleratorMemorySize: 24 },
    });
  });

  it('is another function than that of lambda, so that a stack can change between the two', () => {
    expect(Object.keys(template.findResources(FUNCTION))).not.toEqual(
      Object.keys(synthesize().findResources(FUNCTION)),
    );
  });

  it('runs one invocation at a time on each GPU', () => {
    const [[capacity = ''] = []] = Object.entries(template.findResources('AWS::Lambda::CapacityProvider'));
    expect(only(template, FUNCTION, SCORING).CapacityProviderConfig).toEqual({
      LambdaManagedInstancesCapacityProviderConfig: {
        CapacityProviderArn: { 'Fn::GetAtt': [capacity, 'Arn'] },
        PerExecutionEnvironmentMaxConcurrency: 1,
        ExecutionEnvironmentMemoryGiBPerVCpu: 4,
      },
    });
  });

  it('scales the published version, to zero if asked, and pays for no unpublished one', () => {
    expect(only(template, 'AWS::Lambda::Version')).toMatchObject({
      FunctionScalingConfig: { MinExecutionEnvironments: 0, MaxExecutionEnvironments: 5 },
    });
    expect(only(template, FUNCTION, SCORING)).toMatchObject({ PublishToLatestPublished: false });
    expect(only(template, FUNCTION, SCORING)).not.toHaveProperty('FunctionScalingConfig');
  });

  it('feeds the alias of the published version, no more invocations than there are GPUs', () => {
    const [[version = ''] = []] = Object.entries(template.findResources('AWS::Lambda::Version'));
    const [[alias = ''] = []] = Object.entries(template.findResources('AWS::Lambda::Alias'));
    expect(only(template, 'AWS::Lambda::Alias')).toMatchObject({
      FunctionVersion: { 'Fn::GetAtt': [version, 'Version'] },
      Name: 'live',
    });
    const mapping = only(template, 'AWS::Lambda::EventSourceMapping');
    expect(mapping).toMatchObject({ ScalingConfig: { MaximumConcurrency: 5 } });
    expect(JSON.stringify(mapping.FunctionName)).toContain(alias);
    expect(JSON.stringify(mapping.FunctionName)).toContain(':live');
  });

  it('runs on CUDA, never silently on the CPU, and in one thread, so that models lie on the device once', () => {
    const environment = environmentIn(template);
    expect(environment).toMatchObject({ [CONFIG_KEYS.maxBatchElements]: '67108864' });
    expect(environment).toMatchObject({ [CONFIG_KEYS.providers]: 'cuda', AWS_LAMBDA_NODEJS_WORKER_COUNT: '1' });
    expect(environment).not.toHaveProperty(CONFIG_KEYS.allowProviderFallback);
  });

  it('has a network of its own that leads to AWS services alone', () => {
    template.resourceCountIs('AWS::EC2::NatGateway', 0);
    template.resourceCountIs('AWS::EC2::InternetGateway', 0);
    expect(endpointsIn(template)).toEqual(['dynamodb', 'logs', 's3', 'sqs']);
  });

  it('lets nothing into its instances, and only them into the endpoints', () => {
    const groups = template.findResources('AWS::EC2::SecurityGroup');
    const instances = Object.keys(groups).find((id) => id.includes('Instances'));
    expect(only(template, 'AWS::EC2::SecurityGroupIngress')).toMatchObject({
      FromPort: 443,
      ToPort: 443,
      SourceSecurityGroupId: { 'Fn::GetAtt': [instances, 'GroupId'] },
    });
    for (const { Properties } of Object.values(groups)) expect(Properties).not.toHaveProperty('SecurityGroupIngress');
  });

  it('reaches the principals and resources of its own account alone', () => {
    const ours = { 'aws:PrincipalAccount': { Ref: 'AWS::AccountId' } };
    const oursIfAny = { 'aws:ResourceAccount': { Ref: 'AWS::AccountId' } };
    const Condition = { StringEquals: ours, StringEqualsIfExists: oursIfAny };
    const Statement = [{ Effect: 'Allow', Principal: { AWS: '*' }, Action: '*', Resource: '*', Condition }];
    template.allResourcesProperties('AWS::EC2::VPCEndpoint', { PolicyDocument: { Statement } });
  });

  it('encrypts the disks of its instances with a key of your own, which Lambda may use for that alone', () => {
    const stack = createStack();
    const encryptionKey = new Key(stack, 'Key', { enableKeyRotation: true });
    const scoring = createScoring({ compute: lambdaGpuCompute(), encryptionKey }, stack);
    expect(only(templateOf(scoring), 'AWS::Lambda::CapacityProvider')).toMatchObject({
      KmsKeyArn: stack.resolve(encryptionKey.keyArn),
    });
    expect(rightsOf(scoring, 'Operator', 'kms')).toEqual([
      'kms:CreateGrant <Key> if {"Bool":{"kms:GrantIsForAWSResource":true}}',
      'kms:Decrypt <Key>',
      'kms:DescribeKey <Key>',
      'kms:GenerateDataKeyWithoutPlaintext <Key>',
      'kms:ReEncrypt* <Key>',
    ]);
    expect(only(template, 'AWS::Lambda::CapacityProvider')).not.toHaveProperty('KmsKeyArn');
  });

  it('runs in an existing network, and leaves it as it is', () => {
    const stack = createStack();
    const vpc = new Vpc(stack, 'Own', { restrictDefaultSecurityGroup: false });
    const inOwn = templateOf(createScoring({ compute: lambdaGpuCompute({ vpc }) }, stack));
    inOwn.resourceCountIs('AWS::EC2::VPC', 1);
    inOwn.resourceCountIs('AWS::EC2::VPCEndpoint', 0);
    expect(only(inOwn, 'AWS::Lambda::CapacityProvider')).toMatchObject({
      VpcConfig: { SubnetIds: vpc.privateSubnets.map(({ subnetId }) => stack.resolve(subnetId)) },
    });
  });

  it('uses the instance types that are allowed', () => {
    const compute = lambdaGpuCompute({ instanceTypes: ['g6.xlarge', 'g5.xlarge'] });
    synthesize({ compute }).hasResourceProperties('AWS::Lambda::CapacityProvider', {
      InstanceRequirements: { AllowedInstanceTypes: ['g6.xlarge', 'g5.xlarge'], Architectures: ['x86_64'] },
    });
  });
});

describe('the environment', () => {
  it.each([
    ['lambda', lambdaCompute()],
    ['lambda-gpu', lambdaGpuCompute()],
  ])('of %s is one that the runtime accepts', (_, compute) => {
    const same = { defaultModel: 'digits', results: ['queue', 'table', 'bucket'] } as const;
    const amounts = { maxBatchRows: 64, maxBatchElements: 1000, maxRequestRows: 10, checkPercent: 0, preload: false };
    const units = { deadlineMargin: Duration.millis(500), maxPayloadSize: Size.bytes(5) };
    const scoring = createScoring({ compute, ...same, tuning: { ...amounts, ...units } });
    expect(loadConfig(deployedEnvironment(environmentIn(templateOf(scoring))))).toMatchObject({
      ...same,
      ...amounts,
      serviceName: scoring.serviceName,
      batchSize: 100,
      windowSeconds: 1,
      deadlineMarginMs: 500,
      maxPayloadBytes: 5,
    });
  });

  it('has the variables that are added to it, for which no name of another is lost', () => {
    const ownNames = Object.keys(environmentIn(synthesize()));
    const environment = environmentIn(synthesize({ environment: { NODE_OPTIONS: '--no-warnings', TZ: 'UTC' } }));
    expect(environment).toMatchObject({ NODE_OPTIONS: '--no-warnings', TZ: 'UTC' });
    expect(Object.keys(environment).toSorted()).toEqual([...ownNames, 'NODE_OPTIONS', 'TZ'].toSorted());
  });

  it('takes other providers, and a fallback, when they are asked for', () => {
    const tuning = { providers: 'cuda,cpu', allowProviderFallback: true };
    expect(environmentIn(synthesize({ compute: lambdaGpuCompute(), tuning }))).toMatchObject({
      [CONFIG_KEYS.providers]: 'cuda,cpu',
      [CONFIG_KEYS.allowProviderFallback]: 'true',
    });
  });

  it('names two deployments in one account differently', () => {
    const nameIn = (stackName: string) => createScoring({}, new Stack(createApp(), 'Test', { stackName })).serviceName;
    expect(nameIn('live')).toMatch(/^live-Scoring-[A-Za-z0-9]{1,8}$/);
    expect(nameIn('trial')).not.toBe(nameIn('live'));
  });
});
