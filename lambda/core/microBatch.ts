import type { Failure } from './failure.ts';
import type { Model } from './model.ts';
import type { CloseReason } from './observer.ts';
import type { Base64Data, Datatype, TensorData } from './tensor.ts';

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
  /** Rows that are run: `rows`, or the allowed size that they are padded up to. */
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
export function loneMicroBatch(request: ScoringRequest, closedBecause: CloseReason): MicroBatch {
  const { model, rows } = request;
  const batch = microBatchOf(model, [{ request, fromRow: 0, toRow: rows }], closedBecause);
  return (model.allowedSizes[0] ?? 1) > 1 ? batch : { ...batch, paddedRows: rows };
}

export function isWhole({ request, fromRow, toRow }: Part): boolean {
  return toRow - fromRow === request.rows;
}

/** The smallest allowed size that holds `rows`, or `rows` itself without allowed sizes. */
export function paddedRowsOf(model: Model, rows: number): number {
  return allowedSizeFor(model.allowedSizes, rows);
}

/** The smallest allowed size of the ragged axis that holds `length`, or `length` itself without allowed sizes. */
export function paddedLengthOf({ ragged }: Model, length: number): number {
  return ragged === undefined ? 1 : allowedSizeFor(ragged.allowedSizes, length);
}

function allowedSizeFor(allowedSizes: readonly number[], size: number): number {
  return allowedSizes.find((allowed) => allowed >= size) ?? size;
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

/** One input of one request, checked to be of the model's datatype and to hold as many elements as `shape` says. */
export interface RequestInput {
  readonly datatype: Datatype;
  /** `[rows, …]`, wherever the request had its batch axis. */
  readonly shape: readonly number[];
  readonly data: TensorData | Base64Data;
}

/** How the scores are written: as `outputs` with `data`, as `outputs` with `raw_output_contents`, or as `predictions`. */
export type ReplyForm = 'json' | 'binary' | 'predictions';

/** A request, decoded and checked: one typed tensor per model input, in the model's order, each of `rows` rows. */
export interface ScoringRequest {
  /** Which of the bodies of a call it came in. */
  readonly bodyIndex: number;
  /** Its place among the requests of that body. */
  readonly position: number;
  readonly id: string | undefined;
  readonly model: Model;
  readonly rows: number;
  /** Size of the model's ragged axis; 1 without one. */
  readonly length: number;
  readonly inputs: readonly RequestInput[];
  /** Which model outputs to answer with, by index and in the order asked for. */
  readonly outputs: readonly number[];
  readonly reply: ReplyForm;
}

/** A refused request, with what could be read of it. */
export interface RefusedRequest {
  readonly id: string | undefined;
  readonly failure: Failure;
}

export type DecodedRequest = ScoringRequest | RefusedRequest;

/** A decoded body: one request, or those of a packed message, which one array answers in the same order. */
export type DecodedBody = DecodedRequest | readonly DecodedRequest[];

export function isPacked(body: DecodedBody): body is readonly DecodedRequest[] {
  return Array.isArray(body);
}

export function isRefused(request: DecodedRequest): request is RefusedRequest {
  return 'failure' in request;
}
