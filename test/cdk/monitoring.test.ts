import { describe, expect, it } from '@jest/globals';
import { Duration } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { lambdaGpuCompute } from '../../infra/index.ts';
import { METRIC_UNITS } from '../../lambda/core/observer.ts';
import { createScoring, createStack, dashboardIn, synthesize, templateOf } from '../helpers/stacks.ts';

/** The bare count, and reasons that nothing emits. */
const NOT_SHOWN = ['MicroBatches'];
const ALARM = 'AWS::CloudWatch::Alarm';

describe('the alarms', () => {
  it('watch dead letters, results that nobody collects, age, the quota in flight, retries, stores that are missing or denied, errors, scorers lost, batched answers, the function and jobs', () => {
    const template = synthesize({ latencyTarget: Duration.seconds(90), jobs: {} });
    expect(alarmsIn(template)).toEqual({
      DeadLetters: { metric: 'ApproximateNumberOfMessagesVisible', above: 0, periods: '1 of 1' },
      UncollectedResults: { metric: 'ApproximateAgeOfOldestMessage', above: 86_400, periods: '1 of 1' },
      OldestMessage: { metric: 'ApproximateAgeOfOldestMessage', above: 90, periods: '1 of 1' },
      MessagesInFlight: { metric: 'ApproximateNumberOfMessagesNotVisible', above: 96_000, periods: '1 of 1' },
      Retries: { metric: '100 * retries / (answered + retries)', above: 5, periods: '2 of 3' },
      MissingOrDenied: { metric: 'MissingOrDenied', above: 0, periods: '1 of 1' },
      Errors: { metric: '100 * errors / requests', above: 50, periods: '2 of 3' },
      ScorersLost: { metric: 'ScorersLost', above: 0, periods: '1 of 1' },
      BatchMismatch: { metric: 'BatchMismatch', above: 0, periods: '1 of 1' },
      FunctionErrors: { metric: 'Errors', above: 0, periods: '1 of 1' },
      FunctionThrottles: { metric: 'Throttles', above: 0, periods: '3 of 3' },
      JobsFailed: { metric: 'ExecutionsFailed', above: 0, periods: '1 of 1' },
      JobThrottles: { metric: 'FILL(calls, 0) + FILL(executions, 0)', above: 0, periods: '12 of 12' },
      JobScoreErrors: { metric: 'Errors', above: 0, periods: '1 of 1' },
      JobControlErrors: { metric: 'Errors', above: 0, periods: '1 of 1' },
    });
    template.allResourcesProperties(ALARM, {
      ComparisonOperator: 'GreaterThanThreshold',
      TreatMissingData: 'notBreaching',
    });
  });

  it('look at the published version of a GPU function', () => {
    const template = synthesize({ compute: lambdaGpuCompute() });
    const alarms = Object.entries(template.findResources(ALARM)).filter(([id]) => id.includes('Function'));
    expect(alarms).toHaveLength(2);
    for (const [, { Properties }] of alarms) {
      expect(JSON.stringify(Properties.Dimensions)).toContain(':live');
    }
  });

  it('leave out the dead letters that an existing queue does not have', () => {
    const stack = createStack();
    const queue = Queue.fromQueueArn(stack, 'Orders', 'arn:aws:sqs:eu-central-1:123456789012:orders');
    const scoring = createScoring({ requestQueue: { queue, visibilityTimeout: Duration.seconds(400) } }, stack);
    expect(alarmsIn(templateOf(scoring))).not.toHaveProperty('DeadLetters');
  });

  it('tell of results before an existing queue deletes them', () => {
    const stack = createStack();
    const resultQueue = new Queue(stack, 'Scores', { retentionPeriod: Duration.hours(2) });
    const { UncollectedResults } = alarmsIn(templateOf(createScoring({ stores: { resultQueue } }, stack)));
    expect(UncollectedResults).toMatchObject({ above: 3600 });
  });

  it('leave out results that are on no queue', () => {
    expect(alarmsIn(synthesize({ results: ['table'] }))).not.toHaveProperty('UncollectedResults');
  });

  it('all do what they are told to', () => {
    const stack = createStack();
    const topic = new Topic(stack, 'OnCall');
    const scoring = createScoring({ alarmActions: [new SnsAction(topic)] }, stack);
    expect(Object.keys(scoring.alarms)).toHaveLength(11);
    const actions = [stack.resolve(topic.topicArn)];
    templateOf(scoring).allResourcesProperties(ALARM, { AlarmActions: actions, OKActions: actions });
  });

  it('are said at synth to tell nobody where nobody is named', () => {
    const notesOf = (props: Parameters<typeof createScoring>[0]) =>
      createScoring(props)
        .node.findAll()
        .flatMap(({ node }) => node.metadata.filter(({ type }) => type === 'aws:cdk:info').map(({ data }) => data));
    expect(notesOf({})).toEqual([
      expect.stringMatching(/^alarmActions: expected somebody .* SnsAction .*noAlarmActions/),
    ]);
    const topic = new Topic(createStack(), 'OnCall');
    expect(notesOf({ alarmActions: [new SnsAction(topic)] })).toEqual([]);
  });

  it('tell others that they are over, or nobody', () => {
    const stack = createStack();
    const [onCall, board] = [new Topic(stack, 'OnCall'), new Topic(stack, 'Board')];
    const scoring = createScoring({ alarmActions: [new SnsAction(onCall)], okActions: [new SnsAction(board)] }, stack);
    templateOf(scoring).allResourcesProperties(ALARM, {
      AlarmActions: [stack.resolve(onCall.topicArn)],
      OKActions: [stack.resolve(board.topicArn)],
    });
    const quiet = synthesize({ okActions: [] });
    for (const { Properties } of Object.values(quiet.findResources(ALARM))) {
      expect(Properties).not.toHaveProperty('OKActions');
    }
  });

  it('go off where they are told to', () => {
    const template = synthesize({ alarmThresholds: { retriedPercent: 1, errorPercent: 2 } });
    expect(alarmsIn(template)).toMatchObject({
      Retries: { above: 1 },
      Errors: { above: 2 },
    });
  });

  it('look at the shard that has most in flight, because the quota is that of a queue', () => {
    const template = synthesize({ shards: 3 });
    const names = [0, 1, 2].map((shard) => `approximateNumberOfMessagesNotVisible${shard}`);
    expect(alarmsIn(template)).toMatchObject({ MessagesInFlight: { metric: `MAX([${names.join(', ')}])` } });
  });

  it('give a GPU that does not always run the time to start', () => {
    const above = (minimumEnvironments: number, latencyTarget?: Duration) =>
      alarmsIn(synthesize({ compute: lambdaGpuCompute({ minimumEnvironments }), latencyTarget })).OldestMessage?.above;
    expect((above(0) ?? 0) - (above(1) ?? 0)).toBe(600);
    expect(above(0, Duration.seconds(100))).toBe(100);
  });
});

describe('the dashboard', () => {
  it('shows every metric that is emitted but the bare count of micro-batches, of this deployment only', () => {
    const scoring = createScoring();
    const shown = dashboardIn(templateOf(scoring)).matchAll(/"batchscore","(\w+)","service","([^"]+)"/g);
    const metrics = [...shown].map(([, name = '', service]) => ({ name, service }));
    expect(new Set(metrics.map(({ name }) => name))).toEqual(
      new Set(Object.keys(METRIC_UNITS).filter((name) => !NOT_SHOWN.includes(name))),
    );
    expect(new Set(metrics.map(({ service }) => service))).toEqual(new Set([scoring.serviceName]));
  });

  it('shows how many results wait on the result queue, and since when, if there is one', () => {
    const withQueue = dashboardIn(synthesize());
    for (const text of ['Results on the queue: messages', 'Age of the oldest result: seconds', '"value":86400']) {
      expect(withQueue).toContain(text);
    }
    expect(dashboardIn(synthesize({ results: ['table'] }))).not.toContain('oldest result');
  });

  it('draws batch size, window and latency target as lines', () => {
    const body = dashboardIn(
      synthesize({ batchSize: 777, window: Duration.seconds(33), latencyTarget: Duration.seconds(444) }),
    );
    for (const line of ['"value":777', '"value":33', '"value":444']) expect(body).toContain(line);
  });
});

describe('the metrics', () => {
  it('have the namespace, the dimension and the statistic that fits them', () => {
    const scoring = createScoring();
    const { serviceName: service } = scoring;
    const told = [
      scoring.metric('Answered'),
      scoring.metric('BatchFill'),
      scoring.metric('RunTime'),
      scoring.metric('RunTime', { statistic: 'p99' }),
    ].map(({ namespace, metricName, dimensions, statistic }) => ({ namespace, metricName, dimensions, statistic }));
    const common = { namespace: 'batchscore', dimensions: { service } };
    expect(told).toEqual([
      { ...common, metricName: 'Answered', statistic: 'Sum' },
      { ...common, metricName: 'BatchFill', statistic: 'Average' },
      { ...common, metricName: 'RunTime', statistic: 'p50' },
      { ...common, metricName: 'RunTime', statistic: 'p99' },
    ]);
    expect(scoring.metricOldestMessageAge()).toMatchObject({
      metricName: 'ApproximateAgeOfOldestMessage',
      statistic: 'Maximum',
    });
  });
});

function alarmsIn(template: Template): Record<string, { metric: string; above: number; periods: string }> {
  const alarms = Object.entries(template.findResources(ALARM)).map(([id, { Properties }]) => [
    id.replace(/^ScoringAlarms(\w+)[0-9A-F]{8}$/, '$1'),
    {
      metric: Properties.MetricName ?? Properties.Metrics[0].Expression,
      above: Properties.Threshold,
      periods: `${Properties.DatapointsToAlarm} of ${Properties.EvaluationPeriods}`,
    },
  ]);
  return Object.fromEntries(alarms);
}
