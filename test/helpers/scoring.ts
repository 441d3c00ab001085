import { createCostEstimator } from '../../lambda/core/cost.ts';
import { type Failure, failure } from '../../lambda/core/failure.ts';
import type {
  MeasuredRun,
  Model,
  ModelRepository,
  RaggedAxis,
  TensorSpec,
  Transform,
} from '../../lambda/core/model.ts';
import { withDefaults } from '../../lambda/core/model.ts';
import type { BatchMismatch, MicroBatchReport } from '../../lambda/core/observer.ts';
import { plan } from '../../lambda/core/plan.ts';
import type { MessageRecord, Result, ResultWriter, TimeLimit, WriteStatus } from '../../lambda/core/record.ts';
import { createMemoryCeiling } from '../../lambda/core/run.ts';
import { type ScoreBodies, type ScoreDependencies, type ScoringLimits, score } from '../../lambda/core/score.ts';
import { type Datatype, elementCount, type Tensor } from '../../lambda/core/tensor.ts';
import { createBatchingWatch } from '../../lambda/core/verify.ts';
import type { ScoringDependencies } from '../../lambda/hosts/records.ts';
import { memoryOf } from '../../lambda/onnx/sessionOrders.ts';

export interface MemoryWriterOptions {
  /** How many results of a message group are written as one. @default the writer does not say */
  readonly asOne?: number;
  /** Why a result is not taken; undefined takes it. */
  readonly refuse?: (result: Result) => Failure | undefined;
  /** Sees each write before anything is taken: throws to make the writer throw, waits to hold it open. */
  readonly before?: (results: readonly Result[], signal: AbortSignal) => void | Promise<void>;
}

export type MemoryWriter = ReturnType<typeof memoryWriter>;

/** Remembers what was written, in the order it was taken. */
export function memoryWriter({ asOne, refuse, before }: MemoryWriterOptions = {}) {
  const written: Result[] = [];
  return {
    ...(asOne === undefined ? {} : { writtenAsOne: () => asOne }),
    written,
    /** The documents written under a message ID, parsed. */
    documentsOf: (messageId: string): unknown[] =>
      written.filter((result) => result.messageId === messageId).map(({ body }): unknown => JSON.parse(body)),
    async write(results: readonly Result[], signal: AbortSignal): Promise<WriteStatus[]> {
      await before?.(results, signal);
      return results.map((result): WriteStatus => {
        const refused = refuse?.(result);
        if (refused !== undefined) return refused;
        written.push(result);
        return { written: true };
      });
    },
  };
}

/** How payloads are read where neither memory nor time is short. */
export const UNHINDERED = { admit: async (): Promise<void> => {}, signal: new AbortController().signal };

/** What the core needs, and what hosts add to it. */
type CoreAndHost = Omit<ScoreDependencies, 'limits'> & Omit<ScoringDependencies, 'limits' | 'writer' | 'score'>;

export interface ScoringOptions extends Partial<CoreAndHost> {
  readonly limits?: Partial<ScoringLimits>;
}

/** The core in this process, as a scorer has it in another. */
export function scoreHere(deps: Omit<ScoreDependencies, 'observer'>): ScoreBodies {
  return (bodies, time, sink, { observer, defaults }) => {
    const models = defaults === undefined ? deps.models : withDefaults(deps.models, defaults);
    return score(bodies, { ...deps, models, observer }, time, sink);
  };
}

/** The core over models of a test, with what else it needs. */
export function scoreModels(models: ModelRepository, limits: ScoringLimits, checkPercent = 0): ScoreBodies {
  return scoreHere({
    models,
    limits,
    plan,
    costs: createCostEstimator(),
    memory: createMemoryCeiling(),
    batching: createBatchingWatch(checkPercent / 100),
    now: () => performance.now(),
  });
}

/** Everything that `scoreRecords` is given, and what its observer was told. */
interface ObservedDependencies<W extends ResultWriter> extends ScoringDependencies {
  readonly limits: ScoringLimits;
  readonly writer: W;
  readonly reports: readonly MicroBatchReport[];
  readonly problems: readonly unknown[];
  readonly mismatches: readonly BatchMismatch[];
  /** What checks took, one number for each time that something was checked. */
  readonly checksMs: readonly number[];
}

/**
 * Real planner, estimator and ceiling, the line model, a memory writer, and limits that no test meets by accident.
 * @example const deps = scoringDependencies({ models: repositoryOf(sumModel()) });
 *   const outcomes = await scoreRecords(standardRecords([lineRequest([1, 2])]), deps, enoughTime());
 */
export function scoringDependencies(options?: ScoringOptions): ObservedDependencies<MemoryWriter>;
export function scoringDependencies<W extends ResultWriter>(
  options: ScoringOptions & { readonly writer: W },
): ObservedDependencies<W>;
export function scoringDependencies(
  options: ScoringOptions & { readonly writer?: ResultWriter } = {},
): ObservedDependencies<ResultWriter> {
  const reports: MicroBatchReport[] = [];
  const problems: unknown[] = [];
  const mismatches: BatchMismatch[] = [];
  const checksMs: number[] = [];
  const deps = {
    models: repositoryOf(lineModel()),
    writer: memoryWriter(),
    plan,
    costs: createCostEstimator(),
    memory: createMemoryCeiling(),
    batching: createBatchingWatch(0.01),
    observer: {
      microBatch: (report: MicroBatchReport) => void reports.push(report),
      decoded: () => {},
      checked: (checkMs: number) => void checksMs.push(checkMs),
      batchMismatch: (mismatch: BatchMismatch) => void mismatches.push(mismatch),
      written: () => {},
      problem: (error: unknown) => void problems.push(error),
    },
    now: () => performance.now(),
    reports,
    problems,
    mismatches,
    checksMs,
    ...options,
    limits: {
      maxRequestRows: 10_000,
      maxRequestsPerMessage: 10_000,
      maxAnswerCharacters: 16 * 1024 * 1024,
      maxBatchElements: 1_000_000,
      deadlineMarginMs: 1_000,
      ...options.limits,
    },
  };
  return { ...deps, score: scoreHere(deps) };
}

/** The time of a call that is far from its deadline. */
export function enoughTime(): TimeLimit {
  return { remainingMs: () => 300_000, signal: new AbortController().signal };
}

const STANDARD_QUEUE = 'arn:aws:sqs:eu-central-1:123456789012:requests';
const FIFO_QUEUE = 'arn:aws:sqs:eu-central-1:123456789012:requests.fifo';

/** The message ID of the record at `index` of an event made here. */
export function messageIdOf(index: number): string {
  return `059f36b4-87a3-44ab-83d2-${index.toString(16).padStart(12, '0')}`;
}

/** A record of a standard queue. A `body` that is not a string is sent as JSON. */
export function standardRecord(body: unknown, overrides: Partial<MessageRecord> = {}): MessageRecord {
  return {
    messageId: messageIdOf(0),
    receiptHandle: 'AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    attributes: { ApproximateReceiveCount: '1', SentTimestamp: '1545082649183' },
    messageAttributes: {},
    eventSourceARN: STANDARD_QUEUE,
    ...overrides,
  };
}

/** One standard record per body, the message IDs numbered by {@link messageIdOf}. */
export function standardRecords(bodies: readonly unknown[]): MessageRecord[] {
  return bodies.map((body, index) => standardRecord(body, { messageId: messageIdOf(index) }));
}

/** One record of a FIFO queue per `[group, body]`, the message IDs numbered by {@link messageIdOf}. */
export function fifoRecords(entries: readonly (readonly [group: string, body: unknown])[]): MessageRecord[] {
  return entries.map(([MessageGroupId, body], index) => {
    const record = standardRecord(body, { messageId: messageIdOf(index), eventSourceARN: FIFO_QUEUE });
    return { ...record, attributes: { ...record.attributes, MessageGroupId } };
  });
}

/** Fields of a request besides its inputs, or fields that spoil it. */
export type RequestFields = Readonly<Record<string, unknown>>;

/** The body of a request to `lineModel`: one row per value. */
export function lineRequest(values: readonly number[], fields: RequestFields = {}): RequestFields {
  return { inputs: [{ name: 'x', datatype: 'FP32', shape: [values.length, 1], data: values }], ...fields };
}

type SumRow = Readonly<Record<'left' | 'right', readonly number[]>> & { readonly bias: number };

/** The body of a request to `sumModel`; every row holds the same number of values. */
export function sumRequest(rows: readonly SumRow[], fields: RequestFields = {}): RequestFields {
  const matrix = [rows.length, rows[0]?.left.length ?? 0];
  return {
    inputs: [
      { name: 'left', datatype: 'FP32', shape: matrix, data: rows.flatMap(({ left }) => left) },
      { name: 'right', datatype: 'FP32', shape: matrix, data: rows.flatMap(({ right }) => right) },
      { name: 'bias', datatype: 'INT64', shape: [rows.length], data: rows.map(({ bias }) => bias) },
    ],
    ...fields,
  };
}

/** The body of a request to `tokensModel`: one row per list of tokens, all of one length. */
export function tokensRequest(rows: readonly (readonly number[])[], fields: RequestFields = {}): RequestFields {
  const matrix = [rows.length, rows[0]?.length ?? 0];
  return {
    inputs: [
      { name: 'tokens', datatype: 'INT64', shape: matrix, data: rows.flat() },
      { name: 'offset', datatype: 'FP32', shape: [rows.length], data: rows.map((_, row) => row / 2) },
      { name: 'mask', datatype: 'BOOL', shape: matrix, data: rows.flatMap((row) => row.map(() => true)) },
    ],
    ...fields,
  };
}

export interface InMemoryModelOptions {
  readonly name?: string;
  readonly version?: string;
  readonly maxBatchRows?: number;
  readonly allowedSizes?: readonly number[];
  readonly ragged?: RaggedAxis;
  readonly sharing?: Model['sharing'];
  /** What its warm-up took. @default next to nothing for a row */
  readonly measured?: readonly MeasuredRun[];
  /** What a run says that it took. */
  readonly runMs?: number;
  readonly transform?: Transform;
  /** Sees what each run is given: throws to make the run fail, waits to make it last. */
  readonly before?: (inputs: readonly Tensor[]) => void | Promise<void>;
}

type Contract = Pick<Model, 'inputs' | 'outputs'>;
type Compute = (inputs: readonly Tensor[]) => readonly Tensor[];

/** A model in memory that insists on the contract of `Model.run`, and takes its inputs' buffers away for good. */
export function inMemoryModel(contract: Contract, compute: Compute, options: InMemoryModelOptions = {}): Model {
  const { name = 'line', version = '1', maxBatchRows = 512, allowedSizes = [], runMs = 1 } = options;
  const { ragged, sharing, transform, before, measured = [{ rows: 1, length: 1, ms: 0.001 }] } = options;
  const model: Model = {
    name,
    version,
    ...contract,
    maxBatchRows,
    transform,
    allowedSizes,
    ragged,
    sharing,
    measured,
    async run(inputs) {
      assertContract(model, inputs);
      await before?.(inputs);
      const outputs = compute(inputs);
      giveAway(inputs);
      return { outputs, runMs };
    },
  };
  return model;
}

function assertContract(model: Model, inputs: readonly Tensor[]): void {
  const rows = inputs[0]?.shape[0] ?? 0;
  // A request whose rows stay together may have more than a run that is shared.
  const isLimited = (model.sharing ?? 'trusted') === 'trusted';
  const runnable =
    model.allowedSizes.length > 0
      ? model.allowedSizes.includes(rows)
      : rows >= 1 && (!isLimited || rows <= model.maxBatchRows);
  if (!runnable) throw new Error(`${model.name}: expected a row count that it may be run at, got ${rows}`);
  for (const [index, spec] of model.inputs.entries()) {
    const { name, datatype, shape, data } = inputs[index] as Tensor;
    const sound = name === spec.name && datatype === spec.datatype && shape[0] === rows;
    const length = shape[model.ragged?.inputs[index]?.axis ?? -1];
    const lengths = model.ragged?.allowedSizes ?? [];
    if (length !== undefined && lengths.length > 0 && !lengths.includes(length)) {
      throw new Error(`${model.name}: expected a length that it may be run at, got ${length}`);
    }
    if (!sound || data.length !== elementCount(shape)) throw new Error(`${model.name}: unsound input '${name}'`);
  }
}

function giveAway(inputs: readonly Tensor[]): void {
  for (const buffer of memoryOf(inputs)) buffer.transfer();
}

/** `y = 2x + 1`, row by row: float32 `[batch, 1]` in and out. */
export function lineModel(options: InMemoryModelOptions = {}): Model {
  const contract: Contract = {
    inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', 1] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', 1] }],
  };
  const compute: Compute = ([x]) => {
    const { shape, data } = x as Tensor;
    return [{ name: 'y', datatype: 'FP32', shape, data: Float32Array.from(data as Float32Array, (v) => 2 * v + 1) }];
  };
  return inMemoryModel(contract, compute, options);
}

/**
 * `sums = left + right` (float32 `[batch, width]`), `total` = a row's sums and its bias (float64 `[batch]`), and
 * `label`, the total in words (string `[batch]`).
 */
export function sumModel(options: InMemoryModelOptions = {}): Model {
  const matrix = ['batch', 'width'];
  const contract: Contract = {
    inputs: [
      { name: 'left', datatype: 'FP32', shape: matrix },
      { name: 'right', datatype: 'FP32', shape: matrix },
      { name: 'bias', datatype: 'INT64', shape: ['batch'] },
    ],
    outputs: [
      { name: 'sums', datatype: 'FP32', shape: matrix },
      { name: 'total', datatype: 'FP64', shape: ['batch'] },
      { name: 'label', datatype: 'BYTES', shape: ['batch'] },
    ],
  };
  return inMemoryModel(contract, computeSums, { name: 'sum', ...options });
}

const computeSums: Compute = (inputs) => {
  const [left, right, bias] = inputs as readonly [Tensor, Tensor, Tensor];
  const [rows = 0, width = 0] = left.shape;
  const sums = Float32Array.from(left.data as Float32Array, (value, i) => value + (right.data[i] as number));
  const total = Float64Array.from({ length: rows }, (_, row) =>
    sums.subarray(row * width, (row + 1) * width).reduce((sum, value) => sum + value, Number(bias.data[row])),
  );
  return [
    { name: 'sums', datatype: 'FP32', shape: [rows, width], data: sums },
    { name: 'total', datatype: 'FP64', shape: [rows], data: total },
    { name: 'label', datatype: 'BYTES', shape: [rows], data: Array.from(total, (value) => `total ${value}`) },
  ];
};

/** Gives back what it is given, as `out`: `datatype` `[batch, …trailing]`. */
export function echoModel(
  datatype: Datatype,
  trailing: readonly (number | string)[] = [],
  options: InMemoryModelOptions = {},
): Model {
  const shape = ['batch', ...trailing];
  const contract: Contract = { inputs: [{ name: 'in', datatype, shape }], outputs: [{ name: 'out', datatype, shape }] };
  const compute: Compute = ([given]) => {
    const tensor = given as Tensor;
    return [{ ...tensor, name: 'out', data: tensor.data.slice() }];
  };
  return inMemoryModel(contract, compute, { name: 'echo', ...options });
}

interface RaggedModelOptions extends Omit<InMemoryModelOptions, 'ragged'> {
  /** The sizes that `length` may be run at. @default any */
  readonly lengths?: readonly number[];
}

/**
 * Masks its padding: `doubled`, twice each token (int64 `[batch, length]`), and `total`, the row's `offset` (float32
 * `[batch]`) and the sum of its tokens where `mask` is true (float32 `[batch]`). Tokens are padded with -1.
 */
export function tokensModel({ lengths = [], ...options }: RaggedModelOptions = {}): Model {
  const matrix = ['batch', 'length'];
  const contract: Contract = {
    inputs: [
      { name: 'tokens', datatype: 'INT64', shape: matrix },
      { name: 'offset', datatype: 'FP32', shape: ['batch'] },
      { name: 'mask', datatype: 'BOOL', shape: matrix },
    ],
    outputs: [
      { name: 'total', datatype: 'FP32', shape: ['batch'] },
      { name: 'doubled', datatype: 'INT64', shape: matrix },
    ],
  };
  const ragged: RaggedAxis = {
    name: 'length',
    inputs: [{ axis: 1, pad: -1n }, undefined, { axis: 1, pad: 0 }],
    outputs: [undefined, 1],
    allowedSizes: lengths,
  };
  return inMemoryModel(contract, computeTokens, { name: 'tokens', ...options, ragged });
}

const computeTokens: Compute = (inputs) => {
  const [tokens, offset, mask] = inputs as readonly [Tensor, Tensor, Tensor];
  const [rows = 0, length = 0] = tokens.shape;
  const ids = tokens.data as BigInt64Array;
  const total = Float32Array.from(offset.data as Float32Array, (start, row) =>
    ids
      .subarray(row * length, (row + 1) * length)
      .reduce((sum, id, at) => sum + Number(mask.data[row * length + at]) * Number(id), start),
  );
  return [
    { name: 'total', datatype: 'FP32', shape: [rows], data: total },
    { name: 'doubled', datatype: 'INT64', shape: [rows, length], data: ids.map((id) => 2n * id) },
  ];
};

/** For `before`: the run fails whenever a row of the first input holds one of `poisons`. */
export function failsOn(...poisons: readonly number[]): (inputs: readonly Tensor[]) => void {
  return ([first]) => {
    for (const value of first?.data ?? []) {
      if (poisons.includes(Number(value))) throw new Error(`cannot score ${value}`);
    }
  };
}

/** Finds models as the real repository does: an only model is the default, and so is its highest version. */
export function repositoryOf(...models: readonly Model[]): ModelRepository {
  const names = [...new Set(models.map(({ name }) => name))];
  return {
    find(name = names.length === 1 ? names[0] : undefined, version) {
      const versions = models.filter((model) => model.name === name);
      if (versions.length === 0) {
        const got = name === undefined ? 'none' : JSON.stringify(name);
        return failure('UNKNOWN_MODEL', `model_name: expected one of ${names.join(', ')}, got ${got}`);
      }
      const [highest] = versions.toSorted((a, b) => Number(b.version) - Number(a.version));
      const wanted = version === undefined ? highest : versions.find((model) => model.version === version);
      if (wanted !== undefined) return wanted;
      const known = versions.map((model) => `"${model.version}"`).join(', ');
      return failure('UNKNOWN_VERSION', `model_version: expected ${known}, got ${JSON.stringify(version)}`);
    },
  };
}

/** The spec of a tensor, for models that only a decoder or a planner sees. */
export function spec(name: string, datatype: Datatype, ...shape: readonly (number | string)[]): TensorSpec {
  return { name, datatype, shape };
}

/** A model that is never run, for tests of its contract alone. */
export function modelOf(contract: Contract, options: InMemoryModelOptions = {}): Model {
  const never: Compute = () => {
    throw new Error('expected this model never to be run');
  };
  return inMemoryModel(contract, never, options);
}

export interface RecordedModel extends Model {
  /** The shapes of the inputs of every run. */
  readonly runs: number[][][];
  /** The elements of the inputs of every run. */
  readonly values: unknown[][];
}

/**
 * Gives its first input back, and remembers what it was run with.
 *
 * @param runsMs how long its runs take, one after the other; the last also for all that follow
 */
export function recordedModel(
  inputs: readonly TensorSpec[],
  limits: Partial<Pick<Model, 'maxBatchRows' | 'allowedSizes' | 'ragged'>> = {},
  runsMs: readonly number[] = [100],
): RecordedModel {
  const runs: number[][][] = [];
  const values: unknown[][] = [];
  return {
    name: 'recorded',
    version: '1',
    inputs,
    outputs: inputs.slice(0, 1),
    maxBatchRows: 512,
    allowedSizes: [],
    ...limits,
    runs,
    values,
    async run(tensors) {
      runs.push(tensors.map(({ shape }) => [...shape]));
      values.push(tensors.flatMap(({ data }) => Array.from<unknown>(data)));
      return { outputs: tensors.slice(0, 1), runMs: runsMs[runs.length - 1] ?? runsMs.at(-1) ?? 0 };
    },
  };
}

/** Fails the runs whose first input is of such a shape. */
export function failing(model: Model, isRefused: (shape: readonly number[]) => boolean): Model {
  return {
    ...model,
    async run(inputs) {
      const [shape] = inputs.map((input) => input.shape) as [readonly number[]];
      if (isRefused(shape)) throw new Error(`cannot run [${shape.join(', ')}]`);
      return model.run(inputs);
    },
  };
}

/** A tensor's elements, nested as its shape says; an element where it has no axis. */
export type Nested<T> = T | Nested<T>[];

export function nest<T>(elements: readonly T[], shape: readonly number[]): Nested<T> {
  const [size, ...inner] = shape;
  if (size === undefined) return elements[0] as T;
  const each = elements.length / size;
  return Array.from({ length: size }, (_, index) => nest(elements.slice(index * each, (index + 1) * each), inner));
}

/** Slice `row` along `axis`, without that axis. */
export function sliceAt<T>(nested: Nested<T>, axis: number, row: number): Nested<T> {
  const outer = nested as Nested<T>[];
  return axis === 0 ? (outer[row] as Nested<T>) : outer.map((inner) => sliceAt(inner, axis - 1, row));
}
