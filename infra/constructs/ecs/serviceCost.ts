import { MathExpression, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { BaseService } from 'aws-cdk-lib/aws-ecs';
import { PERIOD } from '../base/period.ts';
import type { Prices } from '../base/prices.ts';
import { placementOf } from '../compute/gpuInstances.ts';
import { taskCount } from './taskMetrics.ts';

const MIB_PER_GIB = 1024;

interface FargateTask {
  readonly architecture: { readonly name: string };
  readonly vcpus: number;
  readonly memoryMb: number;
}

/** US dollars for an hour of a task on Fargate, on demand. */
export function fargateTaskHour({ architecture, vcpus, memoryMb }: FargateTask, prices: Prices): number {
  const [vcpuHour, gbHour] =
    architecture.name === 'arm64'
      ? [prices.fargateArmVcpuHour, prices.fargateArmGbHour]
      : [prices.fargateX86VcpuHour, prices.fargateX86GbHour];
  return vcpus * vcpuHour + (memoryMb / MIB_PER_GIB) * gbHour;
}

interface GpuTask {
  readonly capacity: string;
  readonly vcpus: number;
  readonly gpuCount: number;
  readonly gpuMemoryGiB: number;
  readonly memoryMb: number;
  readonly instanceTypes: readonly string[] | undefined;
}

/**
 * US dollars for an hour of a task with a GPU, on demand: that of the cheapest instance that it fits, which no other task
 * shares, and the fee where ECS manages it.
 *
 * @throws Error when a type has no price, or no type fits
 */
export function gpuTaskHour(task: GpuTask, prices: Prices): number {
  const { instanceHour } = placementOf(task, prices);
  return task.capacity === 'managed-instances'
    ? instanceHour * (1 + prices.managedInstancesFeePercent / 100)
    : instanceHour;
}

/** The tasks that run, in US dollars per period. */
export function serviceCost(service: BaseService, taskHour: number): MathExpression {
  return new MathExpression({
    label: 'compute',
    period: PERIOD,
    expression: `FILL(tasks, 0) * ${taskHour} * PERIOD(tasks) / 3600`,
    usingMetrics: { tasks: taskCount(service, 'RunningTaskCount', { statistic: Stats.AVERAGE, period: PERIOD }) },
  });
}
