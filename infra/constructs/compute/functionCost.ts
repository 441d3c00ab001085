import { type IMetric, MathExpression, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import { Architecture, type IFunction } from 'aws-cdk-lib/aws-lambda';
import { PERIOD } from '../base/period.ts';
import type { Prices } from '../base/prices.ts';

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
