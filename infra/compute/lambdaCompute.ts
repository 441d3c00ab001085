import type { IAlarm } from 'aws-cdk-lib/aws-cloudwatch';
import {
  LambdaDeploymentConfig,
  LambdaDeploymentGroup,
  TimeBasedLinearTrafficRouting,
  TrafficRouting,
} from 'aws-cdk-lib/aws-codedeploy';
import { type Alias, Architecture } from 'aws-cdk-lib/aws-lambda';
import type { Duration, Size } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { EPHEMERAL_STORAGE_MB, FUNCTION_TIMEOUT_SECONDS, MB_PER_VCPU } from '../../lambda/core/limits.ts';
import { acknowledgeManagedPolicy } from '../common/nag.ts';
import { exceeds, known, outside, type Problem, unknownAtSynth } from '../common/problems.ts';
import { mebibytesOf, minutesOf, secondsOf } from '../common/units.ts';
import type { ComputeForm, FunctionCompute } from './compute.ts';
import { CONCURRENCY, type Concurrency, concurrencyProblems, minVisibility } from './eventSource.ts';
import { type FunctionNetwork, networkProblems } from './privateNetwork.ts';
import { createLiveAlias, createScoringFunction, type FunctionResources, functionParts } from './scoringFunction.ts';

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
    firstStepPercent: known(stepsOf(trafficRouting).percentage) ?? 100,
    ephemeralStorageMb,
    problems: (batching) => [
      outside('memorySize', memoryMb, { min: 128, max: 10_240 }, 'MiB'),
      outside('ephemeralStorageSize', ephemeralStorageMb, EPHEMERAL_STORAGE_MB, 'MiB'),
      outside('timeout', timeoutSeconds, FUNCTION_TIMEOUT_SECONDS, 'seconds'),
      ...concurrencyProblems(options, batching),
      outside('provisionedConcurrency', provisionedConcurrency, CONCURRENCY),
      exceeds(provisionedConcurrency, options.reservedConcurrency) &&
        `provisionedConcurrency: expected at most reservedConcurrency, ${options.reservedConcurrency}, got ` +
          `${provisionedConcurrency}; lower it, or raise reservedConcurrency`,
      outside('trafficRouting.percentage', stepsOf(trafficRouting).percentage, { min: 1, max: 99 }),
      routingProblem(trafficRouting),
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

const MANAGED_POLICY = 'service-role/AWSCodeDeployRoleForLambdaLimited';

/**
 * Makes CodeDeploy shift the alias to a new version in steps, and back if one of the alarms goes off.
 *
 * @see https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-updatepolicy.html
 */
function shiftInSteps(scope: Construct, alias: Alias, trafficRouting: TrafficRouting, alarms: readonly IAlarm[]): void {
  const { role } = new LambdaDeploymentGroup(scope, 'Deployment', {
    alias,
    deploymentConfig: new LambdaDeploymentConfig(scope, 'Steps', { trafficRouting }),
    alarms: [...alarms],
  });
  acknowledgeManagedPolicy(role, MANAGED_POLICY, 'CodeDeploy needs to shift the traffic of a function');
}

/** Two periods of the alarms that roll a deployment back. */
const MIN_MINUTES = 10;

/** Returns a problem with a shift that the alarms cannot undo in time. */
function routingProblem(trafficRouting: TrafficRouting | undefined): Problem {
  if (trafficRouting === undefined) return undefined;
  const { interval, percentage } = stepsOf(trafficRouting);
  const token = unknownAtSynth('trafficRouting.percentage', percentage);
  if (token) return token;
  const isLinear = trafficRouting instanceof TimeBasedLinearTrafficRouting;
  const steps = isLinear ? Math.ceil(100 / trafficRouting.percentage) - 1 : 1;
  const minutes = (minutesOf('trafficRouting.interval', interval) ?? 0) * steps;
  return (
    minutes < MIN_MINUTES &&
    `trafficRouting.interval: expected at least ${MIN_MINUTES} minutes from the first step to the last, two periods of ` +
      `the alarms that undo a deployment, got ${minutes}; raise it, or leave trafficRouting out for all at once`
  );
}

/** Returns the steps of a canary or a linear shift. All at once has none. */
function stepsOf(trafficRouting: TrafficRouting = TrafficRouting.allAtOnce()) {
  const { interval, percentage }: Partial<TimeBasedLinearTrafficRouting> = trafficRouting;
  return { interval, percentage };
}
