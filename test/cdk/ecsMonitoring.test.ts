import { describe, expect, it } from '@jest/globals';
import {
  type BatchScoringProps,
  type ComputeForm,
  ecsCompute,
  ecsGpuCompute,
  type ServiceCompute,
} from '../../infra/index.ts';
import { GPU_METRIC_UNITS } from '../../lambda/core/observer.ts';
import { createScoring, dashboardIn, templateOf } from '../helpers/stacks.ts';

const ALARM = 'AWS::CloudWatch::Alarm';

const synthesize = (compute: ComputeForm<ServiceCompute>, props: Partial<BatchScoringProps<ServiceCompute>> = {}) =>
  templateOf(createScoring({ ...props, compute }));

function alarmOf(compute: ComputeForm<ServiceCompute>, id: string, shards = 1) {
  const alarms = Object.entries(synthesize(compute, { shards }).findResources(ALARM));
  return alarms.find(([name]) => name.startsWith(`ScoringAlarms${id}`))?.[1].Properties;
}

describe('the alarms of a service', () => {
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
  it('shows the GPUs of this deployment where it has some', () => {
    const scoring = createScoring({ compute: ecsGpuCompute() });
    const body = dashboardIn(templateOf(scoring));
    for (const name of Object.keys(GPU_METRIC_UNITS)) {
      expect(body).toContain(`"batchscore","${name}","service","${scoring.serviceName}"`);
    }
  });
});
