import { MathExpression, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { type IStateMachine, StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { JOB_TIMEOUT_SECONDS } from '../../../lambda/core/limits.ts';
import { PERIOD } from '../base/period.ts';
import type { Prices } from '../base/prices.ts';
import type { AlarmCondition, Graph } from '../compute/compute.ts';
import { functionCost, type PricedFunction } from '../compute/functionCost.ts';
import { functionGraph } from '../compute/functionMonitoring.ts';
import { scoringMetric } from '../monitoring/metrics.ts';
import { MAP_LABEL } from './definition.ts';

/** The parts of jobs that have metrics. */
export interface MonitoredJobs {
  readonly stateMachine: IStateMachine;
  /** The children of its map. */
  readonly parts: IStateMachine;
  readonly score: IFunction;
  readonly control: IFunction;
  readonly priced: PricedFunction;
  /** The dimension `service` of what the function that scores counts. */
  readonly serviceName: string;
  readonly prices: Prices;
}

/** Jobs that share the reserve wait for each other; an hour is longer than they should. */
const WAITING_PERIODS = 12;
/** Of a child that scores a part in one call: Score, More and Done. */
const TRANSITIONS_OF_PART = 3;

const SUM = { statistic: Stats.SUM, period: PERIOD };

/** Alarms on jobs that failed, that wait for each other, and on calls that died. */
export function jobAlarms({ stateMachine, score, control }: MonitoredJobs): AlarmCondition[] {
  return [
    {
      id: 'JobsFailed',
      description:
        'A job ended without a manifest. `batchscore job status` says why: INPUT_CHANGED is a file that was overwritten ' +
        'meanwhile. `batchscore job resume` scores what is missing.',
      metric: stateMachine.metricFailed(SUM),
      threshold: 0,
      periods: 1,
    },
    {
      id: 'JobThrottles',
      description:
        'Calls that score jobs have been refused for lack of concurrency for an hour: jobs wait for each other. Raise ' +
        'jobsReservedConcurrency, or let fewer jobs run at a time.',
      metric: new MathExpression({
        label: 'throttled',
        period: PERIOD,
        expression: 'FILL(calls, 0) + FILL(executions, 0)',
        usingMetrics: { calls: score.metricThrottles(SUM), executions: stateMachine.metricThrottled(SUM) },
      }),
      threshold: 0,
      periods: WAITING_PERIODS,
    },
    {
      id: 'JobScoreErrors',
      description:
        'A call that scores a part of a job failed, or ran out of time or memory. It is made again, and a piece that fails ' +
        'every time is left out: failedParts of the manifest names it. Read the log of the function for the reason.',
      metric: score.metricErrors(SUM),
      threshold: 0,
      periods: 1,
    },
    {
      id: 'JobControlErrors',
      description:
        'The function that starts and ends jobs failed. S3 tells it twice more of a file; a file that no job came of is put ' +
        'again, or submitted. Read the log of the function for the reason.',
      metric: control.metricErrors(SUM),
      threshold: 0,
      periods: 1,
    },
  ];
}

/** What became of jobs and their parts, the calls that score, rows and cost. */
export function jobGraphs(jobs: MonitoredJobs): Graph[] {
  const { stateMachine, parts, score, serviceName } = jobs;
  const rows = scoringMetric(serviceName, 'Rows');
  return [
    {
      title: 'Jobs, and how long they take',
      left: [
        stateMachine.metricStarted({ ...SUM, label: 'started' }),
        stateMachine.metricSucceeded({ ...SUM, label: 'succeeded' }),
        stateMachine.metricFailed({ ...SUM, label: 'failed' }),
        stateMachine.metricAborted({ ...SUM, label: 'cancelled' }),
      ],
      right: [stateMachine.metricTime({ statistic: Stats.MAXIMUM, period: PERIOD, label: 'ms, longest' })],
    },
    {
      title: 'Parts of jobs',
      left: [
        parts.metricStarted({ ...SUM, label: 'started' }),
        parts.metricSucceeded({ ...SUM, label: 'succeeded' }),
        parts.metricFailed({ ...SUM, label: 'failed' }),
      ],
    },
    {
      ...functionGraph(score, JOB_TIMEOUT_SECONDS),
      title: `Calls that score jobs, and how long they take of ${JOB_TIMEOUT_SECONDS} s`,
    },
    {
      title: 'Rows of jobs per second, and US dollars',
      left: [
        new MathExpression({
          label: 'rows per second',
          period: PERIOD,
          expression: 'jobRows / PERIOD(jobRows)',
          usingMetrics: { jobRows: rows },
        }),
      ],
      right: [jobCost(jobs)],
    },
  ];
}

/** Calls that score, and transitions of the children, in US dollars a period: the rest of a job is less than 1 % of it. */
function jobCost({ parts, score, priced, prices }: MonitoredJobs): MathExpression {
  return new MathExpression({
    label: 'US dollars',
    period: PERIOD,
    expression: `scoreUsd + FILL(started, 0) * ${TRANSITIONS_OF_PART} * ${prices.stepFunctionsThousandTransitions} / 1000`,
    usingMetrics: { scoreUsd: functionCost(score, priced, prices), started: parts.metricStarted(SUM) },
  });
}

/**
 * The children of the map, which have metrics under the label of the map.
 *
 * @see https://docs.aws.amazon.com/step-functions/latest/dg/concepts-examine-map-run.html
 */
export function partsOf(stateMachine: IStateMachine): IStateMachine {
  return StateMachine.fromStateMachineArn(stateMachine, 'Children', `${stateMachine.stateMachineArn}/${MAP_LABEL}`);
}
