import { affineCost } from '../../../../lambda/core/cost.ts';
import type { MicroBatch } from '../../../../lambda/core/microBatch.ts';
import type { Cost, Model } from '../../../../lambda/core/model.ts';
import { echoModel, type InMemoryModelOptions } from '../../../helpers/scoring.ts';

export interface SentenceOptions extends Omit<InMemoryModelOptions, 'ragged'> {
  /** The lengths that it may be run at. @default any */
  readonly lengths?: readonly number[];
}

/** Float32 `[batch, length]` in and out, its length ragged. */
export function sentenceModel({ lengths = [], ...options }: SentenceOptions = {}): Model {
  const ragged = { name: 'length', inputs: [{ axis: 1, pad: 0 }], outputs: [1], allowedSizes: lengths };
  return echoModel('FP32', ['length'], { ...options, ragged });
}

/** Rows of one length, as a test's own arithmetic sees a request or a part of one. */
export interface Piece {
  readonly rows: number;
  readonly length: number;
}

/** What a run of the pieces costs by the model, its rows and its length padded; infinite where it may not be run. */
export type RunCost = (pieces: readonly Piece[]) => number;

/** What runs cost that were not measured. */
export const UNMEASURED: Cost = affineCost((length) => length);

export function runCostOf(
  { allowedSizes, ragged, maxBatchRows }: Model,
  maxElements: number,
  costOf: Cost = UNMEASURED,
): RunCost {
  const upTo = (allowedSizes: readonly number[], size: number): number => {
    return allowedSizes.length === 0 ? size : Math.min(...allowedSizes.filter((allowed) => allowed >= size));
  };
  return (pieces) => {
    const rows = upTo(
      allowedSizes,
      pieces.reduce((sum, piece) => sum + piece.rows, 0),
    );
    const length = upTo(ragged?.allowedSizes ?? [], Math.max(...pieces.map((piece) => piece.length)));
    const mayRun = rows <= maxBatchRows && rows * length <= maxElements;
    const isMin = rows === (allowedSizes[0] ?? 1);
    return mayRun || isMin ? costOf(rows, length) : Number.POSITIVE_INFINITY;
  };
}

export function totalCost(batches: readonly MicroBatch[], costOf: Cost = UNMEASURED): number {
  return batches.reduce((sum, { paddedRows, paddedLength }) => sum + costOf(paddedRows, paddedLength), 0);
}

/** The least cost over all ways to share the pieces out among runs. */
export function minOfAllPartitions(pieces: readonly Piece[], runCost: RunCost): number {
  const runs: Piece[][] = [];
  const share = (index: number): number => {
    const piece = pieces[index];
    if (piece === undefined) return runs.reduce((sum, run) => sum + runCost(run), 0);
    let min = Number.POSITIVE_INFINITY;
    for (const run of [...runs]) {
      run.push(piece);
      min = Math.min(min, share(index + 1));
      run.pop();
    }
    runs.push([piece]);
    min = Math.min(min, share(index + 1));
    runs.pop();
    return min;
  };
  return share(0);
}

/** The least cost over all ways to cut the pieces, in their order, into runs. */
export function minOfAllCuts(pieces: readonly Piece[], runCost: RunCost): number {
  if (pieces.length === 0) return 0;
  const costs = pieces.map((_, last) => {
    return runCost(pieces.slice(0, last + 1)) + minOfAllCuts(pieces.slice(last + 1), runCost);
  });
  return Math.min(...costs);
}
