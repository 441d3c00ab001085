import { describe, expect, it } from '@jest/globals';
import { Duration, Size } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { type BatchScoringProps, type LambdaGpuOptions, lambdaCompute, lambdaGpuCompute } from '../../infra/index.ts';
import { METRIC_UNITS } from '../../lambda/core/contract/metricNames.ts';
import { createScoring, createStack, dashboardIn, refusalOf, synthesize, templateOf } from './setup.ts';

/** The bare count, and reasons that nothing emits. */
const NOT_SHOWN = ['MicroBatches'];
const ALARM = 'AWS::CloudWatch::Alarm';

describe('the alarms', () => {
  it('watch dead letters, age, the quota in flight, retries, errors, runs left behind, batched answers and the function', () => {
    const template = synthesize({ latencyTarget: Duration.seconds(90) });
    expect(alarmsIn(template)).toEqual({
      DeadLetters: { metric: 'ApproximateNumberOfMessagesVisible', above: 0, periods: '1 of 1' },
      OldestMessage: { metric: 'ApproximateAgeOfOldestMessage', above: 90, periods: '1 of 1' },
      MessagesInFlight: { metric: 'ApproximateNumberOfMessagesNotVisible', above: 96_000, periods: '1 of 1' },
      Retries: { metric: '100 * retries / (answered + retries)', above: 5, periods: '2 of 3' },
      Errors: { metric: '100 * errors / requests', above: 50, periods: '2 of 3' },
      AbandonedRuns: { metric: 'AbandonedRuns', above: 0, periods: '1 of 1' },
      BatchMismatch: { metric: 'BatchMismatch', above: 0, periods: '1 of 1' },
      FunctionErrors: { metric: 'Errors', above: 0, periods: '1 of 1' },
      FunctionThrottles: { metric: 'Throttles', above: 0, periods: '3 of 3' },
    });
    template.allResourcesProperties(ALARM, {
      ComparisonOperator: 'GreaterThanThreshold',
      TreatMissingData: 'notBreaching',
    });
  });

  it('expect an answer within the window and one invocation unless a latency target is given', () => {
    const template = synthesize({
      window: Duration.seconds(20),
      compute: lambdaCompute({ timeout: Duration.seconds(30) }),
    });
    expect(alarmsIn(template)).toMatchObject({ OldestMessage: { above: 50 } });
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

  it('all do what they are told to', () => {
    const stack = createStack();
    const topic = new Topic(stack, 'OnCall');
    const scoring = createScoring({ alarmActions: [new SnsAction(topic)] }, stack);
    expect(scoring.alarms).toHaveLength(9);
    const actions = [stack.resolve(topic.topicArn)];
    templateOf(scoring).allResourcesProperties(ALARM, { AlarmActions: actions, OKActions: actions });
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
    const template = synthesize({ alarmThresholds: { retriedPercent: 1, errorPercent: 2, inFlightPercent: 50 } });
    expect(alarmsIn(template)).toMatchObject({
      Retries: { above: 1 },
      Errors: { above: 2 },
      MessagesInFlight: { above: 60_000 },
    });
  });

  it('look at the shard that has most in flight, because the quota is that of a queue', () => {
    const template = synthesize({ shards: 3 });
    const names = [0, 1, 2].map((shard) => `approximateNumberOfMessagesNotVisible${shard}`);
    expect(alarmsIn(template)).toMatchObject({ MessagesInFlight: { metric: `MAX([${names.join(', ')}])` } });
  });

  it.each([
    ['retriedPercent', 100],
    ['errorPercent', -1],
    ['inFlightPercent', 0],
  ])('are refused with %s %d', (name, percent) => {
    expect(refusalOf({ alarmThresholds: { [name]: percent } })).toMatch(
      new RegExp(`^${name}: expected a whole number from \\d to 99, got ${percent}`),
    );
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

  it('is left out when that is asked for, and the alarms stay', () => {
    const scoring = createScoring({ dashboard: false });
    expect(scoring.dashboard).toBeUndefined();
    templateOf(scoring).resourceCountIs('AWS::CloudWatch::Dashboard', 0);
    templateOf(scoring).resourceCountIs(ALARM, scoring.alarms.length);
  });

  it('draws batch size, window and latency target as lines', () => {
    const body = dashboardIn(
      synthesize({ batchSize: 777, window: Duration.seconds(33), latencyTarget: Duration.seconds(444) }),
    );
    for (const line of ['"value":777', '"value":33', '"value":444']) expect(body).toContain(line);
  });

  it('shows what SQS has, and what becomes of the messages', () => {
    const body = dashboardIn(synthesize());
    for (const metric of [
      'ApproximateNumberOfMessagesVisible',
      'ApproximateNumberOfMessagesNotVisible',
      'ApproximateAgeOfOldestMessage',
      'PolledEventCount',
      'DeletedEventCount',
      'Invocations',
      'Throttles',
    ]) {
      expect(body).toContain(`"${metric}"`);
    }
  });
});

describe('cost per thousand rows', () => {
  it('is the GB-seconds, invocations and SQS requests of a period over its rows', () => {
    const compute = lambdaCompute({ architecture: Architecture.X86_64, memorySize: Size.mebibytes(2048) });
    expect(costOf({ compute })({ durationMs: 500_000, invocations: 100, ...MOVED, rows: 10_000 })).toBeCloseTo(
      (1000 * (500 * 2 * 0.0000166667 + (100 * 0.2) / 1e6 + (2 * SQS_REQUESTS * 0.4) / 1e6)) / 10_000,
      12,
    );
  });

  it('is a fifth less for the time on arm64', () => {
    const durations = { ...NO_INVOCATIONS, durationMs: 500_000, rows: 10_000 };
    const arm = costOf({ compute: lambdaCompute({ memorySize: Size.mebibytes(2048) }) })(durations);
    expect(arm).toBeCloseTo((1000 * 500 * 2 * 0.0000133334) / 10_000, 12);
  });

  it('has the writes of table and bucket in it', () => {
    const cost = costOf({ results: ['table', 'bucket'] });
    expect(cost({ ...NO_INVOCATIONS, answeredRecords: 1e6, writes: 1000, rows: 1000 })).toBeCloseTo(0.625 + 0.005, 12);
  });

  it('counts each 64 KiB of a message that results fill as a request, and the requests of others by ten', () => {
    const cost = costOf({ resultsPerMessage: 'fill', resultMessageSize: Size.bytes(131_072) });
    const moved = { ...NO_INVOCATIONS, sent0: 1000, sent1: 1000, rows: 1000 };
    expect(cost(moved)).toBeCloseTo(((100 + 2000) * 0.4) / 1e6, 12);
  });

  it('has dearer SQS requests on FIFO queues', () => {
    const moved = { ...NO_INVOCATIONS, sent0: 10e6, rows: 1000 };
    expect(costOf({ fifo: true })(moved) / costOf({})(moved)).toBeCloseTo(0.5 / 0.4, 12);
  });

  it('has the logs, and the metrics in hours with traffic', () => {
    const cost = costOf({});
    const quiet = { ...NO_INVOCATIONS, rows: 1000 };
    expect(cost({ ...quiet, logBytes: 2 ** 30 })).toBeCloseTo(0.5, 12);
    const metricsOfAnHour = (Object.keys(METRIC_UNITS).length * 0.3) / 730;
    expect(cost({ ...quiet, invoked: 1 })).toBeCloseTo(metricsOfAnHour / 12, 12);
  });

  it('counts the instances of environments that share one, and larger ones for more memory', () => {
    const cost = (options: LambdaGpuOptions) =>
      costOf({ compute: lambdaGpuCompute(options) })({ invocations: 0, rows: 1000 }) * 12;
    const quarter = { gpuMemory: Size.gibibytes(3), memorySize: Size.gibibytes(2), maximumEnvironments: 6 };
    expect(cost({ ...quarter, minimumEnvironments: 5 })).toBeCloseTo(0.526 * 1.15, 9);
    expect(cost({ ...quarter, minimumEnvironments: 6 })).toBeCloseTo(2 * 0.526 * 1.15, 9);
    expect(cost({ memorySize: Size.gibibytes(16) })).toBeCloseTo(0.752 * 1.15, 9);
  });

  it('cannot be told where nothing in the list has the memory', () => {
    const compute = lambdaGpuCompute({ memorySize: Size.gibibytes(32), instanceTypes: ['g6.xlarge'] });
    expect(() => synthesize({ compute })).toThrow(
      'memoryMb: expected an instance that has 32768 MB and 16 GiB of GPU memory, got only g6.xlarge; lower one of ' +
        'these or name a larger instance type',
    );
  });

  it('counts the GPUs that always run, and one while there are invocations when none always does', () => {
    const hour = 0.526 * 1.15;
    const cost = (minimumEnvironments: number, invocations: number) =>
      costOf({ compute: lambdaGpuCompute({ minimumEnvironments }) })({ invocations, rows: 1000 });
    expect(cost(2, 0)).toBeCloseTo((2 * hour) / 12, 9);
    expect(cost(0, 0)).toBe(0);
    expect(cost(0, 5)).toBeCloseTo(hour / 12 + 1e-6, 9);
  });

  it('is at prices of your own, the others staying as they are', () => {
    const compute = lambdaGpuCompute({ gpuMemory: Size.gibibytes(24) });
    const prices = { date: '2027-01', instanceHour: { 'g6.xlarge': 0.5 } };
    expect(costOf({ compute, prices })({ invocations: 0, rows: 1000 })).toBeCloseTo((0.5 * 1.15) / 12, 9);
    expect(dashboardIn(synthesize({ prices }))).toContain('at the prices of us-east-1, 2027-01');
  });

  it('cannot be told for an instance type without a price', () => {
    const compute = lambdaGpuCompute({ instanceTypes: ['p9.huge'] });
    expect(() => synthesize({ compute })).toThrow(
      "prices: expected instanceHour to have 'p9.huge', got none; add its price to the price list",
    );
  });
});

describe('the metrics', () => {
  it('have the namespace, the dimension and the statistic that fits them', () => {
    const scoring = createScoring();
    const { serviceName: service } = scoring;
    const told = [
      scoring.metricAnswered(),
      scoring.metricErrors(),
      scoring.metricRetries(),
      scoring.metricRows(),
      scoring.metricBatchFill(),
      scoring.metric('RunTime'),
      scoring.metric('RunTime', { statistic: 'p99' }),
    ].map(({ namespace, metricName, dimensions, statistic }) => ({ namespace, metricName, dimensions, statistic }));
    const common = { namespace: 'batchscore', dimensions: { service } };
    expect(told).toEqual([
      { ...common, metricName: 'Answered', statistic: 'Sum' },
      { ...common, metricName: 'Errors', statistic: 'Sum' },
      { ...common, metricName: 'Retries', statistic: 'Sum' },
      { ...common, metricName: 'Rows', statistic: 'Sum' },
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

const NO_INVOCATIONS = { durationMs: 0, invocations: 0 };

/** What moves on each of two queues in a period, and the SQS requests that it takes. */
const MOVED = Object.fromEntries(
  [0, 1].flatMap((q) => [
    [`sent${q}`, 900],
    [`received${q}`, 900],
    [`deleted${q}`, 900],
    [`empty${q}`, 30],
  ]),
);
const SQS_REQUESTS = 270 + 30;

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

/** The dashboard's cost as a function of its metrics, where those that are not said have no data. */
function costOf(props: Partial<BatchScoringProps>): (metrics: Readonly<Record<string, number>>) => number {
  const { widgets } = JSON.parse(dashboardIn(synthesize(props)));
  const widget = widgets.find(({ properties }: { properties: { title?: string } }) =>
    properties.title?.startsWith('US dollars'),
  );
  const expressions: Record<string, string> = Object.fromEntries(
    widget.properties.metrics
      .map((metric: unknown[]) => metric.at(-1))
      .filter((options: { expression?: string }) => options.expression !== undefined)
      .map(({ id, expression }: { id?: string; expression: string }) => [id ?? 'total', expression]),
  );
  return (metrics) => evaluate(expressions.total ?? '', expressions, metrics);
}

/** Metric math, as far as it is used: FILL, IF, PERIOD of five minutes, arithmetic and comparison. */
function evaluate(
  text: string,
  expressions: Readonly<Record<string, string>>,
  metrics: Readonly<Record<string, number>>,
): number {
  const scope = {
    FILL: (value: number, otherwise: number) => (Number.isNaN(value) ? otherwise : value),
    IF: (condition: boolean, then: number, otherwise: number) => (condition ? then : otherwise),
    PERIOD: () => 300,
  };
  const names = [...text.matchAll(/\b[a-z]\w*\b/g)].map(([name]) => name);
  const values = names.map((name) =>
    expressions[name] === undefined ? (metrics[name] ?? Number.NaN) : evaluate(expressions[name], expressions, metrics),
  );
  const code = new Function(...Object.keys(scope), ...names, `return ${text};`);
  return code(...Object.values(scope), ...values);
}
