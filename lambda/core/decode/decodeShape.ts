import { type Failure, failure, preview } from '../contract/failure.ts';
import type { TensorSpec } from '../contract/model.ts';

/** Sizes that the symbolic axes of a model have taken in one request: they must agree between its inputs. */
export interface AxisSizes {
  readonly names: string[];
  readonly sizes: number[];
}

export function noAxisSizes(): AxisSizes {
  return { names: [], sizes: [] };
}

/** Stands for axis 0 among the symbolic axes, whatever the model calls it. */
const BATCH_AXIS = '';

/** A `shape` that agrees with the model's, every dim at least 1. @param known gets the sizes that are new */
export function decodeShape(
  value: unknown,
  pathOf: () => string,
  spec: TensorSpec,
  known: AxisSizes,
): number[] | Failure {
  if (!Array.isArray(value) || value.length !== spec.shape.length) return refuse(value, pathOf, spec);
  const shape: number[] = [];
  for (let axis = 0; axis < value.length; axis++) {
    const dim: unknown = value[axis];
    if (!isPositiveInteger(dim)) return refuse(value, pathOf, spec, ', every dim a whole number of at least 1');
    const wanted = axis === 0 ? BATCH_AXIS : spec.shape[axis];
    if (typeof wanted === 'number') {
      if (dim !== wanted) return refuse(value, pathOf, spec);
    } else if (wanted !== undefined) {
      const size = sizeOf(wanted, dim, known);
      if (dim !== size) {
        const where = `, where '${wanted || 'rows'}' is ${size} in this request's other inputs`;
        return refuse(value, pathOf, spec, where);
      }
    }
    shape.push(dim);
  }
  return shape;
}

/** The size that an axis took first: `dim` when this is the first. */
function sizeOf(name: string, dim: number, { names, sizes }: AxisSizes): number {
  const index = names.indexOf(name);
  if (index >= 0) return sizes[index] as number;
  names.push(name);
  sizes.push(dim);
  return dim;
}

function refuse(value: unknown, pathOf: () => string, spec: TensorSpec, detail = ''): Failure {
  const expected = ['rows', ...spec.shape.slice(1)].join(', ');
  return failure(
    'INVALID_SHAPE',
    `${pathOf()} ('${spec.name}'): expected [${expected}]${detail}, got ${previewShape(value)}; send that shape`,
  );
}

function isPositiveInteger(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1;
}

const MAX_DIMS_SHOWN = 16;

function previewShape(value: unknown): string {
  if (!Array.isArray(value)) return preview(value);
  return `[${value.slice(0, MAX_DIMS_SHOWN).map(preview).join(', ')}${value.length > MAX_DIMS_SHOWN ? ', …' : ''}]`;
}
