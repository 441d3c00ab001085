import type { TrafficRouting } from 'aws-cdk-lib/aws-codedeploy';
import type { ISecurityGroup, IVpc, SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import type { Duration, Size } from 'aws-cdk-lib/core';
import { EPHEMERAL_STORAGE_MB, FUNCTION_TIMEOUT_SECONDS, MB_PER_VCPU } from '../../lambda/core/limits.ts';
import { networkProblems, oneOf, outside } from '../common/problems.ts';
import { mebibytesOf, secondsOf } from '../common/units.ts';
import { ARCHITECTURES } from '../image/containerImage.ts';
import type { ComputeForm, FunctionCompute } from './compute.ts';
import { type Concurrency, concurrencyProblems, minVisibility } from './eventSource.ts';
import {
  createLiveAlias,
  createScoringFunction,
  type FunctionNetwork,
  type FunctionResources,
  firstStepPercent,
  functionParts,
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
        ...functionParts(scoringFunction, target, settings, wiring),
        alias: live,
        vpc: options.vpc,
        connections: options.vpc && scoringFunction.connections,
        shiftInSteps: live && trafficRouting && ((alarms) => shiftInSteps(scope, live, trafficRouting, alarms)),
      };
    },
  };
}
