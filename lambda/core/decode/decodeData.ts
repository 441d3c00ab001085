import { type Failure, failure, preview } from '../contract/failure.ts';
import { allocate, DATATYPES, type Datatype, type TensorData, type TypedArray } from '../tensor/datatype.ts';
import { elementCount } from '../tensor/tensor.ts';
import { type PathOf, pathWithin } from './fieldPath.ts';
import { fillData } from './fillData.ts';

/**
 * The elements of a JSON `data` array, flat or nested row-major, as `datatype`.
 *
 * A typed array, which transforms may give, is copied.
 *
 * @param shape proved to be whole numbers, 0 or more
 * @param path names the field in messages: `inputs[1].data`, or a function from the position of an element, one index per
 *   axis, to its path
 * @param room makes the array that is filled
 */
export function decodeData(
  data: unknown,
  datatype: Datatype,
  shape: readonly number[],
  path: string | PathOf,
  room: typeof allocate = allocate,
): TensorData | Failure {
  const pathOf = typeof path === 'string' ? pathWithin(path) : path;
  if (ArrayBuffer.isView(data)) return takeTypedArray(data, datatype, shape, pathOf);
  if (!Array.isArray(data)) {
    return failure(
      'INVALID_DATA',
      `${pathOf([])}: expected an array of ${datatype} elements, got ${preview(data)}; send one`,
    );
  }
  const nested = shape.length > 1 && Array.isArray(data[0]);
  const flat = nested ? flatten(data, shape, pathOf) : data;
  if (!Array.isArray(flat)) return flat;

  const expected = elementCount(shape);
  if (flat.length !== expected) return wrongCount(flat.length, shape, pathOf);
  const target = room(datatype, expected);
  const wrongAt = fillData(target, flat, datatype);
  if (wrongAt < 0) return target;
  const where = nested ? positionOf(wrongAt, shape) : [wrongAt];
  return failure(
    'INVALID_DATA',
    `${pathOf(where)}: expected ${describe(datatype)}, got ${preview(flat[wrongAt])}; fix that element`,
  );
}

function wrongCount(got: number, shape: readonly number[], pathOf: PathOf): Failure {
  return failure(
    'INVALID_SHAPE',
    `${pathOf([])}: expected ${elementCount(shape)} elements for shape [${shape.join(', ')}], got ${got}; ` +
      'make shape and data agree',
  );
}

function takeTypedArray(
  data: ArrayBufferView,
  datatype: Datatype,
  shape: readonly number[],
  pathOf: PathOf,
): TensorData | Failure {
  const room = allocate(datatype, 0);
  if (!isLike(data, room)) {
    const got = Object.prototype.toString.call(data).slice('[object '.length, -1);
    return failure('INVALID_DATA', `${pathOf([])}: expected the typed array of ${datatype}, got ${got}`);
  }
  if (data.length !== elementCount(shape)) return wrongCount(data.length, shape, pathOf);
  const noBoolean = DATATYPES[datatype].kind === 'boolean' ? data.findIndex((element) => element > 1) : -1;
  if (noBoolean < 0) return data.slice();
  return failure('INVALID_DATA', `${pathOf([noBoolean])}: expected 0 or 1 (BOOL), got ${data[noBoolean]}`);
}

function isLike(data: ArrayBufferView, room: TensorData): data is TypedArray {
  return !Array.isArray(room) && data.constructor === room.constructor;
}

/** Row-major elements of a nested array whose nesting is exactly `shape`. */
function flatten(data: unknown[], shape: readonly number[], pathOf: PathOf): unknown[] | Failure {
  let level: unknown[] = [data];
  for (const [axis, dim] of shape.entries()) {
    const next: unknown[] = [];
    for (const [index, child] of level.entries()) {
      if (!Array.isArray(child) || child.length !== dim) {
        return failure(
          'INVALID_SHAPE',
          `${pathOf(positionOf(index, shape.slice(0, axis)))}: expected ${dim} elements on axis ${axis} of shape ` +
            `[${shape.join(', ')}], got ${preview(child)}; nest data exactly as shape says, or send it flat`,
        );
      }
      // One by one: `push(...child)` throws a RangeError from about 125,000 elements on.
      for (const element of child) next.push(element);
    }
    level = next;
  }
  return level;
}

/** The index along each axis of flat element `index`, row-major. */
function positionOf(index: number, shape: readonly number[]): number[] {
  const position: number[] = [];
  let rest = index;
  for (const dim of shape.toReversed()) {
    position.unshift(rest % dim);
    rest = Math.floor(rest / dim);
  }
  return position;
}

function describe(datatype: Datatype): string {
  const info = DATATYPES[datatype];
  switch (info.kind) {
    case 'float':
      return `a number within ${datatype}'s range, or the string "NaN", "Infinity" or "-Infinity"`;
    case 'integer':
      return `an integer from ${info.min} to ${info.max} (${datatype})`;
    case 'bigint':
      return `an integer from ${info.min} to ${info.max} (${datatype}), as a decimal string beyond ±2^53`;
    case 'boolean':
      return 'true or false (BOOL)';
    case 'string':
      return 'a string without U+0000 and without half surrogate pairs (BYTES)';
  }
}
