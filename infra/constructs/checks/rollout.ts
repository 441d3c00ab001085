import { TimeBasedLinearTrafficRouting, type TrafficRouting } from 'aws-cdk-lib/aws-codedeploy';
import { outside } from '../../../lambda/core/limits.ts';
import type { Problem } from '../base/refuse.ts';
import { minutesOf } from '../base/units.ts';
import type { Concurrency } from './concurrency.ts';

/** How a published version is kept warm, and takes over from the one before. */
export interface Rollout {
  readonly provisionedConcurrency?: number | undefined;
  readonly trafficRouting?: TrafficRouting | undefined;
}

/** Two periods of the alarms that undo a deployment. */
const LEAST_MINUTES = 10;
/** @see https://docs.aws.amazon.com/codedeploy/latest/userguide/limits.html */
const MOST_MINUTES = 2880;

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
    minutes < LEAST_MINUTES
      ? `canaryMinutes: expected at least ${LEAST_MINUTES} from the first step to the last, two periods of the alarms ` +
        `that undo a deployment, got ${minutes}; raise it`
      : outside('canaryMinutes', minutes, { least: LEAST_MINUTES, most: MOST_MINUTES }),
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
