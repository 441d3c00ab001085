/**
 * Process of one contestant: ONNX Runtime alone, or the handler with its scorer. It opens the model once, and measures
 * runs of that many rows, or events of that many messages.
 */
import { join } from 'node:path';
import type { SQSRecord } from 'aws-lambda';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import type { MicroBatchReport } from '../../lambda/core/observer.ts';
import { turnRuntimeTelemetryOff } from '../../lambda/onnx/session.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { openHandler } from '../contestants/memoryHandler.ts';
import { answerParent, cpuMicroseconds } from '../harness/child.ts';
import { chunks, drawMessages, encodeBody, type Message, toRecord } from '../workload/messages.ts';
import { createRandom } from '../workload/random.ts';
import type { InputTensor } from '../workload/scenarios.ts';
import { type GpuExtent, type GpuScenario, gpuScenarios } from './gpuScenarios.ts';

export interface GpuTask {
  readonly contestant: 'bare' | 'handler';
  readonly part: string;
  readonly extent: GpuExtent;
  readonly provider: string;
  readonly modelsDirectory: string;
  /** Minimum duration of the measurement of each batch size. */
  readonly milliseconds: number;
}

/** Figures of runs or events. */
export interface GpuCalls {
  /** Rows of a run, or messages of an event. */
  readonly batch: number;
  readonly requestsPerMessage: number;
  readonly rowsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Extra time of the first run of a shape, on average over the shapes. For the handler, that of the first event. */
  readonly firstMs: number;
  /** CPU time of the process and its scorer for a row. */
  readonly cpuMicroseconds: number;
  /** Share of the time in which the model runs. 1 for a bare session. */
  readonly runShare: number;
  readonly rowsPerRun: number;
}

answerParent((task: GpuTask) => measure(task));

async function measure(task: GpuTask): Promise<GpuCalls[]> {
  const scenario = gpuScenarios(task.extent).find(({ name }) => name === task.part);
  if (scenario === undefined) throw new Error(`expected a part of the bench, got '${task.part}'`);
  const messages = [...drawMessages(scenario, scenario.messages)];
  return task.contestant === 'handler'
    ? measureHandler(task, scenario, messages)
    : measureBare(task, scenario, messages);
}

/** Runs at most for one pass of a batch size, so that lengths of every kind are among them. */
const MAX_RUNS = 32;

async function measureBare(
  { provider, extent, modelsDirectory, milliseconds }: GpuTask,
  { name, isOnProcessor }: GpuScenario,
  messages: readonly Message[],
): Promise<GpuCalls[]> {
  turnRuntimeTelemetryOff();
  const path = join(modelsDirectory, name, '1', 'model.onnx');
  const session = await InferenceSession.create(path, { executionProviders: [isOnProcessor ? 'cpu' : provider] });
  const sorted = messages.toSorted((a, b) => a.length - b.length);
  const figures: GpuCalls[] = [];
  for (const batch of extent.batches) {
    const all = chunks(sorted, batch).filter((some) => some.length === batch);
    const step = Math.max(1, all.length / MAX_RUNS);
    const runs = Array.from({ length: Math.min(MAX_RUNS, all.length) }, (_, at) =>
      stack(all[Math.floor(at * step)] ?? []),
    );
    const score = async (feeds: Record<string, Tensor>) => void (await session.run(feeds));
    const shapes = new Set(runs.map((feeds) => JSON.stringify(Object.values(feeds).map(({ dims }) => dims))));
    const calls = await timeCalls(runs, score, milliseconds, shapes.size);
    figures.push({ batch, requestsPerMessage: 1, runShare: 1, rowsPerRun: batch, ...summarize(calls, batch) });
  }
  return figures;
}

/** Stacks messages as a careful loop does: those of like length, padded to the longest. */
function stack(messages: readonly Message[]): Record<string, Tensor> {
  const longest = Math.max(...messages.map(({ length }) => length));
  const [first] = messages;
  if (first === undefined) throw new Error('expected messages to stack, got none');
  const feeds = first.inputs.map((input, index) => {
    const rows = messages.map(({ inputs }) => inputs[index] as InputTensor);
    const shape = input.datatype === 'INT64' ? [rows.length, longest] : [rows.length, ...input.shape.slice(1)];
    return [input.name, stackInput(rows, shape)] as const;
  });
  return Object.fromEntries(feeds);
}

function stackInput(rows: readonly InputTensor[], shape: readonly number[]): Tensor {
  const [input] = rows;
  const count = shape.reduce((product, dim) => product * dim, 1);
  const each = count / rows.length;
  const fill = <A extends { set(row: A, at: number): void }>(array: A): A => {
    for (const [row, { data }] of rows.entries()) array.set(data as never, row * each);
    return array;
  };
  switch (input?.datatype) {
    case 'INT64':
      return new Tensor('int64', fill(new BigInt64Array(count)), shape);
    case 'UINT8':
      return new Tensor('uint8', fill(new Uint8Array(count)), shape);
    case 'BYTES':
      return new Tensor(
        'string',
        rows.flatMap(({ data }) => data as readonly string[]),
        shape,
      );
    default:
      return new Tensor('float32', fill(new Float32Array(count)), shape);
  }
}

async function measureHandler(
  { extent, provider, modelsDirectory, milliseconds }: GpuTask,
  { name, isOnProcessor, maxBatchElements, requestsPerMessage }: GpuScenario,
  messages: readonly Message[],
): Promise<GpuCalls[]> {
  const reports: MicroBatchReport[] = [];
  const score = await openHandler(
    {
      [CONFIG_KEYS.modelsDirectory]: modelsDirectory,
      [CONFIG_KEYS.defaultModel]: name,
      [CONFIG_KEYS.providers]: isOnProcessor ? 'cpu' : provider,
      ...(maxBatchElements && { [CONFIG_KEYS.maxBatchElements]: String(maxBatchElements) }),
    },
    (report) => void reports.push(report),
  );
  const bodies = messages.map((message) => encodeBody(message, 'binary'));
  const random = createRandom(1);
  const packed = chunks(bodies, requestsPerMessage).map((some) => toRecord(`[${some.join(',')}]`, random));
  const single = bodies.map((body) => toRecord(body, random));
  const events: [SQSRecord[], number][] = [...extent.batches, single.length].map((batch) => [
    single.slice(0, batch),
    1,
  ]);
  const figures: GpuCalls[] = [];
  for (const [records, perMessage] of [...events, [packed, requestsPerMessage] as const]) {
    const rows = perMessage === 1 ? records.length : bodies.length;
    const calls = await timeCalls([records], score, milliseconds, 1, () => void reports.splice(0));
    const runMs = reports.reduce((sum, report) => sum + report.runMs, 0);
    const scored = reports.reduce((sum, report) => sum + report.rows, 0);
    figures.push({
      batch: records.length,
      requestsPerMessage: perMessage,
      runShare: runMs / calls.wallMs,
      rowsPerRun: scored / reports.length,
      ...summarize(calls, rows),
    });
  }
  return figures;
}

interface Calls {
  /** Duration of each call. */
  readonly milliseconds: readonly number[];
  readonly firstMs: number;
  readonly wallMs: number;
  readonly cpuMicroseconds: number;
}

/**
 * Calls with each of `given` in turn, for the time asked, after a first pass.
 *
 * @param shapes number of shapes of the given
 * @param begin called before the time counts
 */
async function timeCalls<T>(
  given: readonly T[],
  call: (one: T) => Promise<void>,
  milliseconds: number,
  shapes: number,
  begin = (): void => {},
): Promise<Calls> {
  const timed = async (one: T): Promise<number> => {
    const startedAt = performance.now();
    await call(one);
    return performance.now() - startedAt;
  };
  const firsts: number[] = [];
  for (const one of given) firsts.push(await timed(one));
  begin();
  const cpu = cpuMicroseconds();
  const startedAt = performance.now();
  const passes: number[][] = [];
  do {
    const pass: number[] = [];
    for (const one of given) pass.push(await timed(one));
    passes.push(pass);
  } while (performance.now() - startedAt < milliseconds);
  const wallMs = performance.now() - startedAt;
  const over = firsts.map(
    (first, at) =>
      first -
      quantile(
        passes.map((pass) => pass[at] as number),
        0.5,
      ),
  );
  return {
    milliseconds: passes.flat(),
    firstMs: over.reduce((sum, one) => sum + one, 0) / shapes,
    wallMs,
    cpuMicroseconds: cpuMicroseconds() - cpu,
  };
}

/** @param rows rows of a call */
function summarize(calls: Calls, rows: number) {
  const { milliseconds, firstMs, wallMs } = calls;
  const scored = rows * milliseconds.length;
  return {
    rowsPerSecond: (1000 * scored) / wallMs,
    p50Ms: quantile(milliseconds, 0.5),
    p99Ms: quantile(milliseconds, 0.99),
    firstMs,
    cpuMicroseconds: calls.cpuMicroseconds / scored,
  };
}

function quantile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(share * values.length))] as number;
}
