import { Stack } from 'aws-cdk-lib';
import { type Alarm, AlarmStatusWidget, Dashboard, type IWidget, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { Construct } from 'constructs';
import { PERIOD } from '../base/period.ts';
import type { Graph } from '../compute/compute.ts';
import { costPerThousandRows } from './cost.ts';
import { FROM_ZERO, FULL_WIDTH, graph } from './graph.ts';
import {
  abandonedRuns,
  batchMismatch,
  batchSize,
  closedWhy,
  fill,
  gpus,
  outcomes,
  padding,
  slowStages,
  stages,
} from './hostGraphs.ts';
import { beingScored, oldestMessageAge, waiting } from './requestMetrics.ts';
import type { Subject } from './subject.ts';

/** Answers an operator's questions, from top to bottom: is it late, does it batch, where do time and money go. */
export function createDashboard(scope: Construct, subject: Subject, alarms: Alarm[]): Dashboard {
  return new Dashboard(scope, 'Dashboard', {
    // Dashboards are shared by all regions of an account.
    dashboardName: `${subject.serviceName}-${Stack.of(scope).region}`,
    widgets: [
      [new AlarmStatusWidget({ title: 'Alarms', alarms, width: FULL_WIDTH, height: 3 })],
      [backlog(subject), age(subject)],
      [batchSize(subject), fill(subject)],
      [closedWhy(subject), padding(subject)],
      [stages(subject), slowStages(subject)],
      [outcomes(subject), cost(subject)],
      [abandonedRuns(subject), batchMismatch(subject)],
      [...subject.compute.graphs.map(toWidget), ...(subject.compute.measuresGpus ? [gpus(subject)] : [])],
      ...(subject.jobs === undefined ? [] : [subject.jobs.graphs.map(toWidget)]),
    ],
  });
}

function backlog({ requests }: Subject): IWidget {
  const options = { statistic: Stats.MAXIMUM, period: PERIOD };
  const deadLetters = requests.deadLetterQueue?.metricApproximateNumberOfMessagesVisible(options);
  return graph({
    title: 'Backlog: messages',
    leftYAxis: FROM_ZERO,
    left: [
      waiting(requests),
      beingScored(requests),
      ...(deadLetters === undefined ? [] : [deadLetters.with({ label: 'dead letters' })]),
    ],
  });
}

function age({ requests, batching, latencyTargetSeconds }: Subject): IWidget {
  return graph({
    title: 'Age of the oldest message: seconds',
    leftYAxis: FROM_ZERO,
    left: [oldestMessageAge(requests, { label: 'oldest' })],
    leftAnnotations: [
      { value: latencyTargetSeconds, label: 'latency target' },
      { value: batching.windowSeconds, label: 'window' },
    ],
  });
}

function cost(subject: Subject): IWidget {
  const { date, region } = subject.prices;
  return graph({
    title: `US dollars per thousand rows, at the prices of ${region}, ${date}`,
    leftYAxis: FROM_ZERO,
    left: [costPerThousandRows(subject)],
  });
}

function toWidget({ title, left, right }: Graph): IWidget {
  return graph({
    title,
    leftYAxis: FROM_ZERO,
    left: [...left],
    ...(right !== undefined && { right: [...right], rightYAxis: FROM_ZERO }),
  });
}
