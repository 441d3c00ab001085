import { type IMetric, MathExpression, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import { Architecture, type IFunction } from 'aws-cdk-lib/aws-lambda';
import { PERIOD } from '../monitoring/scoringMetrics.ts';
import type { Prices } from '../priceList.ts';
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

/** What the price of a function depends on. */
export interface PricedFunction {
  readonly architecture: Architecture;
  readonly memoryMb: number;
  readonly provisionedConcurrency?: number | undefined;
}

/** Metric math does not understand exponents. */
const DECIMALS = 12;

/**
 * What a function costs on Lambda's own machines, in US dollars per period: the milliseconds of all invocations times the memory, plus the invocations themselves, plus the
 * environments that are kept warm. Invocations in those are cheaper.
 */
export function functionCost(
  target: IFunction,
  { architecture, memoryMb, provisionedConcurrency }: PricedFunction,
  prices: Prices,
): MathExpression {
  const gb = memoryMb / 1024;
  const [onDemand, warm, waiting] =
    architecture.name === Architecture.ARM_64.name
      ? [prices.lambdaArmGbSecond, prices.lambdaArmWarmGbSecond, prices.lambdaArmProvisionedGbSecond]
      : [prices.lambdaX86GbSecond, prices.lambdaX86WarmGbSecond, prices.lambdaX86ProvisionedGbSecond];
  const sum = { statistic: Stats.SUM, period: PERIOD };
  const usingMetrics: Record<string, IMetric> = {
    durationMs: target.metricDuration(sum),
    invocations: target.metricInvocations(sum),
  };
  const terms = [`invocations * ${prices.lambdaMillionRequests} / 1000000`];
  if (provisionedConcurrency === undefined) {
    terms.unshift(`durationMs / 1000 * ${gb} * ${onDemand.toFixed(DECIMALS)}`);
  } else {
    usingMetrics.warmInvocations = target.metric('ProvisionedConcurrencyInvocations', sum);
    const saved = `${(onDemand - warm).toFixed(DECIMALS)} * FILL(warmInvocations, 0) / invocations`;
    terms.unshift(`durationMs / 1000 * ${gb} * (${onDemand.toFixed(DECIMALS)} - ${saved})`);
    terms.push(`${provisionedConcurrency} * PERIOD(invocations) * ${gb} * ${waiting.toFixed(DECIMALS)}`);
  }
  return new MathExpression({ label: 'compute', period: PERIOD, expression: terms.join(' + '), usingMetrics });
}
