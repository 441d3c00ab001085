import { axisInModel, listNames, type TensorSpec } from '../../../core/contract/model.ts';
import { datatypeOfOnnxType } from '../../../core/tensor/datatype.ts';
import { moveDim } from '../../../core/tensor/moveAxis.ts';
import { type BakedRows, readBakedRows } from './bakedRows.ts';
import type { SessionMetadata, ValueDescription } from './jobs.ts';

/** What a model takes and gives, as read from the model itself. */
export interface ModelContract extends BakedRows {
  /** Those that requests give. */
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** The inputs that config.json gives: they have no batch axis. */
  readonly constants: readonly TensorSpec[];
}

/** What a model does not say of itself, and its config.json does. */
export interface ContractSettings {
  /** By name of an input or output: which axis is its batch axis. @default 0 */
  readonly batchAxis?: Readonly<Record<string, number>> | undefined;
  /** By name of an input: its value in every run. */
  readonly constants?: Readonly<Record<string, unknown>> | undefined;
}

/**
 * Reads what a model takes and gives from what its session says of it.
 *
 * @throws Error when a value is of a type that cannot be carried, an input has no batch axis, its batch axis is elsewhere
 *   by the names of its axes, or a setting does not agree with the model
 */
export function readContract(metadata: SessionMetadata, settings: ContractSettings = {}): ModelContract {
  const { batchAxis = {}, constants = {} } = settings;
  const isConstant = ({ name }: { readonly name: string }): boolean => Object.hasOwn(constants, name);
  const all = metadata.inputs.map((value) => readSpec('input', value));
  const outputs = metadata.outputs.map((value) => withBatchAxis(readSpec('output', value), batchAxis));
  refuseOtherNames('constants', Object.keys(constants), all);
  const inputs = all.filter((spec) => !isConstant(spec)).map((spec) => withBatchAxis(refuseScalar(spec), batchAxis));
  refuseOtherNames('batchAxis', Object.keys(batchAxis), [...inputs, ...outputs]);
  if (inputs.length === 0) {
    const got = all.length === 0 ? 'none' : `only "constants": ${listNames(all)}`;
    throw new Error(`expected a model with at least one input that requests give, got ${got}`);
  }
  refuseMisplacedBatch(inputs, batchAxis);
  return { inputs, outputs, constants: all.filter(isConstant), ...readBakedRows(inputs) };
}

function readSpec(role: 'input' | 'output', { name, onnxType, shape }: ValueDescription): TensorSpec {
  const datatype = onnxType === undefined ? undefined : datatypeOfOnnxType(onnxType);
  if (datatype !== undefined && shape !== undefined) {
    return { name, datatype, shape: shape.map((dim, axis) => nameUnknown(dim, name, axis)) };
  }
  const got = onnxType ?? 'a sequence or a map';
  const zipmap =
    onnxType === undefined && role === 'output'
      ? "; a classifier of scikit-learn gives tensors when it is exported with zipmap: False (skl2onnx: options={'zipmap': False})"
      : '';
  throw new Error(
    `${role} '${name}': expected a tensor of a type that ONNX Runtime for Node carries, got ${got}; export the model ` +
      `with float, integer, bool or string tensors${zipmap}`,
  );
}

/** What exporters call an axis that has no name. */
const NO_NAME = /^(\?|-1|None)?$/;

/** An axis without a name need not equal any other: it gets a name of its own. */
function nameUnknown(dim: number | string, tensor: string, axis: number): number | string {
  const unknown = typeof dim === 'string' ? NO_NAME.test(dim) : dim < 0;
  return unknown ? `${tensor} axis ${axis}` : dim;
}

function refuseScalar(spec: TensorSpec): TensorSpec {
  if (spec.shape.length > 0) return spec;
  throw new Error(
    `input '${spec.name}': expected a batch axis, got a scalar; where it is the same for all requests, give it in ` +
      `config.json: "constants": {${JSON.stringify(spec.name)}: …}, else export the model with a batch axis there`,
  );
}

/** Its rows first. The shape of an output may be unknown: it is empty, as a scalar's. */
function withBatchAxis(spec: TensorSpec, declared: Readonly<Record<string, number>>): TensorSpec {
  const { name, shape } = spec;
  const batchAxis = Object.hasOwn(declared, name) ? (declared[name] as number) : 0;
  if (batchAxis === 0) return spec;
  if (shape.length === 0) return { ...spec, batchAxis };
  if (batchAxis < shape.length) return { ...spec, shape: moveDim(shape, batchAxis, 0), batchAxis };
  throw new Error(
    `batchAxis.${name}: expected an axis of [${shape.join(', ')}], 0 to ${shape.length - 1}, got ${batchAxis}`,
  );
}

function refuseOtherNames(key: 'batchAxis' | 'constants', got: readonly string[], specs: readonly TensorSpec[]): void {
  const other = got.find((name) => !specs.some((spec) => spec.name === name));
  if (other === undefined) return;
  const what = key === 'constants' ? "the model's inputs" : 'the inputs and outputs that have a batch axis';
  throw new Error(`${key}: expected names of ${what} (${listNames(specs)}), got '${other}'; correct or remove it`);
}

/**
 * A symbolic name says that two sizes are one. Where that of an input's batch axis stands on another axis of another
 * input, one of the two axes is not the batch; unless config.json declares the batch axis of both. A name that stands on
 * the batch axis and on another one of both says nothing: some exporters give one name to all axes.
 */
function refuseMisplacedBatch(inputs: readonly TensorSpec[], declared: Readonly<Record<string, number>>): void {
  const isDeclared = ({ name }: TensorSpec): boolean => Object.hasOwn(declared, name);
  const isTwice = ({ shape }: TensorSpec): boolean => shape.includes(shape[0] as number | string, 1);
  for (const one of inputs) {
    const name = one.shape[0] as number | string;
    const other = inputs.find(
      (another) =>
        another !== one &&
        another.shape.includes(name, 1) &&
        !(another.shape[0] === name && isTwice(one)) &&
        !(isDeclared(one) && isDeclared(another)),
    );
    if (typeof name === 'number' || other === undefined) continue;
    const [batchAxis, axis] = [axisInModel(one, 0), axisInModel(other, other.shape.indexOf(name, 1))];
    const cure = JSON.stringify({ [one.name]: batchAxis, [other.name]: axis });
    throw new Error(
      `inputs '${one.name}' and '${other.name}': expected the same batch axis in both, got '${name}' on axis ${batchAxis} of ` +
        `'${one.name}' and on axis ${axis} of '${other.name}', so that axis ${axisInModel(other, 0)} of '${other.name}' ` +
        `is not the batch; say in config.json where the batch axis of each is, such as "batchAxis": ${cure}, ` +
        'or give an input that has none as "constants"',
    );
  }
}
