import type { Model } from './model.ts';
import type { CloseReason } from './observer.ts';
import type { ScoringRequest } from './scoringRequest.ts';

/** Rows `fromRow` up to, not including, `toRow` of one request. */
export interface Part {
  readonly request: ScoringRequest;
  readonly fromRow: number;
  readonly toRow: number;
}

/** What is stacked into one run: parts of requests for one model, of one trailing shape apart from the ragged axis. */
export interface MicroBatch {
  readonly model: Model;
  readonly parts: readonly Part[];
  readonly rows: number;
  /** Rows that are run: `rows`, or the rung of the model's ladder that they are padded up to. */
  readonly paddedRows: number;
  /** The size that the ragged axis is padded to; 1 without one. */
  readonly paddedLength: number;
  readonly closedBecause: CloseReason;
}

export function microBatchOf(model: Model, parts: readonly Part[], closedBecause: CloseReason): MicroBatch {
  let rows = 0;
  let longest = 0;
  for (const { request, fromRow, toRow } of parts) {
    rows += toRow - fromRow;
    if (request.length > longest) longest = request.length;
  }
  const paddedLength = paddedLengthOf(model, longest);
  return { model, parts, rows, paddedRows: paddedRowsOf(model, rows), paddedLength, closedBecause };
}

/** One request with all its rows, padded by none where the model runs any number of rows. */
export function wholeRun(request: ScoringRequest, closedBecause: CloseReason): MicroBatch {
  const { model, rows } = request;
  const batch = microBatchOf(model, [{ request, fromRow: 0, toRow: rows }], closedBecause);
  return (model.ladder[0] ?? 1) > 1 ? batch : { ...batch, paddedRows: rows };
}

/** Whether it is all of its request. */
export function isWhole({ request, fromRow, toRow }: Part): boolean {
  return toRow - fromRow === request.rows;
}

/** The smallest rung that holds `rows`, or `rows` itself without a ladder. */
export function paddedRowsOf(model: Model, rows: number): number {
  return rungFor(model.ladder, rows);
}

/** The smallest rung of the ragged axis that holds `length`, or `length` itself without a ladder. */
export function paddedLengthOf({ ragged }: Model, length: number): number {
  return ragged === undefined ? 1 : rungFor(ragged.ladder, length);
}

function rungFor(ladder: readonly number[], size: number): number {
  return ladder.find((rung) => rung >= size) ?? size;
}

/** Elements that the inputs of a run hold together, padding included. */
export function elementsIn({ parts, paddedRows, paddedLength }: MicroBatch): number {
  return paddedRows * elementsPerRowAt((parts[0] as Part).request, paddedLength);
}

/** Elements that the inputs of `request` hold together for one row, its ragged axis of size `length`. */
export function elementsPerRowAt({ model: { ragged }, inputs }: ScoringRequest, length: number): number {
  let elements = 0;
  for (const [index, { shape }] of inputs.entries()) {
    const raggedAxis = ragged?.inputs[index]?.axis;
    let ofInput = 1;
    for (let axis = 1; axis < shape.length; axis++) ofInput *= axis === raggedAxis ? length : (shape[axis] as number);
    elements += ofInput;
  }
  return elements;
}

/**
 * Two micro-batches with about half of the parts each, or half of the rows of the only part: to find the request that
 * makes a run fail, and to run what does not fit into memory. Undefined for a single row.
 */
export function halve({ model, parts, closedBecause }: MicroBatch): [MicroBatch, MicroBatch] | undefined {
  const [only] = parts as readonly [Part];
  if (parts.length > 1) {
    const middle = Math.ceil(parts.length / 2);
    return [
      microBatchOf(model, parts.slice(0, middle), closedBecause),
      microBatchOf(model, parts.slice(middle), closedBecause),
    ];
  }
  const middle = only.fromRow + Math.ceil((only.toRow - only.fromRow) / 2);
  if (middle === only.toRow) return undefined;
  return [
    microBatchOf(model, [{ ...only, toRow: middle }], closedBecause),
    microBatchOf(model, [{ ...only, fromRow: middle }], closedBecause),
  ];
}
