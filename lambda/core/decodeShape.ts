import { type Failure, failure, preview } from './failure.ts';
import type { TensorSpec } from './model.ts';

/** Sizes that the symbolic axes of a model have taken in one request: they must agree between its inputs. */
export type AxisSizes = Map<string, number>;

/** Stands for axis 0 among the symbolic axes, whatever the model calls it. */
const BATCH_AXIS = '';

/** A `shape` that agrees with the model's, every dim at least 1. @param sizes is added to */
export function decodeShape(value: unknown, path: string, spec: TensorSpec, sizes: AxisSizes): number[] | Failure {
  const refuse = (detail = ''): Failure => {
    const expected = ['rows', ...spec.shape.slice(1)].join(', ');
    return failure(
      'INVALID_SHAPE',
      `${path} ('${spec.name}'): expected [${expected}]${detail}, got ${previewShape(value)}; send that shape`,
    );
  };
  if (!Array.isArray(value) || value.length !== spec.shape.length) return refuse();

  const shape: number[] = [];
  for (let axis = 0; axis < value.length; axis++) {
    const dim: unknown = value[axis];
    if (!isPositiveInteger(dim)) return refuse(', every dim a whole number of at least 1');
    const wanted = axis === 0 ? BATCH_AXIS : spec.shape[axis];
    if (typeof wanted === 'number' && dim !== wanted) return refuse();
    if (typeof wanted === 'string') {
      const size = sizes.get(wanted) ?? dim;
      if (dim !== size) return refuse(`, where '${wanted || 'rows'}' is ${size} in this request's other inputs`);
      sizes.set(wanted, size);
    }
    shape.push(dim);
  }
  return shape;
}

function isPositiveInteger(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1;
}

const MAX_DIMS_SHOWN = 16;

function previewShape(value: unknown): string {
  if (!Array.isArray(value)) return preview(value);
  return `[${value.slice(0, MAX_DIMS_SHOWN).map(preview).join(', ')}${value.length > MAX_DIMS_SHOWN ? ', …' : ''}]`;
}
