import { MathExpression, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { ICapacityProvider, IFunction } from 'aws-cdk-lib/aws-lambda';
import { PERIOD } from '../base/period.ts';
import type { Prices } from '../base/prices.ts';
import { type Environment, placementOf } from './gpuInstances.ts';

interface GpuCostSettings extends Environment {
  readonly minimumEnvironments: number;
  /** Undefined where the instances are this deployment's alone. */
  readonly capacityProvider: ICapacityProvider | undefined;
}

/**
 * The instances that always run, or one while there are invocations, with the fee; plus the invocations themselves. An
 * instance that several environments share is paid once; of one that may have environments of other deployments, the
 * share.
 */
export function gpuCost(target: IFunction, settings: GpuCostSettings, prices: Prices): MathExpression {
  const { instanceHour, environmentsPerInstance } = placementOf(settings, prices);
  const { minimumEnvironments, capacityProvider } = settings;
  const instancesOf = (environments: number): number => {
    const share = environments / environmentsPerInstance;
    return capacityProvider === undefined ? Math.ceil(share) : share;
  };
  const always = instancesOf(minimumEnvironments);
  const whenBusy = instancesOf(Math.max(1, minimumEnvironments));
  const hourly = instanceHour * (1 + prices.managedInstancesFeePercent / 100);
  const instances = `IF(FILL(invocations, 0) > 0, ${whenBusy}, ${always})`;
  const requests = `FILL(invocations, 0) * ${prices.lambdaMillionRequests} / 1000000`;
  return new MathExpression({
    label: 'compute',
    period: PERIOD,
    expression: `${instances} * ${hourly} * PERIOD(invocations) / 3600 + ${requests}`,
    usingMetrics: { invocations: target.metricInvocations({ statistic: Stats.SUM, period: PERIOD }) },
  });
}
