import type { MaybePromise } from './concurrency.ts';
import type { Failure } from './failure.ts';
import { type Datatype, moveDim, type Tensor, type TensorData } from './tensor.ts';

/** One input or output of a model. A dim is a size, or the name of a symbolic axis. */
export interface TensorSpec {
  readonly name: string;
  readonly datatype: Datatype;
  /** `[rows, …]`: the batch axis comes first, wherever the model has it. */
  readonly shape: readonly (number | string)[];
  /**
   * Batch axis in the model, in requests and in answers. Within the core rows come first: the
   * axis is moved when a request is decoded, when the model is run and when an answer is formatted. @default 0
   */
  readonly batchAxis?: number | undefined;
}

/** A shape `[rows, …]` of an input or output, or its spec's own, as the model has it. */
export function shapeInModel<T>({ batchAxis = 0 }: TensorSpec, shape: readonly T[]): readonly T[] {
  return moveDim(shape, 0, batchAxis);
}

/** Which axis of the model itself stands at `axis` of `[rows, …]`. */
export function axisInModel({ batchAxis = 0 }: TensorSpec, axis: number): number {
  if (axis === 0) return batchAxis;
  return axis <= batchAxis ? axis - 1 : axis;
}

/** Returns the place of the model's axis `axis` in `[rows, …]`. */
export function axisRowsFirst({ batchAxis = 0 }: TensorSpec, axis: number): number {
  if (axis === batchAxis) return 0;
  return axis < batchAxis ? axis + 1 : axis;
}

/** `'image', 'mask'`, for messages. */
export function listNames(specs: readonly Pick<TensorSpec, 'name'>[]): string {
  return specs.map((spec) => `'${spec.name}'`).join(', ');
}

/** An axis along which requests differ in size: they are padded to the longest of their micro-batch, and cut back. */
export interface RaggedAxis {
  /** Its name in the model. */
  readonly name: string;
  /** By input: which axis it is, and the element to pad with, as the datatype's array holds it; undefined: not there. */
  readonly inputs: readonly ({ readonly axis: number; readonly pad: number | bigint | string } | undefined)[];
  /** By output: which axis is cut back; undefined where none is. */
  readonly outputs: readonly (number | undefined)[];
  /** The sizes it may be run at, ascending; a micro-batch is padded up to one. Empty: any size. */
  readonly allowedSizes: readonly number[];
}

/**
 * Cost of a run, in any unit: only the ratio between runs matters to the plan.
 *
 * @param paddedRows rows run
 * @param paddedLength size of the ragged axis; 1 without one
 */
export type Cost = (paddedRows: number, paddedLength: number) => number;

/** Measured time of a run of `rows` rows of `length`. */
export interface MeasuredRun {
  readonly rows: number;
  readonly length: number;
  readonly ms: number;
}

/** Result of a run: one tensor per model output, in the order of `outputs`, each `[rows, …]`. */
export interface RunResult {
  readonly outputs: readonly Tensor[];
  /** Milliseconds inside ONNX Runtime, without the wait for its thread. */
  readonly runMs: number;
  /** Which of the model's devices it ran on. @default 0 */
  readonly device?: number | undefined;
}

/**
 * Tells, by the model's graph, if a row's answer depends on the rows beside it: it does not (`independent`), it may (`mixes`),
 * or the graph does not tell (`unknown`).
 */
export type Independence = 'independent' | 'mixes' | 'unknown';

/** A loaded model: its contract, its limits and one way to run it. */
export interface Model {
  readonly name: string;
  readonly version: string;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** The names of further inputs, which have the same values in every run: no request gives them. @default none */
  readonly constants?: readonly string[] | undefined;
  /** Most rows in one run. */
  readonly maxBatchRows: number;
  /** Runs at the same time, each on a device of its own. @default 1 */
  readonly devices?: number | undefined;
  /** The model's own code before and after it, if it has any. */
  readonly transform?: Transform | undefined;
  /** The row counts it may be run at, ascending; a micro-batch is padded up to one. Empty: any count. */
  readonly allowedSizes: readonly number[];
  /** The axis along which requests may differ in size; undefined where all of a micro-batch must agree. */
  readonly ragged?: RaggedAxis | undefined;
  /** @default unknown */
  readonly independence?: Independence | undefined;
  /**
   * Tells if requests share runs: `compared` with runs of requests alone now and then, `trusted` never to differ, or `never`:
   * each runs alone, with all its rows. @default trusted
   */
  readonly sharing?: 'compared' | 'trusted' | 'never' | undefined;
  /** How its rows are known to be so, in words. */
  readonly evidence?: string | undefined;
  /** True if FP32 may be rounded to 10 bits of mantissa, as on a GPU. @default false */
  readonly isCoarse?: boolean | undefined;
  /** Measured runs, of its profile or its warm-up. */
  readonly measured?: readonly MeasuredRun[] | undefined;
  /** Room for an input of a run, with anything in it: memory that earlier runs are done with. @default new memory */
  readonly allocate?: ((datatype: Datatype, length: number) => TensorData) | undefined;
  /**
   * Runs the model. `inputs` are in the model's order, all with the same number of rows; their buffers are
   * given away and must not be read afterwards.
   *
   * @param signal aborted when the run must not start any more. A run that has started cannot be stopped
   * @param device the only one to run on: devices round differently. @default the first that is free
   * @param onStart called just before ONNX Runtime is given the inputs
   * @throws ModelUnavailableError when the model could not be run at all, OutOfMemoryError when the run was too large,
   *   RunWithdrawnError when the signal was aborted before the run started; anything else is the run's own failure
   */
  run(inputs: readonly Tensor[], signal?: AbortSignal, device?: number, onStart?: () => void): Promise<RunResult>;
}

/** Description of a model without the means to run it: a value that may cross processes. */
export type ModelDescription = Omit<Model, 'run' | 'allocate' | 'transform'> & {
  /** Which hooks its transform has. */
  readonly transform?: { readonly [K in keyof Transform]?: unknown } | undefined;
};

export function describeModel({ run: _, allocate: __, transform, ...rest }: Model): ModelDescription {
  const hooks = transform && Object.fromEntries(Object.keys(transform).map((hook) => [hook, true]));
  return { ...rest, transform: hooks };
}

/** Finds models by name and version. */
export interface ModelRepository {
  /** The model a request means; without a name or version, the default one. Loads it where that is still to do. */
  find(name: string | undefined, version: string | undefined): MaybePromise<Model | Failure>;
}

/** Says what models are, by name and version. */
export interface ModelFinder {
  find(name: string | undefined, version: string | undefined): MaybePromise<ModelDescription | Failure>;
}

/** The models of a repository, where requests that name none mean the given one, in the given version. */
export function withDefaults(
  models: ModelRepository,
  { model, version }: { readonly model: string; readonly version: string },
): ModelRepository {
  return { find: (name = model, asked) => models.find(name, asked ?? (name === model ? version : undefined)) };
}

/** The model is there but cannot be run now, because loading it failed. The bodies that ask for it are handed back. */
export class ModelUnavailableError extends Error {
  override readonly name = 'ModelUnavailableError';
}

/** The run had no turn before its time was over, and was not started. */
export class RunWithdrawnError extends Error {
  override readonly name = 'RunWithdrawnError';
}

/** A run at start did not end in its time. It goes on, and with it its thread. */
export class RunOverdueError extends Error {
  override readonly name = 'RunOverdueError';
}

/** The run needed more memory than there is: a smaller one may do. */
export class OutOfMemoryError extends Error {
  override readonly name = 'OutOfMemoryError';
}

/** The parsed JSON request that a transform decodes. Which keys it holds is between the producer and the transform. */
export type TransformBody = Readonly<Record<string, unknown>>;

/** One model input as a transform gives it: an entry of `inputs` in the Open Inference Protocol. */
export interface TransformInput {
  readonly name: string;
  readonly datatype: Datatype;
  /** `[rows, …]`, or with the rows on the batch axis that config.json gives the input */
  readonly shape: readonly number[];
  /** Row-major, flat or nested as in a request; or the typed array of the datatype. */
  readonly data: TensorData | readonly unknown[];
}

/** The outputs of one request by name, each `[rows, …]`, or with the rows on its own batch axis, row-major. */
export type TransformOutputs = Readonly<
  Record<string, { readonly datatype: Datatype; readonly shape: readonly number[]; readonly data: TensorData }>
>;

/** Context of a call of a batch hook. */
export interface TransformContext {
  /** Aborted when nobody waits for the hook any more: pass it to what you call. */
  readonly signal: AbortSignal;
  /** Milliseconds until then. */
  remainingMs(): number;
  /** Returns what `make` gave first under this name: a client, say, which lives as long as the process. It may be a promise. */
  once<T>(name: string, make: () => T): T;
}

/** Called once for many requests. Results align with `requests` by index; an Error fails the request in its place alone. */
export type BatchHook<In, Out> = (
  requests: readonly In[],
  context: TransformContext,
) => readonly (Out | Error)[] | Promise<readonly (Out | Error)[]>;

/**
 * A model's own code before and after it: `models/<name>/transform.ts` (or `.js`, `.mjs`) exports one or both, each for one
 * request or for many at a time. An error in it fails one request, with the code TRANSFORM_FAILED and the
 * error's message; by an error whose `retryable` is true its message goes back to the queue. A batch hook that fails for all
 * of its requests otherwise is called again for each alone.
 */
export interface Transform {
  decode?(body: TransformBody): readonly TransformInput[] | Promise<readonly TransformInput[]>;
  /** In place of `decode`: for all requests of an invocation, or of a step of a job. */
  decodeBatch?: BatchHook<TransformBody, readonly TransformInput[]>;
  /** Its value becomes `result` in the answer, in place of `outputs`. JSON must be able to hold it. */
  encode?(outputs: TransformOutputs): unknown;
  /** In place of `encode`: for all requests that a micro-batch completes. */
  encodeBatch?: BatchHook<TransformOutputs, unknown>;
}

export function takesOwnForm({ transform }: Pick<ModelDescription, 'transform'>): boolean {
  return transform?.decode !== undefined || transform?.decodeBatch !== undefined;
}

export function givesOwnForm({ transform }: Pick<ModelDescription, 'transform'>): boolean {
  return transform?.encode !== undefined || transform?.encodeBatch !== undefined;
}
