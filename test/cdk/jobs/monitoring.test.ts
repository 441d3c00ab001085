import { describe, expect, it } from '@jest/globals';
import { dashboardIn, synthesize } from '../../helpers/stacks.ts';

const ALARM = 'AWS::CloudWatch::Alarm';

interface Widget {
  readonly properties: { readonly title?: string; readonly metrics?: readonly (readonly unknown[])[] };
}

const widgetsOf = (props: Parameters<typeof synthesize>[0]): Widget[] =>
  JSON.parse(dashboardIn(synthesize(props))).widgets;

describe('the alarms of jobs', () => {
  const alarms = Object.fromEntries(
    Object.entries(synthesize({ jobs: {} }).findResources(ALARM)).map(([id, { Properties }]) => [
      id.replace(/^ScoringAlarms(\w+)[0-9A-F]{8}$/, '$1'),
      Properties,
    ]),
  );
  const ids = Object.keys(alarms).filter((id) => id.startsWith('Job'));

  it('watch jobs that fail, that wait for each other for an hour, and calls that die', () => {
    expect(ids.toSorted()).toEqual(['JobControlErrors', 'JobScoreErrors', 'JobThrottles', 'JobsFailed']);
    expect(alarms.JobsFailed).toMatchObject({ Namespace: 'AWS/States', MetricName: 'ExecutionsFailed', Threshold: 0 });
    expect(alarms.JobScoreErrors).toMatchObject({
      MetricName: 'Errors',
      Dimensions: [{ Name: 'FunctionName', Value: { Ref: expect.stringMatching(/^ScoringJobsScoreFunction/) } }],
    });
    expect(alarms.JobControlErrors).toMatchObject({
      MetricName: 'Errors',
      Dimensions: [{ Name: 'FunctionName', Value: { Ref: expect.stringMatching(/^ScoringJobsControlFunction/) } }],
    });
    expect(alarms.JobThrottles).toMatchObject({ EvaluationPeriods: 12, DatapointsToAlarm: 12, Threshold: 0 });
    const throttled = alarms.JobThrottles.Metrics.flatMap(
      ({ MetricStat }: { MetricStat?: { Metric: { MetricName: string } } }) =>
        MetricStat === undefined ? [] : [MetricStat.Metric.MetricName],
    );
    expect(throttled).toEqual(['Throttles', 'ExecutionThrottled']);
  });
});

describe('the dashboard of a deployment with jobs', () => {
  const widgets = widgetsOf({ jobs: {} });
  const graph = (title: string): string => JSON.stringify(widgets.find(({ properties }) => properties.title === title));

  it('counts parts by the label of the map', () => {
    expect(graph('Parts of jobs')).toMatch(/"ExecutionsFailed","StateMachineArn","TOKEN\/Parts"/);
  });

  it('counts the rows of jobs apart from those of messages', () => {
    expect(graph('Rows of jobs per second')).toMatch(/"Rows","service","[\w-]+-jobs"/);
    const messages = widgets.filter(({ properties }) => !/obs/.test(properties.title ?? ''));
    expect(JSON.stringify(messages)).not.toContain('-jobs"');
  });
});
