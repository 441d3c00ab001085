/*
 * Describes a tensor without running the model: its shape, and how its elements depend on the rows of a batch.
 *
 * Sizes are not symbolic. A size has a value in each of six imagined batches, so that a graph's arithmetic on shapes
 * works on numbers. The first four batches differ only in the number of rows, the fifth in every other open size, the
 * sixth only in the padded length.
 */

/** Size in each of the imagined batches. */
export type Size = readonly number[];

/** Numbers of rows: large primes, and small numbers, because models may treat few rows differently. */
export const ROWS: Size = [1021, 1, 2, 13, 1021, 1021];
export const ONE: Size = constantSize(1);

export function constantSize(value: number): Size {
  return ROWS.map(() => value);
}

/** Sizes of open axes: usual, and in the fifth batch. Exporters bake in the longest text and the smallest image. */
const OPEN = {
  small: [
    [37, 41, 47, 53, 59, 67, 73, 79],
    [17, 19, 23, 29, 31, 43, 61, 71],
  ],
  large: [
    [811, 821, 823, 827, 829, 839, 853, 857],
    [503, 509, 521, 523, 541, 547, 557, 563],
  ],
} as const;

export type Scale = keyof typeof OPEN;

/** Returns a size that is unknown, except that rows do not decide it. */
export function openSize(number: number, scale: Scale): Size {
  const [usually, otherwise] = OPEN[scale];
  const usual = usually[number % usually.length] as number;
  // No two of the first 64 are equal in all batches.
  const other = otherwise[(number + Math.floor(number / usually.length)) % otherwise.length] as number;
  return [usual, usual, usual, usual, other, usual];
}

export function lengthSize(scale: Scale): Size {
  const [length, other, longer] = scale === 'small' ? [61, 43, 71] : [1009, 757, 1511];
  return [length, length, length, length, other, longer];
}

export function sizes(combine: (...values: number[]) => number, ...given: readonly Size[]): Size {
  return ROWS.map((_, batch) => combine(...given.map((size) => size[batch] as number)));
}

const BATCHES = { ofRows: [1, 2, 3], ofOpen: [4], ofLength: [5] } as const;

/**
 * Marks a result as unknown (NaN) in batches where it may follow another rule than in others: if its inputs differ in the
 * number of rows, or if it is equal although they differ. A comparison or a limit may have another result in other
 * batches. NaN equals nothing, not even itself.
 */
export function blur(result: Size, given: readonly Size[]): Size {
  const lost = Object.values(BATCHES).filter(
    (batches) =>
      (batches === BATCHES.ofRows || batches.every((batch) => result[batch] === result[0])) &&
      given.some((size) => batches.some((batch) => size[batch] !== size[0])),
  );
  return result.map((value, batch) => (lost.flat().some((one) => one === batch) ? Number.NaN : value));
}

export function isProportional(a: Size, b: Size): boolean {
  return a.every((value, batch) => value * (b[0] as number) === (a[0] as number) * (b[batch] as number));
}

export function productOf(all: readonly Size[]): Size {
  return all.reduce((product, size) => sizes((a, b) => a * b, product, size), ONE);
}

export function isEqual(a: Size, b: Size): boolean {
  return a.every((value, batch) => value === b[batch]);
}

/** Returns the value of a size if it is the same in all batches. */
export function constantOf(size: Size): number | undefined {
  const [first] = size;
  return size.every((value) => value === first) ? first : undefined;
}

export function variesWithRows([first, alone, few, more]: Size): boolean {
  return alone !== first || few !== first || more !== first;
}

function variesWithLength(size: Size): boolean {
  return size[5] !== size[0];
}

/** Returns true if a size is the number of rows times a factor that rows do not decide. */
export function isMultipleOfRows(size: Size): boolean {
  return (size[0] as number) > 0 && isProportional(size.slice(0, 4), ROWS);
}

/**
 * Dependence of elements on the rows of a batch.
 *
 * - `same`: none, not even on their number
 * - `rows`: the elements of a row depend on that row
 * - `equal`: the same for each row
 * - `places`: on the place of the row in the batch
 * - `count`: on the number of rows
 */
export type Kind = 'same' | 'rows' | 'equal' | 'places' | 'count';

export type Bounds = readonly [least: Size, most: Size];

export interface Traced {
  readonly kind: Kind;
  /** Axis of `rows`, `equal` and `places`, or -1. */
  readonly axis: number;
  /** Number of times that all rows are repeated on that axis, one series after another. @default 1; any for `equal` */
  readonly series?: Size | undefined;
  /** Undefined if not even the number of axes is known. */
  readonly shape?: readonly Size[] | undefined;
  /** Values of a small tensor, row-major. */
  readonly entries?: readonly Size[] | undefined;
  readonly isReal?: boolean | undefined;
  /** Minimum and maximum of numbers that are the same for all rows. Undefined if `entries` has the numbers. */
  readonly bounds?: Bounds | undefined;
  /** Elements of row n are n · `step` plus a number between the two offsets. */
  readonly place?: { readonly step: Size; readonly offset: Bounds } | undefined;
  /** Word that pads rows along the last axis. */
  readonly padding?: string | undefined;
  /** True if the last axis has indexes that begin with the row's own place. */
  readonly isTuple?: boolean | undefined;
  /** True if values depend on the padded length as a number. */
  readonly byLength?: boolean | undefined;
}

export class Stop extends Error {
  readonly verdict: 'mixes' | 'unknown';

  constructor(verdict: 'mixes' | 'unknown', why: string) {
    super(why);
    this.verdict = verdict;
  }
}

export function mixes(why: string): never {
  throw new Stop('mixes', why);
}

export function unknown(why: string): never {
  throw new Stop('unknown', why);
}

export function same(shape?: readonly Size[], entries?: readonly Size[]): Traced {
  const isCount = entries?.some(variesWithRows) === true;
  return { kind: isCount ? 'count' : 'same', axis: -1, shape, entries, byLength: entries?.some(variesWithLength) };
}

const MAX_ENTRIES = 64;

export function constants(dims: readonly number[], values: readonly number[] | undefined, isReal: boolean): Traced {
  const entries = values !== undefined && values.length <= MAX_ENTRIES ? values.map(constantSize) : undefined;
  const isMany = values !== undefined && values.length > MAX_ENTRIES;
  const bounds = isMany ? ([constantSize(Math.min(...values)), constantSize(Math.max(...values))] as const) : undefined;
  return { ...same(dims.map(constantSize), entries), bounds, isReal };
}

/** Returns the minimum and maximum of numbers that are the same for all rows, or undefined if they are unknown. */
export function boundsOf({ bounds, entries = [] }: Traced): Bounds | undefined {
  if (entries.length === 0) return bounds;
  return [sizes(Math.min, ...entries), sizes(Math.max, ...entries)];
}

/** Returns the number of elements of a small tensor, or undefined if they are many or their number varies. */
export function fewOf(shape: readonly Size[]): number | undefined {
  const count = constantOf(productOf(shape));
  return count !== undefined && count <= MAX_ENTRIES ? count : undefined;
}

/** Returns true if each row is one element of its axis, in the order of the batch. */
export function isRowByRow(traced: Traced): boolean {
  return hasRows(traced) && isEqual(sizeAt(traced, traced.axis), ROWS) && isEqual(seriesOf(traced), ONE);
}

/** Returns true for the place of a row in the batch itself. */
export function isOwnPlace({ place }: Traced): boolean {
  return place !== undefined && isEqual(place.step, ONE) && place.offset.every((size) => constantOf(size) === 0);
}

/** Returns true for a tensor with an axis of rows. */
export function hasRows({ kind }: Traced): boolean {
  return kind === 'rows' || kind === 'equal' || kind === 'places';
}

export function shapeOf({ shape }: Traced): readonly Size[] {
  return shape ?? unknown('the shape of its input is not known');
}

export function sizeAt(traced: Traced, axis: number): Size {
  return shapeOf(traced)[axis] ?? unknown(`its input has no axis ${axis}`);
}

export function axisOf(axis: number, rank: number): number {
  return axis < 0 ? axis + rank : axis;
}

/** Returns the values of a constant vector or scalar, or undefined if they are unknown or vary. */
export function constantsOf(traced: Traced | undefined): number[] | undefined {
  const values = traced?.entries?.map(constantOf);
  return values?.every((value) => value !== undefined) ? values : undefined;
}

/** Kind of an elementwise result of several tensors, and the axis of its rows. */
export interface Met {
  readonly kind: Kind;
  readonly axis: number;
  readonly series: Size | undefined;
  readonly byLength: boolean;
}

/**
 * Combines the dependences of several tensors on rows.
 *
 * @param axes the axis of rows of each tensor in the result. @default unchanged
 */
export function meet(inputs: readonly Traced[], axes = inputs.map(({ axis }) => axis)): Met {
  const kinds = new Set(inputs.map(({ kind }) => kind));
  const byLength = inputs.some((input) => input.byLength);
  const axis = axes[inputs.findIndex(hasRows)] ?? -1;
  if (inputs.some((input, index) => hasRows(input) && axes[index] !== axis))
    mixes('its inputs have rows on different axes');
  const [series, ...others] = inputs
    .filter((input) => hasRows(input) && (input.kind !== 'equal' || input.series !== undefined))
    .map(seriesOf);
  if (others.some((other) => !isEqual(other, series as Size))) mixes('its inputs have rows in another order');
  const met = { axis, series, byLength };
  if (kinds.has('rows')) {
    if (kinds.has('places')) mixes("a row's place in the batch enters the data");
    if (kinds.has('count')) mixes('the number of rows enters the data');
    return { ...met, kind: 'rows' };
  }
  if (kinds.has('places') || (kinds.has('count') && kinds.has('equal'))) return { ...met, kind: 'places' };
  if (kinds.has('equal')) return { ...met, kind: 'equal' };
  return { ...met, kind: kinds.has('count') ? 'count' : 'same' };
}

export function seriesOf({ series = ONE }: Traced): Size {
  return series;
}

export function broadcast(shapes: readonly (readonly Size[])[]): Size[] {
  const rank = Math.max(0, ...shapes.map(({ length }) => length));
  return Array.from({ length: rank }, (_, axis) => {
    const given = shapes.map((shape) => shape[axis - rank + shape.length] ?? ONE);
    // A constant size is more informative than an open one.
    const wide = given.filter((size) => constantOf(size) !== 1);
    return wide.find((size) => constantOf(size) !== undefined) ?? wide[0] ?? ONE;
  });
}

/**
 * Combines tensors that are broadcast together.
 *
 * @returns dependence of the result on rows, and its shape
 */
export function meetBroadcast(inputs: readonly Traced[]): Met & { readonly shape: readonly Size[] } {
  const shape = broadcast(inputs.map(shapeOf));
  const axes = inputs.map((input) => input.axis + shape.length - shapeOf(input).length);
  const met = meet(inputs, axes);
  if (met.axis >= 0) refuseOwnRows(inputs, met.axis, shape.length);
  return { ...met, shape };
}

/** Refuses a constant that has a separate value for each row. */
export function refuseOwnRows(inputs: readonly Traced[], axis: number, rank: number): void {
  for (const input of inputs) {
    const size = hasRows(input) ? ONE : (shapeOf(input)[axis - rank + shapeOf(input).length] ?? ONE);
    const rows = constantOf(size);
    if (rows === 1) continue;
    if (rows === undefined) unknown('a constant of unknown size meets the rows');
    else mixes(`a constant of ${rows} rows meets the rows`);
  }
}
