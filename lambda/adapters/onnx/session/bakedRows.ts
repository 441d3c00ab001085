import { axisInModel, type TensorSpec } from '../../../core/contract/model.ts';

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
 * @throws Error when two inputs disagree, naming both
 */
export function readBakedRows(inputs: readonly TensorSpec[]): BakedRows {
  const baked = inputs.filter(({ shape }) => typeof shape[0] === 'number');
  const [first] = baked;
  if (first === undefined) return { bakedRows: undefined, bakedBy: [] };
  const rows = first.shape[0] as number;
  const odd = baked.find(({ shape }) => shape[0] !== rows);
  if (odd !== undefined) {
    throw new Error(
      `inputs '${first.name}' and '${odd.name}': expected the same size on the batch axis, got ${rows} on axis ` +
        `${axisInModel(first, 0)} and ${odd.shape[0]} on axis ${axisInModel(odd, 0)}; export the model with a dynamic ` +
        `batch axis; ${CURES}`,
    );
  }
  return { bakedRows: rows, bakedBy: baked.length < inputs.length ? baked : [] };
}
