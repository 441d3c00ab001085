import { Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { BaseService } from 'aws-cdk-lib/aws-ecs';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { PERIOD } from '../base/period.ts';
import { together } from '../base/together.ts';
import type { AlarmCondition, Graph } from '../compute/compute.ts';
import type { Queues } from '../storage/requestQueue.ts';
import { taskCount, whereNone } from './taskMetrics.ts';

/** An alarm on requests that no task takes, for longer than one needs to start. */
export function serviceAlarms(
  service: BaseService,
  [first, ...others]: Queues,
  startSeconds: number,
): AlarmCondition[] {
  const periods = Math.ceil(startSeconds / PERIOD.toSeconds()) + 1;
  const options = { statistic: Stats.MINIMUM, period: PERIOD };
  const waitingIn = (queue: IQueue) => queue.metricApproximateNumberOfMessagesVisible(options);
  return [
    {
      id: 'BacklogWithoutTask',
      description:
        `Requests have waited for ${periods * PERIOD.toMinutes()} minutes without a task that runs through. The events of ` +
        'the service say why none starts, such as capacity, quota or the image; the log says why one ends. ' +
        'docs/operations.md says what to do.',
      metric: whereNone(
        'running',
        'waiting',
        {
          running: taskCount(service, 'RunningTaskCount', options),
          waiting: together('SUM', [waitingIn(first), ...others.map(waitingIn)]),
        },
        PERIOD,
      ),
      threshold: 0,
      periods,
    },
  ];
}

/** A service's tasks, and what they use of what they have. */
export function serviceGraphs(service: BaseService, maximumTasks: number): Graph[] {
  const most = { statistic: Stats.MAXIMUM, period: PERIOD };
  return [
    {
      title: `Tasks, of at most ${maximumTasks}`,
      left: [
        taskCount(service, 'DesiredTaskCount', { ...most, label: 'asked for' }),
        taskCount(service, 'RunningTaskCount', { ...most, label: 'running' }),
        taskCount(service, 'PendingTaskCount', { ...most, label: 'starting' }),
      ],
    },
    {
      title: 'CPU and memory of the tasks: %',
      left: [
        service.metricCpuUtilization({ period: PERIOD, label: 'CPU' }),
        service.metricMemoryUtilization({ period: PERIOD, label: 'memory' }),
        service.metricMemoryUtilization({ ...most, label: 'memory, at most' }),
      ],
    },
  ];
}
