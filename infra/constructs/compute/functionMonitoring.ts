import { Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { PERIOD } from '../base/period.ts';
import type { AlarmCondition, Graph } from './compute.ts';

/** Throttles of a burst pass, because SQS tries again. Only lasting ones use up the receives of good messages. */
const THROTTLED_PERIODS = 3;

/** Alarms on a function's errors and lasting throttles. */
export function functionAlarms(target: IFunction): AlarmCondition[] {
  return [
    {
      id: 'FunctionErrors',
      description:
        'An invocation crashed, or ran out of time or memory, and all its records went back to SQS. Read the log for ' +
        'the reason: after a timeout lower the batch size, out of memory raise the memory.',
      metric: target.metricErrors({ statistic: Stats.SUM, period: PERIOD }),
      threshold: 0,
      periods: 1,
      blamesVersion: true,
    },
    {
      id: 'FunctionThrottles',
      description:
        'Invocations have been refused for lack of concurrency for a quarter of an hour. Every refusal counts as a ' +
        'receive of its messages. Raise the reserved concurrency or the account quota, or lower the maximum concurrency.',
      metric: target.metricThrottles({ statistic: Stats.SUM, period: PERIOD }),
      threshold: 0,
      periods: THROTTLED_PERIODS,
    },
  ];
}

/** A function's invocations and their duration. */
export function functionGraph(target: IFunction, timeoutSeconds: number): Graph {
  const sum = { statistic: Stats.SUM, period: PERIOD };
  return {
    title: `Invocations, and how long they take of ${timeoutSeconds} s`,
    left: [
      target.metricInvocations({ ...sum, label: 'invocations' }),
      target.metricErrors({ ...sum, label: 'crashed' }),
      target.metricThrottles({ ...sum, label: 'throttled' }),
    ],
    right: [
      target.metricDuration({ statistic: Stats.p(50), period: PERIOD, label: 'ms, p50' }),
      target.metricDuration({ statistic: Stats.p(99), period: PERIOD, label: 'ms, p99' }),
    ],
  };
}
