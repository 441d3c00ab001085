import { MathExpression, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { PERIOD } from '../base/period.ts';
import type { Prices } from '../base/prices.ts';

interface GpuCostSettings {
  readonly gpuMemoryGiB: number;
  readonly instanceTypes: readonly string[] | undefined;
  readonly minimumEnvironments: number;
}

/** The instances that always run, or one while there are invocations, with the fee; plus the invocations themselves. */
export function gpuCost(target: IFunction, settings: GpuCostSettings, prices: Prices): MathExpression {
  const { minimumEnvironments } = settings;
  const hourly = instanceHour(settings, prices) * (1 + prices.managedInstancesFeePercent / 100);
  const instances = `IF(FILL(invocations, 0) > 0, ${Math.max(1, minimumEnvironments)}, ${minimumEnvironments})`;
  const requests = `FILL(invocations, 0) * ${prices.lambdaMillionRequests} / 1000000`;
  return new MathExpression({
    label: 'compute',
    period: PERIOD,
    expression: `${instances} * ${hourly} * PERIOD(invocations) / 3600 + ${requests}`,
    usingMetrics: { invocations: target.metricInvocations({ statistic: Stats.SUM, period: PERIOD }) },
  });
}

/** The cheapest instance of the price list that has this much GPU memory. */
const INSTANCE_BY_MEMORY = [
  { upToGiB: 16, instanceType: 'g4dn.xlarge' },
  { upToGiB: 24, instanceType: 'g6.xlarge' },
  { upToGiB: 48, instanceType: 'g6e.xlarge' },
];

function instanceHour({ gpuMemoryGiB, instanceTypes }: GpuCostSettings, prices: Prices): number {
  const [chosen] = instanceTypes ?? [];
  const type = chosen ?? INSTANCE_BY_MEMORY.find(({ upToGiB }) => gpuMemoryGiB <= upToGiB)?.instanceType ?? '';
  const price = prices.instanceHour[type];
  if (price !== undefined) return price;
  throw new Error(`prices: expected instanceHour to have '${type}', got none; add its price to the price list`);
}
