import { messageOf } from '../../../lambda/core/failure.ts';
import { microBatchOf, type Part } from '../../../lambda/core/microBatch.ts';
import type { Model } from '../../../lambda/core/model.ts';
import type { ScoringRequest } from '../../../lambda/core/scoringRequest.ts';
import { stack } from '../../../lambda/core/stack.ts';

import { symbolicAxes } from '../../../lambda/onnx/contract.ts';
import type { ModelGraph } from '../../../lambda/onnx/modelFile.ts';
import { type Manner, makeUp, realProbes, rowShapes } from '../../../lambda/onnx/probes.ts';
import type { WarmUpSizes } from '../../../lambda/onnx/warmUp.ts';
import { lengthsToTry } from './lengths.ts';
import { withLength } from './withLength.ts';

/** Rows that a model runs with: real ones, or made-up ones. */
export interface RowMaker {
  /** What rows may be made of, ascending, and which of it is ordinary. It is not known yet whether the model runs at all of them. */
  readonly lengths: readonly number[];
  readonly ordinary: number;
  /**
   * Some rows of one length.
   *
   * @throws Error when the model does not run with each of them alone, however they are made up
   */
  of(length: number): Promise<readonly Part[]>;
}

const MOST_SAMPLES = 16;

/** @param warmUp what config.json says of it: sizes of open axes */
export function createRowMaker(
  model: Model,
  samples: readonly ScoringRequest[],
  graph: ModelGraph,
  warmUp: WarmUpSizes | undefined,
): RowMaker {
  const real = realProbes(samples, MOST_SAMPLES);
  if (real.length > 0) return realRows(model, real);
  const given = typeof warmUp === 'object' ? warmUp : {};
  const axes = symbolicAxes(model).filter((axis) => axis === model.ragged?.name || given[axis] === undefined);
  return {
    ...lengthsToTry(model, axes.length > 0, given),
    of: (length) => madeUpRows(model, rowShapes(model, sizesAt(model, length, given), length), graph),
  };
}

/** Where lengths may differ in a run, real rows are cut, or repeated, to the length that is asked for. */
function realRows(model: Model, real: readonly Part[]): RowMaker {
  const { ragged } = model;
  if (ragged === undefined) return { lengths: [1], ordinary: 1, of: async () => real };
  const sorted = real.map(({ request }) => request.length).toSorted((a, b) => a - b);
  const ordinary = sorted[sorted.length >> 1] as number;
  return {
    ...lengthsToTry(model, true, {}, { shortest: sorted[0] as number, ordinary, longest: sorted.at(-1) as number }),
    of: async (length) => real.map((part) => withLength(part, ragged, length)),
  };
}

/** The ragged axis has the length whatever config.json gives for the warm-up. */
function sizesAt(
  { ragged }: Model,
  length: number,
  given: Readonly<Record<string, number>>,
): Readonly<Record<string, number>> {
  return ragged === undefined ? given : { ...given, [ragged.name]: length };
}

const MANNERS: readonly (readonly Manner[])[] = [
  ['unit', 'large', 'small', 'unit'],
  ['ones', 'small', 'ones', 'small'],
];

async function madeUpRows(model: Model, shapes: number[][], graph: ModelGraph): Promise<readonly Part[]> {
  let reason = '';
  for (const manners of MANNERS) {
    const rows = makeUp(model, shapes, manners, graph);
    try {
      for (const row of rows) await model.run(stack(microBatchOf(model, [row], 'end')));
      return rows;
    } catch (error) {
      reason ||= messageOf(error);
    }
  }
  throw new Error(reason);
}
