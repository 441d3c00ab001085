import type { Cost, Model } from '../contract/model.ts';
import type { ScoringRequest } from '../contract/request.ts';
import { affineCost } from './cost.ts';
import { elementsPerRowAt, paddedLengthOf, paddedRowsOf } from './microBatch.ts';
import type { RunLimits } from './planner.ts';

/** What a micro-batch may hold when its longest request is of a given length, and what its runs cost. */
export interface LimitsAtLength {
  /** Most rows: at least one; with a ladder, the highest rung allowed. */
  readonly rows: number;
  /** What bounds the rows. */
  readonly reason: 'full' | 'budget';
  /** The cost of a run by its number of rows, from 1 to `rows`. */
  readonly costs: Float64Array;
}

export interface LimitsByLength {
  at(length: number): LimitsAtLength;
  /** Whether a further row costs no less the more rows a run has and the longer it is, save for the second. */
  readonly furtherRowsCostMore: boolean;
}

/** @param sample any request of the group */
export function limitsByLength(sample: ScoringRequest, runLimits: RunLimits): LimitsByLength {
  const { model } = sample;
  // Where nobody has measured what runs cost, what was learnt counts in place of a guess.
  const { learnt } = runLimits;
  const known = new Map<number, LimitsAtLength>();
  return {
    // Rows that are padded up to a rung cost nothing, and a table may hold anything.
    furtherRowsCostMore: model.cost === undefined && model.ladder.length === 0,
    at(length) {
      const paddedLength = paddedLengthOf(model, length);
      const found = known.get(paddedLength);
      if (found !== undefined) return found;
      const elementsPerRow = elementsPerRowAt(sample, paddedLength);
      const capacity = capacityOf(model, elementsPerRow, runLimits);
      const cost = model.cost ?? learnt ?? affineCost(() => elementsPerRow);
      const limits = { ...capacity, costs: costsOf(model, cost, capacity.rows, paddedLength) };
      known.set(paddedLength, limits);
      return limits;
    },
  };
}

function costsOf(model: Model, cost: Cost, rows: number, paddedLength: number): Float64Array {
  const costs = new Float64Array(rows + 1);
  let paddedRows = 0;
  let ofRung = 0;
  for (let count = 1; count <= rows; count++) {
    if (count > paddedRows) {
      paddedRows = paddedRowsOf(model, count);
      ofRung = cost(paddedRows, paddedLength);
    }
    costs[count] = ofRung;
  }
  return costs;
}

/** How many rows of `elementsPerRow` a micro-batch may hold: at least one; with a ladder, the highest rung allowed. */
export function capacityOf(
  { maxBatchRows, ladder }: Model,
  elementsPerRow: number,
  { maxElements, maxRows = maxBatchRows }: { readonly maxElements: number; readonly maxRows?: number },
): { readonly rows: number; readonly reason: 'full' | 'budget' } {
  const affordable = Math.max(1, Math.floor(maxElements / elementsPerRow));
  const most = Math.min(maxBatchRows, maxRows);
  const reason = affordable < most ? 'budget' : 'full';
  const rows = Math.min(most, affordable);
  if (ladder.length === 0) return { rows, reason };
  return { rows: ladder.findLast((rung) => rung <= rows) ?? (ladder[0] as number), reason };
}
