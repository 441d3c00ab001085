import type { MaybePromise } from './concurrency.ts';
import type { Failure } from './failure.ts';
import { type ArraySize, type Datatype, moveDim, type Tensor, type TensorData } from './tensor.ts';

/** Input or output of a model. A dim is a size, or the name of a symbolic axis. */
export interface TensorSpec {
  readonly name: string;
  readonly datatype: Datatype;
  /** `[rows, …]`: the batch axis comes first, wherever it is in the model. */
  readonly shape: readonly (number | string)[];
  /**
   * Batch axis in the model, in requests and in answers. The core puts rows first: the axis is moved when a request is
   * decoded, when the model runs, and when an answer is formatted. @default 0
   */
  readonly batchAxis?: number | undefined;
}

/** Converts a shape `[rows, …]` to the model's axis order. */
export function shapeInModel<T>({ batchAxis = 0 }: TensorSpec, shape: readonly T[]): readonly T[] {
  return moveDim(shape, 0, batchAxis);
}

/** Converts an axis of `[rows, …]` to the model's axis. */
export function axisInModel({ batchAxis = 0 }: TensorSpec, axis: number): number {
  if (axis === 0) return batchAxis;
  return axis <= batchAxis ? axis - 1 : axis;
}

/** Converts an axis of the model to the axis of `[rows, …]`. */
export function axisRowsFirst({ batchAxis = 0 }: TensorSpec, axis: number): number {
  if (axis === batchAxis) return 0;
  return axis < batchAxis ? axis + 1 : axis;
}

/** Formats `'image', 'mask'` for messages. */
export function listNames(specs: readonly Pick<TensorSpec, 'name'>[]): string {
  return specs.map((spec) => `'${spec.name}'`).join(', ');
}

/** Axis on which requests differ in size. They are padded to the longest of their run, and outputs are cut back. */
export interface RaggedAxis {
  readonly name: string;
  /** Axis and padding element of each input, or undefined if the input lacks the axis. */
  readonly inputs: readonly ({ readonly axis: number; readonly pad: number | bigint | string } | undefined)[];
  /** Axis of each output to cut back, or undefined if it has none. */
  readonly outputs: readonly (number | undefined)[];
  /** Allowed sizes, ascending. A micro-batch is padded to one. Empty if any size is allowed. */
  readonly allowedSizes: readonly number[];
}

/**
 * Cost of a run, in any unit: the plan uses only ratios.
 *
 * @param paddedRows number of rows
 * @param paddedLength size of the ragged axis, or 1 if there is none
 */
export type Cost = (paddedRows: number, paddedLength: number) => number;

export interface MeasuredRun {
  readonly rows: number;
  readonly length: number;
  readonly ms: number;
}

/** Result of a run: one tensor per model output, in the order of `outputs`, each `[rows, …]`. */
export interface RunResult {
  readonly outputs: readonly Tensor[];
  /** Duration inside ONNX Runtime, without the wait for its thread. */
  readonly runMs: number;
  /** Index of the model's device that it ran on. @default 0 */
  readonly device?: number | undefined;
}

/** Dependence of a row's answer on other rows by the graph: `independent`, `mixes` or `unknown`. */
type Independence = 'independent' | 'mixes' | 'unknown';

/** Loaded model: its contract, its limits and one way to run it. */
export interface Model {
  readonly name: string;
  readonly version: string;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** Names of further inputs with the same values in every run. Requests do not contain them. @default none */
  readonly constants?: readonly string[] | undefined;
  readonly maxBatchRows: number;
  /** Number of devices, each with its own runs. @default 1 */
  readonly devices?: number | undefined;
  /** The model's own code before and after it, if any. */
  readonly transform?: Transform | undefined;
  /** True if its transform is a tokenizer, which takes `{"text": …}`. @default false */
  readonly takesText?: boolean | undefined;
  /** Allowed row counts, ascending. A micro-batch is padded to one. Empty if any count is allowed. */
  readonly allowedSizes: readonly number[];
  /** Axis on which requests may differ in size. Undefined if all requests of a micro-batch must have the same sizes. */
  readonly ragged?: RaggedAxis | undefined;
  /** @default unknown */
  readonly independence?: Independence | undefined;
  /**
   * Sharing of runs by requests. `compared`: some requests also run alone, to compare. `trusted`: never compared.
   * `never`: each request runs alone, with all its rows. @default trusted
   */
  readonly sharing?: 'compared' | 'trusted' | 'never' | undefined;
  /** Evidence for the independence of rows, in words. */
  readonly evidence?: string | undefined;
  /** True if FP32 may be rounded to 10 bits of mantissa, as on a GPU. @default false */
  readonly isCoarse?: boolean | undefined;
  /** Measured runs of its profile or its warm-up. */
  readonly measured?: readonly MeasuredRun[] | undefined;
  /** Returns arrays for the inputs of a run, with arbitrary content: reused memory of earlier runs. @default new memory */
  readonly allocate?: ((sizes: readonly ArraySize[]) => readonly TensorData[]) | undefined;
  /**
   * Runs the model. `inputs` are in the model's order and have the same number of rows. Their buffers are transferred,
   * and must not be read afterwards.
   *
   * @param signal aborted if the run must not start any more. A run that has started cannot be stopped
   * @param device index of the only device to use, because devices round differently. @default the first free one
   * @param onStart called just before ONNX Runtime gets the inputs
   * @throws ModelUnavailableError if the model cannot run at all, OutOfMemoryError if the run was too large,
   *   RunWithdrawnError if the signal aborted before the start; any other error is the run's own failure
   */
  run(inputs: readonly Tensor[], signal?: AbortSignal, device?: number, onStart?: () => void): Promise<RunResult>;
}

/** Model without the means to run it: a value that may cross processes. */
export type ModelDescription = Omit<Model, 'run' | 'allocate' | 'transform'> & {
  readonly transform?: { readonly [K in keyof Transform]?: unknown } | undefined;
};

export function describeModel({ run: _, allocate: __, transform, ...rest }: Model): ModelDescription {
  const hooks = transform && Object.fromEntries(Object.keys(transform).map((hook) => [hook, true]));
  return { ...rest, transform: hooks };
}

export interface ModelRepository {
  /** Finds the model of a request, or the default model if the name or version is missing. Loads it if necessary. */
  find(name: string | undefined, version: string | undefined): MaybePromise<Model | Failure>;
}

export interface ModelFinder {
  find(name: string | undefined, version: string | undefined): MaybePromise<ModelDescription | Failure>;
}

/** Returns a repository with another default model and version. */
export function withDefaults(
  models: ModelRepository,
  { model, version }: { readonly model: string; readonly version: string },
): ModelRepository {
  return { find: (name = model, asked) => models.find(name, asked ?? (name === model ? version : undefined)) };
}

/** Error of a model that exists, but cannot run now because loading it failed. Its bodies are handed back. */
export class ModelUnavailableError extends Error {
  override readonly name = 'ModelUnavailableError';
}

/** Error of a run that did not start before its time was over. */
export class RunWithdrawnError extends Error {
  override readonly name = 'RunWithdrawnError';
}

/** Error of a start-up run that exceeded its time. It continues to occupy its thread. */
export class RunOverdueError extends Error {
  override readonly name = 'RunOverdueError';
}

/** Error of a run that needed more memory than there is. A smaller run may succeed. */
export class OutOfMemoryError extends Error {
  override readonly name = 'OutOfMemoryError';
}

/** Parsed JSON request for a transform. Its keys are a matter of the producer and the transform. */
export type TransformBody = Readonly<Record<string, unknown>>;

/** Input from a transform: an entry of `inputs` in the Open Inference Protocol. */
export interface TransformInput {
  readonly name: string;
  readonly datatype: Datatype;
  /** `[rows, …]`, or with the rows on the batch axis in config.json */
  readonly shape: readonly number[];
  /** Row-major, flat or nested as in a request, or the typed array of the datatype. */
  readonly data: TensorData | readonly unknown[];
}

/** Outputs of one request by name, row-major, each `[rows, …]` or with the rows on its own batch axis. */
export type TransformOutputs = Readonly<
  Record<string, { readonly datatype: Datatype; readonly shape: readonly number[]; readonly data: TensorData }>
>;

/** Context of a call of a batch hook. */
export interface TransformContext {
  /** Aborted when nobody waits for the hook any more. Pass it to the functions that you call. */
  readonly signal: AbortSignal;
  remainingMs(): number;
  /** Returns the first result of `make` for this name, for example a client that lives as long as the process. */
  once<T>(name: string, make: () => T): T;
}

/** Processes many requests in one call. Results align with `requests` by index. An Error fails only its own request. */
export type BatchHook<In, Out> = (
  requests: readonly In[],
  context: TransformContext,
) => readonly (Out | Error)[] | Promise<readonly (Out | Error)[]>;

/**
 * A model's own code before and after it. `models/<name>/transform.ts` (or `.js`, `.mjs`) exports one or both hooks,
 * each for one request or for many. An error fails one request with TRANSFORM_FAILED and the error's message. An error
 * whose `retryable` is true hands the message back to the queue. If a batch hook fails for all of its requests, it is
 * called again for each of them alone.
 */
export interface Transform {
  decode?(body: TransformBody): readonly TransformInput[] | Promise<readonly TransformInput[]>;
  /** Replaces `decode`: takes all requests of an invocation, or of a step of a job. */
  decodeBatch?: BatchHook<TransformBody, readonly TransformInput[]>;
  /** Returns the value of `result` in the answer, which replaces `outputs`. JSON must be able to hold it. */
  encode?(outputs: TransformOutputs): unknown;
  /** Replaces `encode`: takes all requests that a micro-batch completes. */
  encodeBatch?: BatchHook<TransformOutputs, unknown>;
}

export function takesOwnForm({ transform }: Pick<ModelDescription, 'transform'>): boolean {
  return transform?.decode !== undefined || transform?.decodeBatch !== undefined;
}

export function givesOwnForm({ transform }: Pick<ModelDescription, 'transform'>): boolean {
  return transform?.encode !== undefined || transform?.encodeBatch !== undefined;
}
