import { type Failure, failure, preview } from '../contract/failure.ts';
import type { Model, TensorSpec } from '../contract/model.ts';
import { moveDim } from '../tensor/moveAxis.ts';
import { elementCount } from '../tensor/tensor.ts';

/**
 * Sizes that must agree between the inputs of one request: its rows, and the length of the ragged axis. Other symbolic
 * axes of one name need not: exporters give one name to axes that differ, and ONNX Runtime takes them as they come.
 */
export interface SharedSizes {
  rows: number | undefined;
  length: number | undefined;
  /** The name of the ragged axis. */
  readonly ragged: string | undefined;
}

export function noSharedSizes({ ragged }: Model): SharedSizes {
  return { rows: undefined, length: undefined, ragged: ragged?.name };
}

/**
 * Elements that an empty tensor would have if its axes of size 0 had size 1: nothing that is sent bounds its other sizes,
 * and padding makes them real.
 */
const MOST_BESIDE_NOTHING = 1_048_576;

/**
 * A `shape` that agrees with the model's: at least one row, and other axes of size 0 where the model leaves them open.
 *
 * @param known gets the sizes that are new
 * @param batchAxis where the rows are counted in `value`
 */
export function decodeShape(
  value: unknown,
  pathOf: () => string,
  spec: TensorSpec,
  known: SharedSizes,
  batchAxis: number,
): number[] | Failure {
  const refuse = (detail = ''): Failure => refuseShape(value, pathOf, spec, batchAxis, detail);
  if (!Array.isArray(value) || value.length !== spec.shape.length) return refuse();
  const shape: number[] = [];
  for (let axis = 0; axis < value.length; axis++) {
    const dim: unknown = value[axis];
    if (!isSize(dim, axis === batchAxis ? 1 : 0)) return refuse(', whole numbers, rows at least 1');
    if (axis === batchAxis) {
      known.rows ??= dim;
      if (dim !== known.rows) return refuse(elsewhere('rows', known.rows));
    } else {
      const wanted = spec.shape[axis < batchAxis ? axis + 1 : axis];
      if (typeof wanted === 'number') {
        if (dim !== wanted) return refuse();
      } else if (wanted === known.ragged) {
        known.length ??= dim;
        if (dim !== known.length) return refuse(elsewhere(wanted as string, known.length));
      }
    }
    shape.push(dim);
  }
  if (shape.includes(0) && elementCount(shape.map((dim) => dim || 1)) > MOST_BESIDE_NOTHING) {
    return refuse(`, at most ${MOST_BESIDE_NOTHING} elements beside an axis of size 0`);
  }
  return shape;
}

function elsewhere(name: string, size: number): string {
  return `, where '${name}' is ${size} in this request's other inputs`;
}

function refuseShape(
  value: unknown,
  pathOf: () => string,
  { name, shape }: TensorSpec,
  batchAxis: number,
  detail: string,
): Failure {
  const expected = moveDim(['rows', ...shape.slice(1)], 0, batchAxis).join(', ');
  return failure(
    'INVALID_SHAPE',
    `${pathOf()} ('${name}'): expected [${expected}]${detail}, got ${previewShape(value)}; send that shape`,
  );
}

function isSize(value: unknown, least: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= least;
}

const MAX_DIMS_SHOWN = 16;

function previewShape(value: unknown): string {
  if (!Array.isArray(value)) return preview(value);
  return `[${value.slice(0, MAX_DIMS_SHOWN).map(preview).join(', ')}${value.length > MAX_DIMS_SHOWN ? ', …' : ''}]`;
}
