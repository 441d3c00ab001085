import { axisInModel, type TensorSpec } from '../../core/model.ts';

/** How many rows a model takes. */
export interface BakedRows {
  /** The only number of rows it takes, when its batch axis is baked; undefined when it is dynamic. */
  readonly bakedRows: number | undefined;
  /** The inputs that bake it, where others leave it dynamic. */
  readonly bakedBy: readonly TensorSpec[];
}

/** What to do with an input that does not have the batch axis of the others. */
export const CURES =
  'where one is a weight that is the same for all requests, give its value as "constants" in config.json; where it is a ' +
  'state with its batch on another axis, name that axis as "batchAxis"';

/**
 * The number of rows that the batch axis is baked to, if it is, and by which inputs.
 *
 * @param inputs that do not disagree
 */
export function readBakedRows(inputs: readonly TensorSpec[]): BakedRows {
  const baked = bakedOf(inputs);
  const rows = baked[0]?.shape[0];
  return typeof rows === 'number'
    ? { bakedRows: rows, bakedBy: baked.length < inputs.length ? baked : [] }
    : { bakedRows: undefined, bakedBy: [] };
}

function bakedOf(inputs: readonly TensorSpec[]): TensorSpec[] {
  return inputs.filter(({ shape }) => typeof shape[0] === 'number');
}

/**
 * Inputs that bake different numbers of rows: the likely number, and those that have another. It is the one of most
 * outputs, and of those that as many have the one that most inputs have on any axis.
 *
 * @param outputs like the inputs, their rows first
 */
export function disagreement(
  inputs: readonly TensorSpec[],
  outputs: readonly TensorSpec[],
): { readonly rows: number; readonly odd: readonly TensorSpec[]; readonly problem: string } | undefined {
  const baked = bakedOf(inputs);
  const oddOf = (rows: number): TensorSpec[] => baked.filter(({ shape }) => shape[0] !== rows);
  const sizes = [...new Set(baked.map(({ shape }) => shape[0] as number))];
  const isOn = (rows: number, specs: readonly TensorSpec[]): number =>
    specs.filter(({ shape }) => shape[0] === rows).length;
  const isIn = (rows: number): number => baked.filter(({ shape }) => shape.includes(rows)).length;
  const [rows] = sizes.toSorted((a, b) => isOn(b, outputs) - isOn(a, outputs) || isIn(b) - isIn(a));
  if (rows === undefined || sizes.length === 1) return undefined;
  const odd = oddOf(rows);
  const [first] = odd as [TensorSpec];
  const one = baked.find(({ shape }) => shape[0] === rows) as TensorSpec;
  return {
    rows,
    odd,
    problem:
      `inputs '${one.name}' and '${first.name}': expected the same size on the batch axis, got ${rows} on axis ` +
      `${axisInModel(one, 0)} and ${first.shape[0]} on axis ${axisInModel(first, 0)}; export the model with a dynamic ` +
      `batch axis; ${CURES}`,
  };
}
