import { MathExpression, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { PERIOD } from '../base/period.ts';
import type { Prices } from '../base/prices.ts';
import { type Environment, placementOf } from './gpuInstances.ts';

interface GpuCostSettings extends Environment {
  readonly minimumEnvironments: number;
}

/**
 * The instances that always run, or one while there are invocations, with the fee; plus the invocations themselves. An
 * instance that several environments share is paid once.
 */
export function gpuCost(target: IFunction, settings: GpuCostSettings, prices: Prices): MathExpression {
  const { instanceHour, environmentsPerInstance } = placementOf(settings, prices);
  const always = Math.ceil(settings.minimumEnvironments / environmentsPerInstance);
  const hourly = instanceHour * (1 + prices.managedInstancesFeePercent / 100);
  const instances = `IF(FILL(invocations, 0) > 0, ${Math.max(1, always)}, ${always})`;
  const requests = `FILL(invocations, 0) * ${prices.lambdaMillionRequests} / 1000000`;
  return new MathExpression({
    label: 'compute',
    period: PERIOD,
    expression: `${instances} * ${hourly} * PERIOD(invocations) / 3600 + ${requests}`,
    usingMetrics: { invocations: target.metricInvocations({ statistic: Stats.SUM, period: PERIOD }) },
  });
}
