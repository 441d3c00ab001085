import { describe, expect, it } from '@jest/globals';
import { Size } from 'aws-cdk-lib';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import {
  type BatchScoringProps,
  type ComputeForm,
  ecsCompute,
  ecsGpuCompute,
  type ServiceCompute,
} from '../../infra/index.ts';
import { createScoring, dashboardIn, templateOf } from '../helpers/stacks.ts';

const ALARM = 'AWS::CloudWatch::Alarm';

const synthesize = (compute: ComputeForm<ServiceCompute>, props: Partial<BatchScoringProps<ServiceCompute>> = {}) =>
  templateOf(createScoring({ ...props, compute }));

function alarmOf(compute: ComputeForm<ServiceCompute>, id: string, shards = 1) {
  const alarms = Object.entries(synthesize(compute, { shards }).findResources(ALARM));
  return alarms.find(([name]) => name.startsWith(`ScoringAlarms${id}`))?.[1].Properties;
}

describe('the alarms of a service', () => {
  it('are those of every deployment, and one on a backlog without a task', () => {
    const scoring = createScoring({ compute: ecsCompute() });
    expect(scoring.alarms.map(({ node }) => node.id)).toEqual([
      'DeadLetters',
      'OldestMessage',
      'MessagesInFlight',
      'Retries',
      'MissingOrDenied',
      'Errors',
      'AbandonedRuns',
      'QuarantineLosses',
      'BatchMismatch',
      'BacklogWithoutTask',
    ]);
  });

  it.each([
    ['ecs', ecsCompute(), 2],
    ['ecs-gpu', ecsGpuCompute(), 3],
  ])(
    'go off when requests have waited all the while, and no task ran through, for longer than one of %s needs to start',
    (_, compute, periods) => {
      const alarm = alarmOf(compute, 'BacklogWithoutTask');
      expect(alarm).toMatchObject({ Threshold: 0, EvaluationPeriods: periods, DatapointsToAlarm: periods });
      const [expression, running, waiting] = alarm?.Metrics ?? [];
      expect(expression.Expression).toBe('IF(SUM([running, none]) < 1, waiting, 0)');
      expect(running.MetricStat).toMatchObject({
        Metric: { MetricName: 'RunningTaskCount' },
        Stat: 'Minimum',
        Period: 300,
      });
      expect(waiting.MetricStat).toMatchObject({
        Metric: { MetricName: 'ApproximateNumberOfMessagesVisible' },
        Stat: 'Minimum',
      });
    },
  );

  it('add up what waits in all shards', () => {
    const alarm = alarmOf(ecsCompute(), 'BacklogWithoutTask', 3);
    expect(JSON.stringify(alarm?.Metrics)).toMatch(/SUM\(\[\w+0, \w+1, \w+2\]\)/);
  });

  it.each([
    ['ecs', ecsCompute(), 61 + 900 + 180],
    ['ecs-gpu', ecsGpuCompute(), 61 + 900 + 600],
    ['ecs with a task that always runs', ecsCompute({ minimumTasks: 1 }), 61],
  ])('give the first request the time that waking takes: %s', (_, compute, seconds) => {
    expect(alarmOf(compute, 'OldestMessage')).toMatchObject({ Threshold: seconds });
  });
});

describe('the dashboard of a service', () => {
  it('shows its tasks, and what they use of CPU and memory, and nothing of a function', () => {
    const body = dashboardIn(synthesize(ecsCompute({ maximumTasks: 7 })));
    for (const shown of ['Tasks, of at most 7', 'DesiredTaskCount', 'RunningTaskCount', 'PendingTaskCount']) {
      expect(body).toContain(shown);
    }
    for (const shown of ['CPUUtilization', 'MemoryUtilization']) expect(body).toContain(`"AWS/ECS","${shown}"`);
    expect(body).not.toContain('AWS/Lambda');
  });
});

describe('what a service costs', () => {
  /** US dollars for an hour of so many tasks, by the expression of the dashboard. */
  function hourOf(compute: ComputeForm<ServiceCompute>, tasks: number): number {
    const body = dashboardIn(synthesize(compute));
    const [, expression = ''] = /"expression":"(FILL\(tasks, 0\)[^"]*)"/.exec(body) ?? [];
    const code = new Function('FILL', 'PERIOD', 'tasks', `return ${expression};`);
    const fill = (value: number, otherwise: number) => (Number.isNaN(value) ? otherwise : value);
    return code(fill, () => 3600, tasks);
  }

  it('is that of the vCPUs and the memory of the tasks that run on Fargate', () => {
    const x86 = ecsCompute({ architecture: Architecture.X86_64, vcpus: 2, memorySize: Size.gibibytes(6) });
    expect(hourOf(x86, 3)).toBeCloseTo(3 * (2 * 0.04048 + 6 * 0.004445), 12);
    expect(hourOf(ecsCompute(), 1)).toBeCloseTo(0.03238 + 2 * 0.00356, 12);
    expect(hourOf(ecsCompute(), Number.NaN)).toBe(0);
  });

  it('is that of an instance for each task, with a fee where ECS manages it', () => {
    expect(hourOf(ecsGpuCompute(), 2)).toBeCloseTo(2 * 0.526 * 1.15, 12);
    expect(hourOf(ecsGpuCompute({ capacity: 'asg' }), 2)).toBeCloseTo(2 * 0.526, 12);
    expect(hourOf(ecsGpuCompute({ gpuMemory: Size.gibibytes(24) }), 1)).toBeCloseTo(0.8048 * 1.15, 12);
    const small = ecsGpuCompute({ gpuMemory: Size.gibibytes(4), memorySize: Size.gibibytes(3) });
    expect(hourOf(small, 2)).toBeCloseTo(2 * 0.526 * 1.15, 12);
  });
});
