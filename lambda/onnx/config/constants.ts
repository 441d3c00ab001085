import { isFailure } from '../../core/failure.ts';
import type { TensorSpec } from '../../core/model.ts';
import { nestingOf } from '../../core/requestInputs.ts';
import { elementCount, type Tensor } from '../../core/tensor.ts';
import { decodeData, pathWithin } from '../../core/values.ts';

/**
 * The inputs that config.json gives, checked as those of requests are.
 *
 * @param specs those inputs, as the model has them
 * @throws Error naming `constants.<name>` and what is wrong with it
 */
export function readConstants(config: Readonly<Record<string, unknown>>, specs: readonly TensorSpec[]): Tensor[] {
  return specs.map((spec) => {
    const { name, datatype } = spec;
    const value = config[name];
    const path = `constants.${name}`;
    const shape = shapeOf(value, spec, path);
    const isScalar = !Array.isArray(value);
    const data = decodeData(isScalar ? [value] : value, datatype, shape, isScalar ? () => path : pathWithin(path));
    if (isFailure(data)) throw new Error(data.message);
    return { name, datatype, shape, data };
  });
}

/** The model's own shape. Its symbolic axes have the sizes that the value has. */
function shapeOf(value: unknown, { shape }: TensorSpec, path: string): number[] {
  const refuse = (got: string): Error =>
    new Error(`${path}: expected an array for [${shape.join(', ')}], got ${got}; nest it as that shape says`);
  if (!Array.isArray(value)) return shape.map((dim) => (typeof dim === 'number' ? dim : 1));
  if (shape.length > 1 && Array.isArray(value[0])) {
    const nesting = nestingOf(value, shape.length);
    if (
      nesting.length === shape.length &&
      shape.every((dim, axis) => typeof dim === 'string' || dim === nesting[axis])
    ) {
      return nesting;
    }
    throw refuse(`one of the sizes [${nesting.join(', ')}]`);
  }
  const open = shape.filter((dim) => typeof dim === 'string').length;
  if (open > 1) throw refuse('a flat one, which may have several shapes');
  const rest = value.length / elementCount(shape.map((dim) => (typeof dim === 'number' ? dim : 1)));
  if (open === 1 && !Number.isInteger(rest)) throw refuse(`${value.length} elements`);
  return shape.map((dim) => (typeof dim === 'number' ? dim : rest));
}
