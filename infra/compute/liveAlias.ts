import { Validations } from 'aws-cdk-lib';
import type { IAlarm } from 'aws-cdk-lib/aws-cloudwatch';
import {
  LambdaDeploymentConfig,
  LambdaDeploymentGroup,
  TimeBasedLinearTrafficRouting,
  type TrafficRouting,
} from 'aws-cdk-lib/aws-codedeploy';
import { Alias, type Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import { outside } from '../../lambda/core/limits.ts';
import type { Problem } from '../constructs/problems.ts';
import { minutesOf } from '../constructs/units.ts';
import type { Concurrency } from './eventSource.ts';

const MANAGED_POLICY = 'service-role/AWSCodeDeployRoleForLambdaLimited';

/** The alias that leads to the published version; its environments are kept warm where that is asked for. */
export function createLiveAlias(
  scope: Construct,
  scoringFunction: LambdaFunction,
  { provisionedConcurrency }: Pick<Rollout, 'provisionedConcurrency'> = {},
): Alias {
  return new Alias(scope, 'Live', {
    aliasName: 'live',
    version: scoringFunction.currentVersion,
    ...(provisionedConcurrency !== undefined && { provisionedConcurrentExecutions: provisionedConcurrency }),
  });
}

/**
 * Has CodeDeploy lead the alias from one version to the next in steps, and back as soon as one of the alarms goes off.
 *
 * @see https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-updatepolicy.html
 */
export function shiftInSteps(
  scope: Construct,
  alias: Alias,
  trafficRouting: TrafficRouting,
  alarms: readonly IAlarm[],
): void {
  const { role } = new LambdaDeploymentGroup(scope, 'Deployment', {
    alias,
    deploymentConfig: new LambdaDeploymentConfig(scope, 'Steps', { trafficRouting }),
    alarms: [...alarms],
  });
  Validations.of(role).acknowledge({
    id: `AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/${MANAGED_POLICY}]`,
    reason: 'AWS maintains the permissions that CodeDeploy needs to shift the traffic of a function',
  });
}

/** How a published version is kept warm, and takes over from the one before. */
export interface Rollout {
  readonly provisionedConcurrency?: number | undefined;
  readonly trafficRouting?: TrafficRouting | undefined;
}

/** Two periods of the alarms that undo a deployment. */
const MIN_MINUTES = 10;
/** @see https://docs.aws.amazon.com/codedeploy/latest/userguide/limits.html */
const MAX_MINUTES = 2880;

/** What the services refuse, what is paid for and never used, and steps that no alarm could undo. */
export function rolloutProblems(
  { provisionedConcurrency, trafficRouting }: Rollout,
  { reservedConcurrency, maximumConcurrency }: Concurrency,
): Problem[] {
  return [
    outside('provisionedConcurrency', provisionedConcurrency, { least: 1, most: 100_000 }),
    moreThanReserved(provisionedConcurrency, reservedConcurrency),
    moreThanStarted(provisionedConcurrency, maximumConcurrency),
    ...(trafficRouting === undefined ? [] : stepProblems(trafficRouting)),
  ];
}

/** Percent of the invocations that a new version gets first; 100 where it takes over at once. */
export function firstStepPercent({ trafficRouting }: Rollout): number {
  return trafficRouting && isInSteps(trafficRouting) ? trafficRouting.percentage : 100;
}

/** @see https://docs.aws.amazon.com/lambda/latest/dg/provisioned-concurrency.html */
function moreThanReserved(provisioned: number | undefined, reserved: number | undefined): Problem {
  if (provisioned === undefined || reserved === undefined || provisioned <= reserved) return undefined;
  return (
    `provisionedConcurrency: expected at most reservedConcurrency, ${reserved}, of which it is a part, ` +
    `got ${provisioned}; lower it or raise reservedConcurrency`
  );
}

function moreThanStarted(provisioned: number | undefined, maximum: number | undefined): Problem {
  if (provisioned === undefined || maximum === undefined || provisioned <= maximum) return undefined;
  return (
    `provisionedConcurrency: expected at most maximumConcurrency, ${maximum}, because SQS starts no more invocations ` +
    `at a time, got ${provisioned}; lower it or raise maximumConcurrency`
  );
}

function stepProblems(trafficRouting: TrafficRouting): Problem[] {
  if (!isInSteps(trafficRouting)) {
    return [
      'trafficRouting: expected a canary or linear steps, got all at once, which no alarm can undo; leave it out or ' +
        'take TrafficRouting.timeBasedCanary',
    ];
  }
  const { percentage } = trafficRouting;
  const minutes = (minutesOf('canaryMinutes', trafficRouting.interval) ?? 0) * stepsOf(trafficRouting);
  return [
    outside('canaryPercent', percentage, { least: 1, most: 99 }),
    minutes < MIN_MINUTES
      ? `canaryMinutes: expected at least ${MIN_MINUTES} from the first step to the last, two periods of the alarms ` +
        `that undo a deployment, got ${minutes}; raise it`
      : outside('canaryMinutes', minutes, { least: MIN_MINUTES, most: MAX_MINUTES }),
  ];
}

type InSteps = TrafficRouting & Pick<TimeBasedLinearTrafficRouting, 'interval' | 'percentage'>;

function isInSteps(trafficRouting: TrafficRouting): trafficRouting is InSteps {
  return 'interval' in trafficRouting && 'percentage' in trafficRouting;
}

/** A canary has one further step, a linear shift one for each share but the first. */
function stepsOf(trafficRouting: InSteps): number {
  const isLinear = trafficRouting instanceof TimeBasedLinearTrafficRouting;
  return isLinear ? Math.max(1, Math.ceil(100 / trafficRouting.percentage) - 1) : 1;
}
