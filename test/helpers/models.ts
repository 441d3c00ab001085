import { failure } from '../../lambda/core/failure.ts';
import type {
  Cost,
  Independence,
  MeasuredRun,
  Model,
  ModelRepository,
  RaggedAxis,
  TensorSpec,
  Transform,
} from '../../lambda/core/model.ts';
import { type Datatype, elementCount, type Tensor } from '../../lambda/core/tensor.ts';

export interface InMemoryModelOptions {
  readonly name?: string;
  readonly version?: string;
  readonly maxBatchRows?: number;
  readonly ladder?: readonly number[];
  readonly ragged?: RaggedAxis;
  readonly cost?: Cost;
  readonly independence?: Independence;
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
  const { name = 'line', version = '1', maxBatchRows = 512, ladder = [], runMs = 1 } = options;
  const { ragged, cost, independence, transform, before, measured = [{ rows: 1, length: 1, ms: 0.001 }] } = options;
  const model: Model = {
    name,
    version,
    ...contract,
    maxBatchRows,
    transform,
    ladder,
    ragged,
    cost,
    independence,
    measured,
    async run(inputs) {
      assertContract(model, inputs);
      await before?.(inputs);
      const outputs = compute(inputs);
      inputs.forEach(giveAway);
      return { outputs, runMs };
    },
  };
  return model;
}

function assertContract(model: Model, inputs: readonly Tensor[]): void {
  const rows = inputs[0]?.shape[0] ?? 0;
  const runnable = model.ladder.length > 0 ? model.ladder.includes(rows) : rows >= 1 && rows <= model.maxBatchRows;
  if (!runnable) throw new Error(`${model.name}: expected a row count that it may be run at, got ${rows}`);
  for (const [index, spec] of model.inputs.entries()) {
    const { name, datatype, shape, data } = inputs[index] as Tensor;
    const sound = name === spec.name && datatype === spec.datatype && shape[0] === rows;
    const length = shape[model.ragged?.inputs[index]?.axis ?? -1];
    const lengths = model.ragged?.ladder ?? [];
    if (length !== undefined && lengths.length > 0 && !lengths.includes(length)) {
      throw new Error(`${model.name}: expected a length that it may be run at, got ${length}`);
    }
    if (!sound || data.length !== elementCount(shape)) throw new Error(`${model.name}: unsound input '${name}'`);
  }
}

function giveAway({ data }: Tensor): void {
  if (!Array.isArray(data) && data.buffer instanceof ArrayBuffer) data.buffer.transfer();
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

export interface RaggedModelOptions extends Omit<InMemoryModelOptions, 'ragged'> {
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
    ladder: lengths,
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
