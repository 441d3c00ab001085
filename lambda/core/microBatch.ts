import type { Failure } from './failure.ts';
import type { Model } from './model.ts';
import type { CloseReason } from './observer.ts';
import { type Base64Data, type Datatype, sizeOf, type Tensor, type TensorData } from './tensor.ts';

/** Rows `fromRow` to `toRow` (exclusive) of one request. */
export interface Part {
  readonly request: ScoringRequest;
  readonly fromRow: number;
  readonly toRow: number;
}

/** Parts of requests to stack into one run: of one model and, apart from the ragged axis, of one trailing shape. */
export interface MicroBatch {
  readonly model: Model;
  readonly parts: readonly Part[];
  readonly rows: number;
  /** Rows to run: `rows`, or the allowed size that they are padded to. */
  readonly paddedRows: number;
  /** Padded size of the ragged axis, or 1 if the model has none. */
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

/** Returns a micro-batch of one whole request. It has no padding if the model takes any number of rows. */
export function loneMicroBatch(request: ScoringRequest, closedBecause: CloseReason): MicroBatch {
  const { model, rows } = request;
  const batch = microBatchOf(model, [{ request, fromRow: 0, toRow: rows }], closedBecause);
  return (model.allowedSizes[0] ?? 1) > 1 ? batch : { ...batch, paddedRows: rows };
}

export function isWhole({ request, fromRow, toRow }: Part): boolean {
  return toRow - fromRow === request.rows;
}

/** Returns the smallest allowed size that holds `rows`, or `rows` if there are no allowed sizes. */
export function paddedRowsOf(model: Model, rows: number): number {
  return allowedSizeFor(model.allowedSizes, rows);
}

/** Returns the smallest allowed size of the ragged axis that holds `length`, or `length` if there are none. */
export function paddedLengthOf({ ragged }: Model, length: number): number {
  return ragged === undefined ? 1 : allowedSizeFor(ragged.allowedSizes, length);
}

function allowedSizeFor(allowedSizes: readonly number[], size: number): number {
  return allowedSizes.find((allowed) => allowed >= size) ?? size;
}

/** Returns the number of input elements of a run, including padding. */
export function elementsIn({ parts, paddedRows, paddedLength }: MicroBatch): number {
  return paddedRows * elementsPerRowAt((parts[0] as Part).request, paddedLength);
}

/** Returns the number of elements in one row of all inputs, with a ragged axis of size `length`. */
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
 * Splits a micro-batch into two with about half of the parts each, or half of the rows of a single part. It serves to
 * find the request that makes a run fail, and to fit a run into memory. Returns undefined for a single row.
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

/** Input of a request, checked against the model's datatype and the number of elements in `shape`. */
export interface RequestInput {
  readonly datatype: Datatype;
  /** `[rows, …]`, independent of the batch axis of the request. */
  readonly shape: readonly number[];
  readonly data: TensorData | Base64Data;
}

/**
 * Form of an answer: `outputs` with `data`, `outputs` with `raw_output_contents`, or `predictions`, each as JSON text; or
 * the tensors themselves.
 */
export type ReplyForm = 'json' | 'binary' | 'predictions' | 'tensors';

/** Scores of a request: JSON text, or tensors if it asks for them. */
export type Scores = string | readonly Tensor[];

/** Request of tensors, such as a chunk of a table, in place of JSON text. */
export interface TensorRequest {
  /** In the layout of the model. */
  readonly inputs: readonly Tensor[];
  readonly reply: 'json' | 'tensors';
}

/** JSON text of one request or of an array of them, or a request of tensors. */
export type Body = string | TensorRequest;

/** Returns the size of a body in characters or bytes. */
export function bodySize(body: Body): number {
  return sizeOf(typeof body === 'string' ? body : body.inputs);
}

/** Decoded and checked request: one typed tensor per model input, in the model's order, each with `rows` rows. */
export interface ScoringRequest {
  readonly bodyIndex: number;
  readonly position: number;
  readonly id: string | undefined;
  readonly model: Model;
  readonly rows: number;
  /** Size of the model's ragged axis, or 1 if it has none. */
  readonly length: number;
  readonly inputs: readonly RequestInput[];
  /** Indexes of the model outputs to answer with, in the requested order. */
  readonly outputs: readonly number[];
  readonly reply: ReplyForm;
}

/** Refused request, with the id if it could be read. */
export interface RefusedRequest {
  readonly id: string | undefined;
  readonly failure: Failure;
}

export type DecodedRequest = ScoringRequest | RefusedRequest;

/** Decoded body: one request, or those of a packed message, which one array answers in the same order. */
export type DecodedBody = DecodedRequest | readonly DecodedRequest[];

export function isPacked(body: DecodedBody): body is readonly DecodedRequest[] {
  return Array.isArray(body);
}

export function isRefused(request: DecodedRequest): request is RefusedRequest {
  return 'failure' in request;
}
