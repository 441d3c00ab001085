import type { Duration, Size } from 'aws-cdk-lib';
import type { IVpc, SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import { type Alias, Architecture, type DockerImageFunction, type ICapacityProvider } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import { EPHEMERAL_STORAGE_MB, FUNCTION_TIMEOUT_SECONDS, outside } from '../../../lambda/core/limits.ts';
import { acknowledgeStandards } from '../base/acknowledge.ts';
import { gibibytesOf, mebibytesOf, secondsOf } from '../base/units.ts';
import { concurrencyProblems } from '../checks/concurrency.ts';
import { gpuProblems } from '../checks/gpu.ts';
import { networkProblems } from '../checks/network.ts';
import type { ComputeForm, FunctionCompute, Wiring } from './compute.ts';
import { feedFromQueues, grantSwitch } from './eventSource.ts';
import { functionAlarms, functionGraph } from './functionMonitoring.ts';
import { createCapacity, runOn } from './gpuCapacity.ts';
import { gpuCost } from './gpuCost.ts';
import { leastVisibility } from './leastVisibility.ts';
import { createLiveAlias } from './liveAlias.ts';
import { createScoringFunction, type FunctionResources } from './scoringFunction.ts';

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
   * How long one invocation may take, whole seconds, 1 to 900. Loading the models may take as long, and 130 seconds at
   * least. @default 300 seconds
   */
  readonly timeout?: Duration;
  /** GPUs that always run. 0 scales to zero: idle costs nothing, and waking up takes minutes. @default 1 */
  readonly minimumEnvironments?: number;
  /** Most GPUs, at least 2 for each shard, as SQS starts at least two invocations at a time from each. @default 2 */
  readonly maximumEnvironments?: number;
  /**
   * Most invocations that SQS starts at a time, 2 to `maximumEnvironments`; shards share them evenly.
   * @default `maximumEnvironments`
   */
  readonly maximumConcurrency?: number;
  /** EC2 instance types that may be used. @default Lambda chooses by `gpuMemory` */
  readonly instanceTypes?: readonly string[];
  /**
   * What starts and terminates the instances, so that deployments share them, such as that of another deployment's
   * `compute`. Network, instance types, disks and scaling are its own: not alongside `instanceTypes`, `vpc` or `subnets`.
   * Functions of one provider must trust each other. @default a new one
   * @see https://docs.aws.amazon.com/lambda/latest/dg/lambda-managed-instances-security.html
   */
  readonly capacityProvider?: ICapacityProvider;
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
  readonly capacityProvider: ICapacityProvider;
}

/**
 * Node initialises the function in a thread for each vCPU, and each would load every model onto the card.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/lambda-managed-instances-nodejs-runtime.html
 */
const ONE_THREAD = { AWS_LAMBDA_NODEJS_WORKER_COUNT: '1' };

/** AWS says minutes: an instance is started, and its models are loaded. */
const WAKE_SECONDS = 600;

/** A Lambda function with a GPU, on Lambda Managed Instances, from a container image. */
export function lambdaGpuCompute(options: LambdaGpuOptions = {}): ComputeForm<GpuCompute> {
  const settings = withDefaults(options);
  const { timeoutSeconds, minimumEnvironments } = settings;
  return {
    kind: 'lambda-gpu',
    imageTarget: { stage: 'lambda-gpu', architecture: settings.architecture },
    providers: 'cuda',
    timeoutSeconds,
    wakeSeconds: minimumEnvironments === 0 ? WAKE_SECONDS : 0,
    problems: ({ shards }) => [
      outside('ephemeralStorageMb', settings.ephemeralStorageMb, EPHEMERAL_STORAGE_MB),
      outside('timeoutSeconds', timeoutSeconds, FUNCTION_TIMEOUT_SECONDS),
      ...gpuProblems(settings, shards),
      ...concurrencyProblems({ maximumConcurrency: options.maximumConcurrency }, shards),
      // With a provider neither may be given.
      ...(options.capacityProvider === undefined
        ? networkProblems({ vpc: options.vpc, subnets: options.subnets })
        : []),
    ],
    leastVisibility: (batching) => leastVisibility(timeoutSeconds, batching),
    create(scope, wiring) {
      const scoringFunction = createGpuFunction(scope, settings, wiring);
      const capacityProvider = settings.capacityProvider ?? createCapacity(scope, settings, wiring);
      runOn(scoringFunction, capacityProvider, settings.gpuMemoryGiB);
      // Managed Instances run published versions; the alias leads to the latest.
      const live = createLiveAlias(scope, scoringFunction);
      const { eventSourceMappings, graph } = feedFromQueues(live, wiring, settings);
      return {
        function: scoringFunction,
        alias: live,
        capacityProvider,
        eventSourceMappings,
        grantPrincipal: live.grantPrincipal,
        grantSwitch: (grantee) => grantSwitch(grantee, scoringFunction, eventSourceMappings),
        logGroup: scoringFunction.logGroup,
        alarms: functionAlarms(live),
        graphs: [functionGraph(live, timeoutSeconds), graph],
        cost: gpuCost(live, settings, wiring.prices),
      };
    },
  };
}

type Settings = ReturnType<typeof withDefaults>;

function withDefaults(options: LambdaGpuOptions) {
  const maximumEnvironments = options.maximumEnvironments ?? 2;
  return {
    gpuMemoryGiB: gibibytesOf('gpuMemoryGiB', options.gpuMemory) ?? 16,
    architecture: options.architecture ?? Architecture.X86_64,
    memoryMb: mebibytesOf('memoryMb', options.memorySize) ?? 8192,
    ephemeralStorageMb: mebibytesOf('ephemeralStorageMb', options.ephemeralStorageSize),
    timeoutSeconds: secondsOf('timeoutSeconds', options.timeout) ?? 300,
    minimumEnvironments: options.minimumEnvironments ?? 1,
    maximumEnvironments,
    maximumConcurrency: options.maximumConcurrency ?? maximumEnvironments,
    role: options.role,
    logGroup: options.logGroup,
    instanceTypes: options.instanceTypes,
    vpc: options.vpc,
    subnets: options.subnets,
    capacityProvider: options.capacityProvider,
  };
}

function createGpuFunction(scope: Construct, settings: Settings, wiring: Wiring): DockerImageFunction {
  const { minimumEnvironments, maximumEnvironments } = settings;
  const environment = { ...wiring.environment, ...ONE_THREAD };
  const scoringFunction = createScoringFunction(
    scope,
    settings,
    { ...wiring, environment },
    {
      minExecutionEnvironments: minimumEnvironments,
      maxExecutionEnvironments: maximumEnvironments,
    },
  );
  acknowledgeStandards(scoringFunction, 'LambdaInsideVPC', 'Its instances are in the network of the capacity provider');
  acknowledgeStandards(
    scoringFunction,
    'LambdaConcurrency',
    'The most environments are the most invocations at a time',
  );
  return scoringFunction;
}
