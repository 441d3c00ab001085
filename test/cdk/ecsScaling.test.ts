import { describe, expect, it } from '@jest/globals';
import type { Template } from 'aws-cdk-lib/assertions';
import { type BatchScoringProps, type EcsOptions, ecsCompute, ecsGpuCompute } from '../../infra/index.ts';
import { createScoring, only, templateOf } from '../helpers/stacks.ts';

const TARGET = 'AWS::ApplicationAutoScaling::ScalableTarget';
const POLICY = 'AWS::ApplicationAutoScaling::ScalingPolicy';
const ALARM = 'AWS::CloudWatch::Alarm';

const templateWith = (options: EcsOptions = {}, props: Partial<BatchScoringProps> = {}) =>
  templateOf(createScoring({ ...props, compute: ecsCompute(options) }));

interface Query {
  readonly Id: string;
  readonly Expression?: string;
  readonly MetricStat?: { readonly Metric: { readonly MetricName: string }; readonly Period?: number };
}

/** The metric math of an alarm or a policy, with the names of its metrics. */
function mathOf(queries: readonly Query[]) {
  const expression = queries.find(({ Expression }) => Expression !== undefined)?.Expression;
  const metrics = queries.filter(({ MetricStat }) => MetricStat !== undefined);
  return {
    expression,
    metrics: Object.fromEntries(metrics.map(({ Id, MetricStat }) => [Id, MetricStat?.Metric.MetricName])),
  };
}

/** The alarm that sets a policy off, and what that does. */
function step(template: Template, name: string) {
  const policies = Object.entries(template.findResources(POLICY)).filter(([id]) => id.includes(name));
  const [[id, policy] = ['', undefined]] = policies;
  const alarms = Object.values(template.findResources(ALARM)).filter(({ Properties }) =>
    JSON.stringify(Properties.AlarmActions ?? []).includes(`"${id}"`),
  );
  const [alarm] = alarms;
  return { alarm: alarm?.Properties, action: policy?.Properties.StepScalingPolicyConfiguration };
}

function tracking(template: Template) {
  const { TargetTrackingScalingPolicyConfiguration } = only(template, POLICY, { PolicyType: 'TargetTrackingScaling' });
  return TargetTrackingScalingPolicyConfiguration as Record<string, unknown> & {
    readonly CustomizedMetricSpecification: { readonly Metrics: readonly Query[] };
  };
}

const MESSAGES = {
  visible0: 'ApproximateNumberOfMessagesVisible',
  inFlight0: 'ApproximateNumberOfMessagesNotVisible',
};

describe('a service of workers', () => {
  it('has none to four tasks, or as many as are asked for', () => {
    expect(only(templateWith(), TARGET)).toMatchObject({ MinCapacity: 0, MaxCapacity: 4 });
    expect(only(templateWith({ minimumTasks: 2, maximumTasks: 20 }), TARGET)).toMatchObject({
      MinCapacity: 2,
      MaxCapacity: 20,
    });
    expect(only(templateWith({ minimumTasks: 9 }), TARGET)).toMatchObject({ MinCapacity: 9, MaxCapacity: 9 });
  });

  it('asks for one task within a minute of the first message, while none is asked for', () => {
    const { alarm, action } = step(templateWith(), 'WakeUp');
    expect(alarm).toMatchObject({
      Threshold: 1,
      ComparisonOperator: 'GreaterThanOrEqualToThreshold',
      EvaluationPeriods: 1,
      TreatMissingData: 'notBreaching',
    });
    expect(mathOf(alarm.Metrics)).toEqual({
      expression: 'IF(SUM([tasks, none]) < 1, SUM([visible0, inFlight0]), 0)',
      metrics: { ...MESSAGES, tasks: 'DesiredTaskCount' },
    });
    for (const { MetricStat } of alarm.Metrics) if (MetricStat !== undefined) expect(MetricStat.Period).toBe(60);
    const none = alarm.Metrics.find(({ Id }: Query) => Id === 'none');
    expect(none).toMatchObject({ Expression: '0 * SUM([visible0, inFlight0])', ReturnData: false });
    expect(action).toMatchObject({
      AdjustmentType: 'ExactCapacity',
      StepAdjustments: [{ MetricIntervalLowerBound: 0, ScalingAdjustment: 1 }],
    });
  });

  it('asks for none after a quarter of an hour in which no message waited and none was received', () => {
    const { alarm, action } = step(templateWith(), 'GoToSleep');
    expect(alarm).toMatchObject({
      Threshold: 0,
      ComparisonOperator: 'LessThanOrEqualToThreshold',
      EvaluationPeriods: 15,
      TreatMissingData: 'notBreaching',
    });
    expect(mathOf(alarm.Metrics)).toEqual({
      expression: 'SUM([visible0, received0])',
      metrics: { visible0: 'ApproximateNumberOfMessagesVisible', received0: 'NumberOfMessagesReceived' },
    });
    const received = alarm.Metrics.find(({ Id }: Query) => Id === 'received0');
    expect(received.MetricStat).toMatchObject({ Stat: 'Sum', Period: 60 });
    expect(action).toMatchObject({
      AdjustmentType: 'ExactCapacity',
      StepAdjustments: [{ MetricIntervalUpperBound: 0, ScalingAdjustment: 0 }],
    });
  });

  it('never goes to sleep where tasks always run, and comes back to so many by itself', () => {
    const template = templateWith({ minimumTasks: 2 });
    expect(step(template, 'GoToSleep')).toEqual({ alarm: undefined, action: undefined });
    expect(only(template, TARGET)).toMatchObject({
      ScheduledActions: [{ Schedule: 'rate(5 minutes)', ScalableTargetAction: { MinCapacity: 2 } }],
    });
    expect(only(templateWith(), TARGET)).not.toHaveProperty('ScheduledActions');
  });

  it('has a task for each ten batches of the backlog, or for as many messages as are said, and never ends the last one', () => {
    const { CustomizedMetricSpecification, ...others } = tracking(templateWith({}, { batchSize: 300 }));
    expect(mathOf(CustomizedMetricSpecification.Metrics)).toEqual({
      expression: 'IF(SUM([visible0, inFlight0]) < 1, 1, SUM([visible0, inFlight0])) / tasks',
      metrics: { ...MESSAGES, tasks: 'DesiredTaskCount' },
    });
    expect(others).toEqual({ TargetValue: 3000, ScaleOutCooldown: 180, ScaleInCooldown: 300 });
    expect(tracking(templateWith({ backlogPerTask: 77 }))).toMatchObject({ TargetValue: 77 });
  });

  it('waits for instances with GPUs to start before it asks for more', () => {
    const template = templateOf(createScoring({ compute: ecsGpuCompute() }));
    expect(tracking(template)).toMatchObject({ ScaleOutCooldown: 600 });
  });

  it('adds up the messages of all shards, within what an alarm takes', () => {
    const template = templateWith({}, { shards: 4 });
    const { alarm } = step(template, 'WakeUp');
    const { expression, metrics } = mathOf(alarm.Metrics);
    expect(expression).toContain(
      'SUM([visible0, inFlight0, visible1, inFlight1, visible2, inFlight2, visible3, inFlight3])',
    );
    expect(Object.keys(metrics)).toHaveLength(9);
    expect(Object.keys(mathOf(step(template, 'GoToSleep').alarm.Metrics).metrics)).toHaveLength(8);
  });
});
