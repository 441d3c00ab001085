import { isWhole, type MicroBatch, microBatchOf, type Part } from '../plan/microBatch.ts';
import { stack, unstack } from '../stack/stack.ts';
import { type Difference, firstDifference, OTHER_SHAPE, SAME_SHAPE } from '../tensor/difference.ts';
import type { Tensor } from '../tensor/tensor.ts';
import type { Invocation } from './invocation.ts';
import type { CheckRuns } from './runForCheck.ts';

/** A request of a micro-batch that was also run alone. Of one that was cut, its part stands for it. */
export interface RunBothWays {
  readonly part: Part;
  /** Its first row in the micro-batch. */
  readonly row: number;
  /** What it got alone: one tensor per model output, each with the rows of the part, cut back. */
  readonly outputs: readonly Tensor[];
}

export interface Differing extends RunBothWays {
  readonly difference: Difference;
}

/**
 * What requests say that were run both ways: they `agree`; they `differ`; or it is `unclear`, because there was no time to
 * tell why they differ.
 */
export type Verdict =
  | { readonly status: 'agree' | 'unclear' }
  | {
      readonly status: 'differ';
      readonly part: Part;
      readonly difference: Difference;
      /** As many rows as a run may have: more than 1 where the number of rows alone changed the answer. */
      readonly maxRows: number;
    };

/** Whether copies of a request get one answer wherever they stand is looked at in so many places. */
const MAX_PLACES = 32;

/** The requests whose outputs in a micro-batch are not those that they get alone, by more than rounding. */
export function differingRequests(
  batch: MicroBatch,
  outputs: readonly Tensor[],
  compared: readonly RunBothWays[],
): Differing[] {
  return compared.flatMap((one) => {
    const difference = firstDifference(unstack(batch, one.part, one.row, outputs), one.outputs, OTHER_SHAPE);
    return difference === undefined ? [] : [{ ...one, difference }];
  });
}

/**
 * Tells what neighbours change from what the number of rows alone changes. A request that differs is run in copies of
 * itself, in a run of the micro-batch's shape. Where it gets there what it got among others, its neighbours did nothing:
 * the model depends on the number of rows, and is run with no more than were seen to change nothing.
 */
export async function explainDifference(
  batch: MicroBatch,
  outputs: readonly Tensor[],
  one: Differing,
  checks: CheckRuns,
): Promise<Verdict> {
  const { part, row, difference } = one;
  const copies = await inCopies(one, batch, batch.rows, checks);
  if (copies === undefined) return { status: 'unclear' };
  const first = copies.at(0);
  const isOthersDoing =
    firstDifference(unstack(batch, part, row, outputs), first, SAME_SHAPE) !== undefined ||
    copies.places.some((place) => firstDifference(first, copies.at(place), SAME_SHAPE) !== undefined);
  let maxRows = isOthersDoing ? 1 : Math.floor(batch.rows / 2);
  for (; maxRows > 1; maxRows = Math.floor(maxRows / 2)) {
    const fewer = maxRows < 2 * rowsOf(part) ? undefined : await inCopies(one, batch, maxRows, checks);
    if (fewer !== undefined && firstDifference(fewer.at(0), one.outputs, OTHER_SHAPE) === undefined) break;
  }
  return { status: 'differ', part, difference, maxRows: Math.max(1, maxRows) };
}

/** What copies of a request got in one run. */
interface Copies {
  /** Of the copies that are looked at, but for the first. */
  readonly places: readonly number[];
  /** The outputs of one copy. */
  at(place: number): readonly Tensor[];
}

/** Runs so many rows, all of them of one request: the last copy is cut where they do not divide. */
async function inCopies(
  { part }: RunBothWays,
  { model, paddedLength, closedBecause }: MicroBatch,
  rows: number,
  checks: CheckRuns,
): Promise<Copies | undefined> {
  const size = rowsOf(part);
  const whole = Math.floor(rows / size);
  const parts = new Array<Part>(whole).fill(part);
  if (rows % size > 0) parts.push({ ...part, toRow: part.fromRow + (rows % size) });
  const copies = { ...microBatchOf(model, parts, closedBecause), paddedLength };
  const ran = await checks.run(copies);
  if (ran === undefined) return undefined;
  const step = Math.ceil(whole / MAX_PLACES);
  const places = Array.from({ length: Math.ceil(whole / step) - 1 }, (_, index) => (index + 1) * step);
  return { places, at: (place) => unstack(copies, part, place * size, ran.outputs) };
}

/**
 * Has a model batched no more, or with no more rows than change nothing, and tells that: of one that is batched no more,
 * once.
 */
export function stopBatching(
  { part: { request }, difference, maxRows }: Extract<Verdict, { status: 'differ' }>,
  { ledger, deps: { batching, observer } }: Invocation,
): void {
  const { model } = request;
  const before = batching.stop(model, maxRows);
  if (before === 'alone') return;
  observer.batchMismatch({
    model: model.name,
    version: model.version,
    messageId: ledger.messageIdOf(request),
    difference,
    wasBatched: before === 'together',
    maxRows,
  });
}

/** What the model is given when a request, or a part of one, is run alone. */
export function inputsOf(part: Part): Tensor[] {
  return stack(microBatchOf(part.request.model, [part], 'end'));
}

/** Whether inputs are of equal shapes and elements. */
export function areAlike(a: readonly Tensor[], b: readonly Tensor[]): boolean {
  return a.every(({ shape, data }, index) => {
    const other = b[index] as Tensor;
    if (shape.join() !== other.shape.join()) return false;
    for (let at = 0; at < data.length; at++) if (!Object.is(data[at], other.data[at])) return false;
    return true;
  });
}

/** What stands for a part in a comparison: the request, or of a part of one that was cut a single row. */
export function unitOf(part: Part): Part {
  return isWhole(part) ? part : { ...part, toRow: part.fromRow + 1 };
}

function rowsOf({ fromRow, toRow }: Part): number {
  return toRow - fromRow;
}
