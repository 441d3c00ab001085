import type { TrafficRouting } from 'aws-cdk-lib/aws-codedeploy';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import type { Duration, Size } from 'aws-cdk-lib/core';
import { EPHEMERAL_STORAGE_MB, FUNCTION_TIMEOUT_SECONDS, MB_PER_VCPU } from '../../lambda/core/limits.ts';
import { brokenOf, exceeds, outside } from '../common/problems.ts';
import { mebibytesOf, secondsOf } from '../common/units.ts';
import type { ComputeForm, FunctionCompute } from './compute.ts';
import { CONCURRENCY, type Concurrency, concurrencyProblems, minVisibility } from './eventSource.ts';
import { type FunctionNetwork, networkProblems } from './privateNetwork.ts';
import {
  createLiveAlias,
  createScoringFunction,
  type FunctionResources,
  firstStepPercent,
  functionParts,
  routingProblems,
  shiftInSteps,
} from './scoringFunction.ts';

export interface LambdaOptions extends Concurrency, FunctionResources, FunctionNetwork {
  /** Processor architecture. ARM costs 20 % less for the same time. @default Architecture.ARM_64 */
  readonly architecture?: Architecture;
  /** Memory, 128 to 10,240 MiB. vCPUs are proportional to it: 1,769 MiB have one vCPU. @default 1,769 MiB */
  readonly memorySize?: Size;
  /** Size of `/tmp`, 512 to 10,240 MiB, also for the function that scores jobs. @default 512 MiB */
  readonly ephemeralStorageSize?: Size;
  /** Maximum time of one invocation, whole seconds, 1 to 900. @default 60 seconds */
  readonly timeout?: Duration;
  /**
   * Environments that are kept warm, from 1. They are billed while idle. More invocations start more environments.
   * @default none
   */
  readonly provisionedConcurrency?: number;
  /**
   * Steps in which CodeDeploy shifts invocations to a new version, such as `TrafficRouting.timeBasedCanary({ interval:
   * Duration.minutes(15), percentage: 10 })`. An alarm on the new version shifts them back.
   * @default all at once
   */
  readonly trafficRouting?: TrafficRouting;
}

/** Returns compute that is a Lambda function on CPUs, from a container image. */
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
    firstStepPercent: firstStepPercent(trafficRouting),
    ephemeralStorageMb,
    problems: (batching) => [
      outside('memorySize', memoryMb, { min: 128, max: 10_240 }, 'MiB'),
      outside('ephemeralStorageSize', ephemeralStorageMb, EPHEMERAL_STORAGE_MB, 'MiB'),
      outside('timeout', timeoutSeconds, FUNCTION_TIMEOUT_SECONDS, 'seconds'),
      ...concurrencyProblems(options, batching),
      outside('provisionedConcurrency', provisionedConcurrency, CONCURRENCY),
      ...brokenOf([
        [
          exceeds(provisionedConcurrency, options.reservedConcurrency),
          `provisionedConcurrency: expected at most reservedConcurrency, ${options.reservedConcurrency}, got ` +
            `${provisionedConcurrency}; lower it, or raise reservedConcurrency`,
        ],
      ]),
      ...routingProblems(trafficRouting),
      ...networkProblems(options, 'functions'),
    ],
    minVisibility: (batching) => minVisibility(timeoutSeconds, batching),
    create(scope, wiring) {
      const scoringFunction = createScoringFunction(scope, { ...settings, network: options }, wiring);
      const hasVersions = provisionedConcurrency !== undefined || trafficRouting !== undefined;
      const live = hasVersions ? createLiveAlias(scope, scoringFunction, provisionedConcurrency) : undefined;
      return {
        ...functionParts(scoringFunction, live ?? scoringFunction, settings, wiring),
        alias: live,
        vpc: options.vpc,
        connections: options.vpc && scoringFunction.connections,
        shiftInSteps: live && trafficRouting && ((alarms) => shiftInSteps(scope, live, trafficRouting, alarms)),
      };
    },
  };
}
