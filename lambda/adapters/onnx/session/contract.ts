import type { TensorSpec } from '../../../core/contract/model.ts';
import { datatypeOfOnnxType } from '../../../core/tensor/datatype.ts';
import type { SessionMetadata, ValueDescription } from './jobs.ts';

/** What a model takes and gives, as read from the model itself. */
export interface ModelContract {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** The only number of rows the model takes, when its batch axis is baked; undefined when it is dynamic. */
  readonly bakedRows: number | undefined;
}

/**
 * Reads what a model takes and gives from what its session says of it.
 *
 * @throws Error when a value is of a type that cannot be carried, or an input has no batch axis
 */
export function readContract(metadata: SessionMetadata): ModelContract {
  const inputs = metadata.inputs.map((value) => readSpec('input', value));
  const outputs = metadata.outputs.map((value) => readSpec('output', value));
  if (inputs.length === 0) throw new Error('expected a model with at least one input, got none');
  return { inputs, outputs, bakedRows: bakedRowsOf(inputs) };
}

function readSpec(role: 'input' | 'output', { name, onnxType, shape }: ValueDescription): TensorSpec {
  const datatype = onnxType === undefined ? undefined : datatypeOfOnnxType(onnxType);
  if (datatype === undefined || shape === undefined) {
    throw new Error(
      `${role} '${name}': expected a tensor of a type that ONNX Runtime for Node carries, got ` +
        `${onnxType ?? 'a sequence or a map'}; export the model with float, integer, bool or string tensors`,
    );
  }
  if (shape.length === 0 && role === 'input') {
    throw new Error(`${role} '${name}': expected axis 0 to be the batch axis, got a scalar; add a batch axis`);
  }
  return { name, datatype, shape: shape.map((dim, axis) => nameUnknown(dim, name, axis)) };
}

/** An axis without a name need not equal any other: it gets a name of its own. */
function nameUnknown(dim: number | string, tensor: string, axis: number): number | string {
  const unknown = dim === '' || (typeof dim === 'number' && dim < 0);
  return unknown ? `${tensor} axis ${axis}` : dim;
}

function bakedRowsOf(inputs: readonly TensorSpec[]): number | undefined {
  const baked = inputs.flatMap(({ name, shape: [rows] }) => (typeof rows === 'number' ? [{ name, rows }] : []));
  const [first] = baked;
  const odd = baked.find(({ rows }) => rows !== first?.rows);
  if (first !== undefined && odd !== undefined) {
    throw new Error(
      `inputs '${first.name}' and '${odd.name}': expected the same size on axis 0, the batch axis, got ${first.rows} ` +
        `and ${odd.rows}; export the model with a dynamic batch axis`,
    );
  }
  return first?.rows;
}
