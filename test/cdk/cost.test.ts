import { describe, expect, it } from '@jest/globals';
import { Size } from 'aws-cdk-lib';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import {
  type BatchScoringProps,
  type Compute,
  type ComputeForm,
  ecsCompute,
  ecsGpuCompute,
  type LambdaGpuOptions,
  lambdaCompute,
  lambdaGpuCompute,
  type ServiceCompute,
} from '../../infra/index.ts';
import { ALL_METRIC_UNITS, METRIC_UNITS } from '../../lambda/core/observer.ts';
import { createScoring, dashboardIn, synthesize, templateOf } from '../helpers/stacks.ts';

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
    expect(cost({ ...NO_INVOCATIONS, writeUnits: 1e6, writes: 1000, rows: 1000 })).toBeCloseTo(0.625 + 0.005, 12);
    expect(cost({ ...NO_INVOCATIONS, writes: 1000, rows: 1000 })).toBeCloseTo(0.005, 12);
  });

  it('counts the write units of the table, of which a result of several KB takes several', () => {
    const body = dashboardIn(synthesize({ results: ['table'] }));
    expect(body).toContain('["AWS/DynamoDB","ConsumedWriteCapacityUnits","TableName","TOKEN",');
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
    expect(dashboardIn(synthesize())).toContain('["AWS/Logs","IncomingBytes","LogGroupName","TOKEN",');
    const cost = costOf({});
    const quiet = { ...NO_INVOCATIONS, rows: 1000 };
    expect(cost({ ...quiet, logBytes: 2 ** 30 })).toBeCloseTo(0.5, 12);
    const metricsOfAnHour = (units: object) => (Object.keys(units).length * 0.3) / 730;
    expect(cost({ ...quiet, invoked: 1 })).toBeCloseTo(metricsOfAnHour(METRIC_UNITS) / 12, 12);
    const onGpus = costOf({ compute: ecsGpuCompute() });
    expect(onGpus({ tasks: 0, rows: 1000, invoked: 1 })).toBeCloseTo(metricsOfAnHour(ALL_METRIC_UNITS) / 12, 12);
  });

  it.each<[string, number, number, ComputeForm<ServiceCompute>]>([
    [
      'the vCPUs and the memory on Fargate',
      3,
      2 * 0.04048 + 6 * 0.004445,
      ecsCompute({ architecture: Architecture.X86_64, vcpus: 2, memorySize: Size.gibibytes(6) }),
    ],
    ['those on arm64', 1, 0.03238 + 2 * 0.00356, ecsCompute()],
    ['no task', Number.NaN, 0, ecsCompute()],
    ['an instance, with a fee where ECS manages it', 2, 0.526 * 1.15, ecsGpuCompute()],
    ['an instance of your own', 2, 0.526, ecsGpuCompute({ capacity: 'asg' })],
    ['a larger instance', 1, 0.8048 * 1.15, ecsGpuCompute({ gpuMemory: Size.gibibytes(24) })],
    [
      'a whole instance, however small the task',
      2,
      0.526 * 1.15,
      ecsGpuCompute({ gpuMemory: Size.gibibytes(4), memorySize: Size.gibibytes(3) }),
    ],
  ])('counts of each running task %s', (_, tasks, usdHour, compute) => {
    expect(costOf({ compute })({ tasks, rows: 1000 })).toBeCloseTo(((tasks || 0) * usdHour) / 12, 12);
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
      'memorySize: expected an instance that has 32768 MB and 16 GiB of GPU memory, got only g6.xlarge; lower one of ' +
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

  it.each([
    ['a function', lambdaGpuCompute({ instanceTypes: ['g7e.2xlarge'] })],
    ['a service', ecsGpuCompute({ instanceTypes: ['g5.12xlarge'], gpuCount: 4 })],
  ])('leaves out the instances of %s whose price is not known, and says so', (_, compute) => {
    const body = dashboardIn(templateOf(createScoring<Compute>({ compute })));
    expect(body).toContain(
      'US dollars per thousand rows without compute, whose price is not in the list, at the prices',
    );
    expect(body).not.toContain('computeUsd');
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

/** The dashboard's cost as a function of its metrics, where those that are not said have no data. */
function costOf(props: Partial<BatchScoringProps<Compute>>): (metrics: Readonly<Record<string, number>>) => number {
  const { widgets } = JSON.parse(dashboardIn(templateOf(createScoring(props))));
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
