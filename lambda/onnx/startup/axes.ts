import type { Model } from '../../core/contract/model.ts';
import { elementCount } from '../../core/tensor/tensor.ts';

/** Sizes of symbolic axes by name. */
export type AxisSizes = Readonly<Record<string, number>>;

type Inputs = Pick<Model, 'inputs'>;

/** Elements that the inputs hold together. */
export function elementsAt(model: Inputs, rows: number, sizes: AxisSizes): number {
  return shapesAt(model, rows, sizes, 1).reduce((sum, shape) => sum + elementCount(shape), 0);
}

/**
 * Shapes of each input: symbolic axes have the size that is given by name, the sum that their name spells, such as
 * `past + 1`, or `size`.
 */
export function shapesAt(model: Inputs, rows: number, sizes: AxisSizes, size: number): number[][] {
  const axes = symbolicAxes(model);
  const sizeOf = (dim: number | string): number => {
    if (typeof dim === 'number') return dim;
    return sizes[dim] ?? termsOf(dim, axes)?.reduce<number>((sum, term) => sum + sizeOf(term), 0) ?? size;
  };
  return model.inputs.map(({ shape }) => [rows, ...shape.slice(1).map(sizeOf)]);
}

/** Numbers, and names of other axes, that the name of an axis adds up; undefined where it does not. */
function termsOf(name: string, axes: readonly string[]): (number | string)[] | undefined {
  const terms = name.split('+').map((term) => term.trim());
  if (terms.length < 2 || !terms.every((term) => /^\d+$/.test(term) || axes.includes(term))) return undefined;
  return terms.map((term) => (axes.includes(term) ? term : Number(term)));
}

/** The axes whose sizes others do not add up to. */
export function freeAxes(model: Inputs): string[] {
  const axes = symbolicAxes(model);
  return axes.filter((name) => termsOf(name, axes) === undefined);
}

/**
 * Sizes to try besides one size for all axes: the keys and values of a decoder's past are empty at first, and where they
 * are not, its mask is longer than what it is given.
 */
export function emptyPast(model: Inputs): AxisSizes | undefined {
  const past = freeAxes(model).filter((name) => /past/i.test(name));
  return past.length === 0 ? undefined : Object.fromEntries(past.map((name) => [name, 0]));
}

/** The axes other than that of the batch whose sizes requests choose. */
export function symbolicAxes({ inputs }: Inputs): string[] {
  const names = inputs.flatMap(({ shape }) => shape.slice(1)).filter((dim) => typeof dim === 'string');
  return [...new Set(names)];
}
