import { InstanceType } from 'aws-cdk-lib/aws-ec2';
import { ManagedPolicy, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import {
  type Alias,
  Architecture,
  CapacityProvider,
  CfnCapacityProvider,
  CfnFunction,
  InstanceTypeFilter,
  Function as LambdaFunction,
} from 'aws-cdk-lib/aws-lambda';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import { type Duration, Lazy, type Size, Stack } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { EPHEMERAL_STORAGE_MB } from '../../lambda/core/limits.ts';
import { createLogGroup, resourceOf } from '../common/created.ts';
import { acknowledge, acknowledgeKeyActions, acknowledgeManagedPolicy } from '../common/nag.ts';
import { exceeds, oneOf, outside, unknownAtSynth } from '../common/problems.ts';
import { gibibytesOf, MIB_PER_GIB, mebibytesOf, secondsOf } from '../common/units.ts';
import { instanceProblems } from '../image/containerImage.ts';
import type { ComputeForm, FunctionCompute, Wiring } from './compute.ts';
import { concurrencyProblems, minVisibility } from './eventSource.ts';
import { createPrivateNetwork, type InstanceNetwork, networkProblems } from './privateNetwork.ts';
import { createLiveAlias, createScoringFunction, type FunctionResources, functionParts } from './scoringFunction.ts';

export interface LambdaGpuOptions extends FunctionResources, InstanceNetwork {
  /** Minimum GPU memory: 3, 6, 12, 16, 24 or 48 GiB. @default 16 GiB */
  readonly gpuMemory?: Size;
  /**
   * Memory without the GPU's, 2,048 to 32,768 MiB. There is one vCPU for each 4 GiB.
   * @default 8,192 MiB: half of a g4dn.xlarge
   */
  readonly memorySize?: Size;
  /** Size of `/tmp`, 512 to 10,240 MiB. @default 512 MiB, which is Lambda's own */
  readonly ephemeralStorageSize?: Size;
  /**
   * Maximum time of one invocation, whole seconds, 1 to 5,400. Loading the models may take as long, but at least 130
   * and at most 900 seconds.
   * @default 300 seconds
   */
  readonly timeout?: Duration;
  /**
   * Minimum GPUs, which always run. 0 scales to zero: idle time costs nothing, and a start takes minutes.
   * @default 1
   */
  readonly minimumEnvironments?: number;
  /** Maximum GPUs, at least 2 for each shard: SQS starts at least two invocations at a time from each. @default 2 */
  readonly maximumEnvironments?: number;
  /** Allowed EC2 instance types. @default Lambda chooses by `gpuMemory` */
  readonly instanceTypes?: readonly string[];
}

export interface GpuCompute extends FunctionCompute {
  readonly alias: Alias;
  /** Capacity provider that starts and terminates the instances. */
  readonly capacityProvider: CapacityProvider;
}

/**
 * Setting for a single thread. By default, Node initialises the function in a thread for each vCPU, and each thread
 * would load all models onto the device.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/lambda-managed-instances-nodejs-runtime.html
 */
const ONE_THREAD = { AWS_LAMBDA_NODEJS_WORKER_COUNT: '1' };

/** Estimated seconds to start an instance and load its models. AWS states minutes. */
const WAKE_SECONDS = 600;

/**
 * Returns compute that is a Lambda function with a GPU, on Lambda Managed Instances, from a container image.
 * @experimental It has not run on AWS
 */
export function lambdaGpuCompute(options: LambdaGpuOptions = {}): ComputeForm<GpuCompute> {
  const { minimumEnvironments = 1, maximumEnvironments = 2, instanceTypes } = options;
  const gpuMemoryGiB = gibibytesOf('gpuMemory', options.gpuMemory) ?? 16;
  const memoryMb = mebibytesOf('memorySize', options.memorySize) ?? 8192;
  const ephemeralStorageMb = mebibytesOf('ephemeralStorageSize', options.ephemeralStorageSize);
  const timeoutSeconds = secondsOf('timeout', options.timeout) ?? 300;
  // Each environment runs one invocation at a time.
  const concurrency = { reservedConcurrency: maximumEnvironments };
  const currentVersionOptions = {
    minExecutionEnvironments: minimumEnvironments,
    maxExecutionEnvironments: maximumEnvironments,
  };
  const settings = { ...options, architecture: ARCHITECTURE, memoryMb, ephemeralStorageMb, timeoutSeconds };
  return {
    kind: 'lambda-gpu',
    imageTarget: { stage: 'lambda-gpu', architecture: ARCHITECTURE, room: { memoryMb } },
    timeoutSeconds,
    wakeSeconds: minimumEnvironments === 0 ? WAKE_SECONDS : 0,
    problems: (batching) => [
      outside('ephemeralStorageSize', ephemeralStorageMb, EPHEMERAL_STORAGE_MB, 'MiB'),
      outside('timeout', timeoutSeconds, GPU_TIMEOUT_SECONDS, 'seconds'),
      oneOf('gpuMemory', gpuMemoryGiB, [3, 6, 12, 16, 24, 48]),
      ...instanceProblems(instanceTypes, gpuMemoryGiB, Math.ceil(memoryMb / MIB_PER_GIB / GIB_PER_VCPU)),
      ...networkProblems(options, 'instances'),
      outside('memorySize', memoryMb, { min: 2048, max: 32_768 }, 'MiB'),
      unknownAtSynth('minimumEnvironments', minimumEnvironments),
      outside('minimumEnvironments', minimumEnvironments, { min: 0, max: 15_000 }),
      exceeds(minimumEnvironments, maximumEnvironments) &&
        `maximumEnvironments: expected at least minimumEnvironments, ${minimumEnvironments}, ` +
          `got ${maximumEnvironments}; raise it`,
      ...concurrencyProblems(concurrency, batching, { name: 'maximumEnvironments', min: 1, max: 1000 }),
    ],
    minVisibility: (batching) => minVisibility(timeoutSeconds, batching),
    create(scope, wiring) {
      const environment = { ...wiring.environment, ...ONE_THREAD };
      const scoringFunction = createScoringFunction(
        scope,
        { ...settings, currentVersionOptions },
        { ...wiring, environment },
      );
      const { capacityProvider, ...network } = createCapacity(scope, options, wiring);
      runOn(scoringFunction, capacityProvider, gpuMemoryGiB);
      // Managed Instances run only published versions. The alias points to the latest one.
      const live = createLiveAlias(scope, scoringFunction);
      return {
        ...functionParts(scoringFunction, live, { ...concurrency, timeoutSeconds }, wiring),
        alias: live,
        capacityProvider,
        ...network,
      };
    },
  };
}

const ARCHITECTURE = Architecture.X86_64;

/**
 * Range behind a mapping. The models must load within 900 s.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/lambda-managed-instances.html
 */
const GPU_TIMEOUT_SECONDS = { min: 1, max: 5400 };

/** Creates the capacity provider that starts and terminates the instances, and their network if none is given. */
function createCapacity(scope: Construct, options: LambdaGpuOptions, wiring: Wiring) {
  const { vpc, subnets, securityGroup, endpoints } = createPrivateNetwork(scope, options, wiring);
  const logGroup = createLogGroup(scope, 'CapacityLog', wiring);
  const operatorRole = createOperatorRole(scope, logGroup, wiring.encryptionKey);
  const capacity = new CapacityProvider(scope, 'Capacity', {
    subnets,
    securityGroups: [securityGroup],
    architectures: [ARCHITECTURE],
    operatorRole,
    logGroup,
    kmsKey: wiring.encryptionKey,
    instanceTypeFilter:
      options.instanceTypes && InstanceTypeFilter.allow(options.instanceTypes.map((type) => new InstanceType(type))),
  });
  propagateTags(resourceOf(capacity, CfnCapacityProvider));
  // A version is published after its environments have started. They need the key of the disks, and S3 for models.
  capacity.node.addDependency(operatorRole, ...endpoints);
  return { capacityProvider: capacity, vpc, connections: securityGroup.connections };
}

/**
 * Propagates the stack's tags to the instances, which get no others. The oldest aws-cdk-lib that is supported does not
 * have this property.
 *
 * @see https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-lambda-capacityprovider-propagatetagsconfig.html
 */
function propagateTags(provider: CfnCapacityProvider): void {
  const produce = () => {
    const tags = Object.entries(provider.cdkTagManager.tagValues());
    return tags.length === 0
      ? undefined
      : { Mode: 'Explicit', ExplicitTags: tags.map(([Key, Value]) => ({ Key, Value })) };
  };
  provider.addPropertyOverride('PropagateTags', Lazy.any({ produce }));
}

/** Invocations must not share the GPU's memory. */
const INVOCATIONS_PER_ENVIRONMENT = 1;

/** Ratio of the instance types with GPUs. Other ratios leave memory or processors unused. */
const GIB_PER_VCPU = 4;

/** Runs a function on a provider's instances, with a GPU. */
function runOn(scoringFunction: LambdaFunction, capacity: CapacityProvider, gpuMemoryGiB: number): void {
  capacity.addFunction(scoringFunction, {
    perExecutionEnvironmentMaxConcurrency: INVOCATIONS_PER_ENVIRONMENT,
    executionEnvironmentMemoryGiBPerVCpu: GIB_PER_VCPU,
    // Only the version behind the alias is invoked. Environments of the unpublished version would be billed but idle.
    publishToLatestPublished: false,
  });
  // The CDK's schema does not have this property yet, so it is set here and the validator's finding is acknowledged.
  const resource = resourceOf(scoringFunction, CfnFunction);
  resource.addPropertyOverride('AcceleratorConfig', { AcceleratorMemorySize: gpuMemoryGiB });
  LambdaFunction.classifyVersionProperty('AcceleratorConfig', true);
  acknowledge(resource, 'acceleratorSchema');
  invalidateVersionWith(scoringFunction, resourceOf(capacity, CfnCapacityProvider));
}

/**
 * Adds the provider's properties to the hash of the function's version. If its network, instance types or key change,
 * the provider is replaced under the same ID, and only a new version moves to the replacement.
 *
 * @see https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-lambda-capacityprovider.html
 */
function invalidateVersionWith(scoringFunction: LambdaFunction, provider: CfnCapacityProvider): void {
  const { vpcConfig, instanceRequirements, permissionsConfig, kmsKeyArn } = provider;
  const fixed = Stack.of(provider).resolve([vpcConfig, instanceRequirements, permissionsConfig, kmsKeyArn]);
  scoringFunction.invalidateVersionBasedOn(JSON.stringify(fixed));
}

const MANAGED_POLICY = 'AWSLambdaManagedEC2ResourceOperator';

/** Creates the role that lets Lambda start and terminate the instances. */
function createOperatorRole(scope: Construct, logGroup: ILogGroup, diskKey: IKey | undefined): Role {
  const role = new Role(scope, 'Operator', {
    assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
    description: 'Lets Lambda manage the GPU instances',
    managedPolicies: [ManagedPolicy.fromAwsManagedPolicyName(MANAGED_POLICY)],
  });
  logGroup.grantWrite(role);
  if (diskKey !== undefined) allowDisks(role, diskKey);
  acknowledgeManagedPolicy(role, MANAGED_POLICY, 'Lambda needs to manage EC2 instances');
  return role;
}

/**
 * Lets the role grant EC2 the use of the key. EC2 decrypts the disks of instances with it.
 *
 * @see https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html#ebs-encryption-permissions
 */
function allowDisks(role: Role, key: IKey): void {
  key.grant(role, 'kms:Decrypt', 'kms:DescribeKey', 'kms:GenerateDataKeyWithoutPlaintext', 'kms:ReEncrypt*');
  role.addToPolicy(
    new PolicyStatement({
      actions: ['kms:CreateGrant'],
      resources: [key.keyArn],
      conditions: { Bool: { 'kms:GrantIsForAWSResource': true } },
    }),
  );
  acknowledgeKeyActions(role);
}
