import type { Model } from './model.ts';
import type { ScoringRequest } from './request.ts';
import { elementsPerRow } from './tensor.ts';

/**
 * Why a micro-batch took no more: `full` no more rows, `budget` no more elements, `end` nothing left to add.
 * The worker's gather adds `window` and `deadline`.
 */
export type CloseReason = 'full' | 'budget' | 'end' | 'window' | 'deadline';

/** Rows `fromRow` up to, not including, `toRow` of one request. */
export interface Part {
  readonly request: ScoringRequest;
  readonly fromRow: number;
  readonly toRow: number;
}

/** What is stacked into one run: parts of requests for one model with the same trailing shape of every input. */
export interface MicroBatch {
  readonly model: Model;
  readonly parts: readonly Part[];
  readonly rows: number;
  /** Rows run: `rows`, or the rung of the model's ladder it is padded up to. */
  readonly paddedRows: number;
  readonly closedBecause: CloseReason;
}

export interface PlanLimits {
  /** Most elements, padding included, that the inputs of one micro-batch hold together. */
  readonly maxBatchElements: number;
}

/** Partitions requests into micro-batches: every row of every request in exactly one of them. */
export type Planner = (requests: readonly ScoringRequest[], limits: PlanLimits) => MicroBatch[];

/**
 * Fills micro-batches in arrival order, per model and signature, up to what each may hold. A request is cut only
 * when it has more rows than one micro-batch holds.
 */
export const plan: Planner = (requests, limits) =>
  groupBySignature(requests).flatMap((group) => fillInOrder(group, capacityOf(group[0], limits)));

function groupBySignature(requests: readonly ScoringRequest[]): [ScoringRequest, ...ScoringRequest[]][] {
  const groups = new Map<Model, Map<string, [ScoringRequest, ...ScoringRequest[]]>>();
  for (const request of requests) {
    const ofModel = groups.get(request.model) ?? new Map<string, [ScoringRequest, ...ScoringRequest[]]>();
    groups.set(request.model, ofModel);
    const signature = signatureOf(request);
    const group = ofModel.get(signature);
    if (group === undefined) ofModel.set(signature, [request]);
    else group.push(request);
  }
  return [...groups.values()].flatMap((ofModel) => [...ofModel.values()]);
}

/** The trailing shape of every input; the datatypes are the model's. */
function signatureOf(request: ScoringRequest): string {
  let signature = '';
  for (const input of request.inputs) {
    for (let axis = 1; axis < input.shape.length; axis++) signature += `${input.shape[axis]},`;
    signature += ';';
  }
  return signature;
}

interface Capacity {
  readonly rows: number;
  /** What bounds the rows. */
  readonly reason: 'full' | 'budget';
}

/** How many rows like those of `request` a micro-batch may hold: at least one, on a ladder the top rung allowed. */
function capacityOf(request: ScoringRequest, limits: PlanLimits): Capacity {
  const { maxBatchRows, ladder } = request.model;
  const rowElements = request.inputs.reduce((sum, input) => sum + elementsPerRow(input.shape), 0);
  const affordableRows = Math.max(1, Math.floor(limits.maxBatchElements / rowElements));
  const reason = affordableRows < maxBatchRows ? 'budget' : 'full';
  const rows = Math.min(maxBatchRows, affordableRows);
  if (ladder.length === 0) return { rows, reason };
  return { rows: ladder.findLast((rung) => rung <= rows) ?? (ladder[0] as number), reason };
}

function fillInOrder(group: readonly ScoringRequest[], capacity: Capacity): MicroBatch[] {
  const batches: MicroBatch[] = [];
  let parts: Part[] = [];
  let rows = 0;
  const close = (closedBecause: CloseReason): void => {
    const [first] = parts;
    if (first === undefined) return;
    const { model } = first.request;
    batches.push({ model, parts, rows, paddedRows: paddedRowsOf(model, rows), closedBecause });
    parts = [];
    rows = 0;
  };

  for (const request of group) {
    if (request.rows <= capacity.rows && rows + request.rows > capacity.rows) close(capacity.reason);
    for (let fromRow = 0; fromRow < request.rows; ) {
      const toRow = Math.min(request.rows, fromRow + capacity.rows - rows);
      parts.push({ request, fromRow, toRow });
      rows += toRow - fromRow;
      fromRow = toRow;
      if (rows === capacity.rows) close(capacity.reason);
    }
  }
  close('end');
  return batches;
}

/** The smallest rung that holds `rows`, or `rows` itself without a ladder. */
export function paddedRowsOf(model: Model, rows: number): number {
  return model.ladder.find((rung) => rung >= rows) ?? rows;
}

/** Two micro-batches of about half the parts each, for finding the one that makes a run fail. */
export function halve(batch: MicroBatch): [MicroBatch, MicroBatch] {
  const middle = Math.ceil(batch.parts.length / 2);
  return [withParts(batch, batch.parts.slice(0, middle)), withParts(batch, batch.parts.slice(middle))];
}

function withParts(batch: MicroBatch, parts: readonly Part[]): MicroBatch {
  const rows = parts.reduce((sum, part) => sum + part.toRow - part.fromRow, 0);
  return { ...batch, parts, rows, paddedRows: paddedRowsOf(batch.model, rows) };
}
