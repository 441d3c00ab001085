import type { TrafficRouting } from 'aws-cdk-lib/aws-codedeploy';
import {
  InstanceType,
  InterfaceVpcEndpointAwsService,
  type ISecurityGroup,
  type IVpc,
  type SubnetSelection,
} from 'aws-cdk-lib/aws-ec2';
import { type IGrantable, ManagedPolicy, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import {
  type Alias,
  Architecture,
  CapacityProvider,
  CfnCapacityProvider,
  CfnFunction,
  type DockerImageFunction,
  type IFunction,
  InstanceTypeFilter,
  Function as LambdaFunction,
} from 'aws-cdk-lib/aws-lambda';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import { type Duration, Lazy, type Size, Stack } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { EPHEMERAL_STORAGE_MB, FUNCTION_TIMEOUT_SECONDS, MB_PER_VCPU } from '../../lambda/core/limits.ts';
import { createLogGroup, resourceOf } from '../common/created.ts';
import { acknowledge, acknowledgeFunction, acknowledgeKeyActions, acknowledgeManagedPolicy } from '../common/nag.ts';
import {
  brokenOf,
  exceeds,
  networkProblems,
  oneOf,
  outside,
  type Problem,
  unknownAtSynth,
} from '../common/problems.ts';
import { gibibytesOf, mebibytesOf, secondsOf } from '../common/units.ts';
import { ARCHITECTURES, withoutKernels } from '../image/containerImage.ts';
import type { ComputeForm, FunctionCompute, Wiring } from './compute.ts';
import { type Concurrency, concurrencyProblems, feedFromQueues, grantSwitch, minVisibility } from './eventSource.ts';
import { createPrivateNetwork } from './privateNetwork.ts';
import {
  createLiveAlias,
  createScoringFunction,
  type FunctionNetwork,
  type FunctionResources,
  firstStepPercent,
  functionAlarms,
  functionGraph,
  type Rollout,
  rolloutProblems,
  shiftInSteps,
} from './scoringFunction.ts';

export interface LambdaOptions extends Concurrency, FunctionResources, FunctionNetwork, Rollout {
  /** The processor. ARM costs 20 % less for the same time. @default Architecture.ARM_64 */
  readonly architecture?: Architecture;
  /** Memory, 128 to 10,240 MiB; 1,769 MiB come with one whole vCPU, and vCPUs grow with it. @default 1,769 MiB */
  readonly memorySize?: Size;
  /** `/tmp`, 512 to 10,240 MiB, of the function that scores jobs as well. @default 512 MiB */
  readonly ephemeralStorageSize?: Size;
  /** How long one invocation may take, whole seconds, 1 to 900. @default 60 seconds */
  readonly timeout?: Duration;
  /** Invocations reserved for this function, from 2, which are also its most at once. @default none: it shares the account's */
  readonly reservedConcurrency?: number;
  /**
   * Most invocations that SQS starts at a time, 2 to 1,000. Fewer give fuller batches. Not alongside pollers. This and the
   * pollers are for all shards together, which share them evenly: with three shards 6 to 3,000.
   * @default `reservedConcurrency`, 1,000 at most for each shard; without it, or from 1,250 for each, no limit of its own
   */
  readonly maximumConcurrency?: number;
  /** Provisioned pollers that always run, 2 to 200, for traffic that jumps. @default none are provisioned */
  readonly minimumPollers?: number;
  /**
   * Most provisioned pollers, 2 to 10,000; each starts up to 10 invocations at a time.
   * @default none are provisioned; 200 with `minimumPollers`
   */
  readonly maximumPollers?: number;
  /**
   * Environments that are kept warm for the published version, from 1; they are paid for while they wait. More
   * invocations start environments as ever. @default none
   */
  readonly provisionedConcurrency?: number;
  /**
   * How a new version takes over, such as `TrafficRouting.timeBasedCanary({ interval: Duration.minutes(15), percentage:
   * 10 })`: CodeDeploy shifts the invocations, and an alarm on what runs shifts them back. @default at once
   */
  readonly trafficRouting?: TrafficRouting;
  /**
   * A network to attach the function to. It must reach SQS, and S3 and DynamoDB where results or models are there.
   * @default none: the function reaches AWS as it is
   */
  readonly vpc?: IVpc;
  /** Subnets of `vpc`, not public ones. @default its private ones */
  readonly subnets?: SubnetSelection;
  /** What the function may reach in `vpc`. @default a group that lets it call HTTPS, and nothing in */
  readonly securityGroups?: readonly ISecurityGroup[];
}

/** A Lambda function on CPUs, from a container image. */
export function lambdaCompute(options: LambdaOptions = {}): ComputeForm<FunctionCompute> {
  const { architecture = Architecture.ARM_64, provisionedConcurrency, trafficRouting } = options;
  const memoryMb = mebibytesOf('memorySize', options.memorySize) ?? MB_PER_VCPU;
  const ephemeralStorageMb =
    mebibytesOf('ephemeralStorageSize', options.ephemeralStorageSize) ?? EPHEMERAL_STORAGE_MB.default;
  const timeoutSeconds = secondsOf('timeout', options.timeout) ?? 60;
  const settings = { ...options, architecture, memoryMb, ephemeralStorageMb, timeoutSeconds };
  return {
    kind: 'lambda',
    imageTarget: { stage: 'lambda', architecture, room: { memoryMb } },
    timeoutSeconds,
    hasNetwork: options.vpc !== undefined,
    firstStepPercent: firstStepPercent(options),
    ephemeralStorageMb,
    problems: ({ shards }) => [
      oneOf('architecture', architecture.name, ARCHITECTURES),
      outside('memorySize', memoryMb, { min: 128, max: 10_240 }, 'MiB'),
      outside('ephemeralStorageSize', ephemeralStorageMb, EPHEMERAL_STORAGE_MB, 'MiB'),
      outside('timeout', timeoutSeconds, FUNCTION_TIMEOUT_SECONDS, 'seconds'),
      ...concurrencyProblems(options, shards),
      ...rolloutProblems(options, options),
      ...networkProblems(options),
    ],
    minVisibility: (batching) => minVisibility(timeoutSeconds, batching),
    create(scope, wiring) {
      const scoringFunction = createScoringFunction(scope, { ...settings, network: options }, wiring);
      const hasVersions = provisionedConcurrency !== undefined || trafficRouting !== undefined;
      const live = hasVersions ? createLiveAlias(scope, scoringFunction, options) : undefined;
      const target = live ?? scoringFunction;
      return {
        ...toCompute(scoringFunction, target, settings, wiring),
        alias: live,
        vpc: options.vpc,
        connections: options.vpc && scoringFunction.connections,
        shiftInSteps: live && trafficRouting && ((alarms) => shiftInSteps(scope, live, trafficRouting, alarms)),
      };
    },
  };
}

/** What functions on CPUs and on GPUs have in common. @param target what the mappings invoke */
function toCompute(
  scoringFunction: DockerImageFunction,
  target: IFunction,
  settings: Concurrency & { readonly timeoutSeconds: number },
  wiring: Wiring,
) {
  const { eventSourceMappings, graph } = feedFromQueues(target, wiring, settings);
  return {
    function: scoringFunction,
    eventSourceMappings,
    grantPrincipal: target.grantPrincipal,
    grantSwitch: (grantee: IGrantable) => grantSwitch(grantee, scoringFunction, eventSourceMappings),
    alarms: functionAlarms(target),
    graphs: [functionGraph(target, settings.timeoutSeconds), graph],
  };
}

export interface LambdaGpuOptions extends FunctionResources {
  /** The least GPU memory: 3, 6, 12, 16, 24 or 48 GiB. @default 16 GiB */
  readonly gpuMemory?: Size;
  /** The processor; a GPU comes only with x86_64. @default Architecture.X86_64 */
  readonly architecture?: Architecture;
  /** Memory besides the GPU's, 2,048 to 32,768 MiB; 4 GiB come with one vCPU. @default 8,192 MiB: half of a g4dn.xlarge */
  readonly memorySize?: Size;
  /** `/tmp`, 512 to 10,240 MiB. @default 512 MiB, which is Lambda's own */
  readonly ephemeralStorageSize?: Size;
  /**
   * How long one invocation may take, whole seconds, 1 to 5,400. Loading the models may take as long, 130 seconds at least
   * and 900 at the most. @default 300 seconds
   */
  readonly timeout?: Duration;
  /** GPUs that always run. 0 scales to zero: idle costs nothing, and waking up takes minutes. @default 1 */
  readonly minimumEnvironments?: number;
  /** Most GPUs, at least 2 for each shard, as SQS starts at least two invocations at a time from each. @default 2 */
  readonly maximumEnvironments?: number;
  /**
   * Most invocations that SQS starts at a time, 2 to `maximumEnvironments`; shards share them evenly. Not alongside pollers.
   * @default `maximumEnvironments`
   */
  readonly maximumConcurrency?: number;
  /** Provisioned pollers that always run, 2 to 200: other mappings hand over 5 MB a second here. @default none are provisioned */
  readonly minimumPollers?: number;
  /**
   * Most provisioned pollers, 2 to 100; each starts up to 10 invocations at a time, which `maximumEnvironments` must hold.
   * @default none are provisioned; 200 with `minimumPollers`
   */
  readonly maximumPollers?: number;
  /** EC2 instance types that may be used. @default Lambda chooses by `gpuMemory` */
  readonly instanceTypes?: readonly string[];
  /**
   * The network of the instances. It must reach SQS, CloudWatch Logs and the result stores.
   * @default a network of its own, with endpoints of these services and no route to the internet
   */
  readonly vpc?: IVpc;
  /** Subnets of `vpc`. @default its private ones */
  readonly subnets?: SubnetSelection;
}

/** A function on GPUs. */
export interface GpuCompute extends FunctionCompute {
  readonly alias: Alias;
  /** What starts and terminates the instances. */
  readonly capacityProvider: CapacityProvider;
}

/**
 * Node initialises the function in a thread for each vCPU, and each would load every model onto the device.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/lambda-managed-instances-nodejs-runtime.html
 */
const ONE_THREAD = { AWS_LAMBDA_NODEJS_WORKER_COUNT: '1' };

/** AWS says minutes: an instance is started, and its models are loaded. */
const WAKE_SECONDS = 600;

/** A Lambda function with a GPU, on Lambda Managed Instances, from a container image. @experimental It has not run on AWS */
export function lambdaGpuCompute(options: LambdaGpuOptions = {}): ComputeForm<GpuCompute> {
  const settings = withDefaults(options);
  const { timeoutSeconds, minimumEnvironments } = settings;
  return {
    kind: 'lambda-gpu',
    imageTarget: { stage: 'lambda-gpu', architecture: settings.architecture, room: { memoryMb: settings.memoryMb } },
    providers: 'cuda',
    timeoutSeconds,
    wakeSeconds: minimumEnvironments === 0 ? WAKE_SECONDS : 0,
    problems: ({ shards }) => [
      ...gpuProblems(settings),
      ...concurrencyProblems(settings.concurrency, shards, ENVIRONMENTS),
      ...networkProblems({ vpc: options.vpc, subnets: options.subnets }),
    ],
    minVisibility: (batching) => minVisibility(timeoutSeconds, batching),
    create(scope, wiring) {
      const scoringFunction = createGpuFunction(scope, settings, wiring);
      const { capacityProvider, ...network } = createCapacity(scope, settings, wiring);
      runOn(scoringFunction, capacityProvider, settings.gpuMemoryGiB);
      // Managed Instances run published versions; the alias leads to the latest.
      const live = createLiveAlias(scope, scoringFunction);
      return {
        ...toCompute(scoringFunction, live, { ...settings, ...settings.concurrency }, wiring),
        alias: live,
        capacityProvider,
        ...network,
      };
    },
  };
}

type Settings = ReturnType<typeof withDefaults>;

function withDefaults(options: LambdaGpuOptions) {
  const maximumEnvironments = options.maximumEnvironments ?? 2;
  return {
    ...options,
    gpuMemoryGiB: gibibytesOf('gpuMemory', options.gpuMemory) ?? 16,
    architecture: options.architecture ?? Architecture.X86_64,
    memoryMb: mebibytesOf('memorySize', options.memorySize) ?? 8192,
    ephemeralStorageMb: mebibytesOf('ephemeralStorageSize', options.ephemeralStorageSize),
    timeoutSeconds: secondsOf('timeout', options.timeout) ?? 300,
    minimumEnvironments: options.minimumEnvironments ?? 1,
    maximumEnvironments,
    /** Each environment runs one invocation at a time. */
    concurrency: { ...options, reservedConcurrency: maximumEnvironments },
  };
}

function createGpuFunction(scope: Construct, settings: Settings, wiring: Wiring): DockerImageFunction {
  const environment = { ...wiring.environment, ...ONE_THREAD };
  const scoringFunction = createScoringFunction(
    scope,
    settings,
    { ...wiring, environment },
    {
      minExecutionEnvironments: settings.minimumEnvironments,
      maxExecutionEnvironments: settings.maximumEnvironments,
    },
  );
  acknowledgeFunction(scoringFunction, 'gpuNetwork');
  acknowledgeFunction(scoringFunction, 'gpuConcurrency');
  return scoringFunction;
}

/**
 * Behind a mapping. Loading the models has 900 s at the most.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/lambda-managed-instances.html
 */
const GPU_TIMEOUT_SECONDS = { min: 1, max: 5400 };
const GPU_MEMORY_GIB = [3, 6, 12, 16, 24, 48];
const ENVIRONMENTS = { name: 'maximumEnvironments', min: 1, max: 1000 };

/** What Lambda Managed Instances refuse. */
function gpuProblems(settings: Settings): Problem[] {
  const { architecture, minimumEnvironments, maximumEnvironments, instanceTypes } = settings;
  return [
    outside('ephemeralStorageSize', settings.ephemeralStorageMb, EPHEMERAL_STORAGE_MB, 'MiB'),
    outside('timeout', settings.timeoutSeconds, GPU_TIMEOUT_SECONDS, 'seconds'),
    oneOf('gpuMemory', settings.gpuMemoryGiB, GPU_MEMORY_GIB),
    ...(instanceTypes ?? []).map(withoutKernels),
    outside('memorySize', settings.memoryMb, { min: 2048, max: 32_768 }, 'MiB'),
    unknownAtSynth('minimumEnvironments', minimumEnvironments),
    outside('minimumEnvironments', minimumEnvironments, { min: 0, max: 15_000 }),
    ...brokenOf([
      [
        architecture.name !== Architecture.X86_64.name,
        `architecture: expected x86_64, because Lambda has no GPU with ${architecture.name}; set x86_64 or take lambdaCompute()`,
      ],
      [
        exceeds(minimumEnvironments, maximumEnvironments),
        `maximumEnvironments: expected at least minimumEnvironments, ${minimumEnvironments}, ` +
          `got ${maximumEnvironments}; raise it`,
      ],
    ]),
  ];
}

/** What starts and terminates the instances of one deployment, in the network that was given or a new one. */
function createCapacity(scope: Construct, settings: Settings, wiring: Wiring) {
  const { vpc, subnets, securityGroup, endpoints } = createPrivateNetwork(scope, settings, wiring, {
    of: 'GPU instances',
    interfaces: {
      Sqs: InterfaceVpcEndpointAwsService.SQS,
      Logs: InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
      ...(wiring.tracing && { Xray: InterfaceVpcEndpointAwsService.XRAY }),
    },
  });
  const logGroup = createLogGroup(scope, 'CapacityLog', wiring);
  const operatorRole = createOperatorRole(scope, logGroup, wiring.encryptionKey);
  const capacity = new CapacityProvider(scope, 'Capacity', {
    subnets,
    securityGroups: [securityGroup],
    architectures: [settings.architecture],
    operatorRole,
    logGroup,
    ...(wiring.encryptionKey !== undefined && { kmsKey: wiring.encryptionKey }),
    ...(settings.instanceTypes !== undefined && {
      instanceTypeFilter: InstanceTypeFilter.allow(settings.instanceTypes.map((type) => new InstanceType(type))),
    }),
  });
  propagateTags(resourceOf(capacity, CfnCapacityProvider));
  // A version is published once its environments have started, which takes the disks' key and, for models, S3.
  capacity.node.addDependency(operatorRole, ...endpoints);
  return { capacityProvider: capacity, vpc, connections: securityGroup.connections };
}

/**
 * Lambda gives instances the tags that it is told alone. The property is newer than the oldest aws-cdk-lib that is taken.
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

/** Two invocations must not share the GPU's memory. */
const INVOCATIONS_PER_ENVIRONMENT = 1;

/** As the instance types with GPUs have it: other shares leave memory or processors unused. */
const GIB_PER_VCPU = 4;

/** Has a function run on the instances of a provider, with a GPU. */
function runOn(scoringFunction: LambdaFunction, capacity: CapacityProvider, gpuMemoryGiB: number): void {
  capacity.addFunction(scoringFunction, {
    perExecutionEnvironmentMaxConcurrency: INVOCATIONS_PER_ENVIRONMENT,
    executionEnvironmentMemoryGiBPerVCpu: GIB_PER_VCPU,
    // Only the version behind the alias is invoked: environments of the unpublished one would be paid for nothing.
    publishToLatestPublished: false,
  });
  // Not yet in the library's schema, so it is set, and the validator told, by hand.
  const resource = resourceOf(scoringFunction, CfnFunction);
  resource.addPropertyOverride('AcceleratorConfig', { AcceleratorMemorySize: gpuMemoryGiB });
  LambdaFunction.classifyVersionProperty('AcceleratorConfig', true);
  acknowledge(resource, 'acceleratorSchema');
  invalidateVersionWith(scoringFunction, resourceOf(capacity, CfnCapacityProvider));
}

/**
 * A provider whose network, instance types or key change is replaced under the same ID, and a version stays with the one
 * that it was published on: only a new one moves.
 *
 * @see https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-lambda-capacityprovider.html
 */
function invalidateVersionWith(scoringFunction: LambdaFunction, provider: CfnCapacityProvider): void {
  const { vpcConfig, instanceRequirements, permissionsConfig, kmsKeyArn } = provider;
  const fixed = Stack.of(provider).resolve([vpcConfig, instanceRequirements, permissionsConfig, kmsKeyArn]);
  scoringFunction.invalidateVersionBasedOn(JSON.stringify(fixed));
}

const MANAGED_POLICY = 'AWSLambdaManagedEC2ResourceOperator';

/** The role with which Lambda starts and terminates the instances. */
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
 * EC2 decrypts the instances' disks with grants that whoever starts the instances gives it.
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
