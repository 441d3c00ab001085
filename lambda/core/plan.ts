import { affineCost } from './cost.ts';
import {
  elementsPerRowAt,
  loneMicroBatch,
  type MicroBatch,
  microBatchOf,
  type Part,
  paddedLengthOf,
  paddedRowsOf,
  type ScoringRequest,
} from './microBatch.ts';
import type { Cost, Model } from './model.ts';
import type { CloseReason } from './observer.ts';

/** Plan of requests. Every row of every request is in exactly one micro-batch. */
export interface Plan {
  /** Adds a request. Returns the micro-batches that it closes, which may run while others are decoded. */
  add(request: ScoringRequest): readonly MicroBatch[];
  finish(): readonly MicroBatch[];
}

/**
 * Begins a plan.
 *
 * @param maxElementsOf returns the maximum number of elements in the inputs of a micro-batch, including padding
 * @param costOf returns the cost of a model's runs, or undefined if it was not measured. @default nothing was measured
 * @param mayCutOf returns false if a request's rows must stay together. @default they need not
 */
export type Planner = (
  maxElementsOf: (model: Model) => number,
  costOf?: (model: Model) => Cost | undefined,
  mayCutOf?: (model: Model) => boolean,
) => Plan;

interface RunLimits {
  readonly mayCut: boolean;
  readonly maxElements: number;
  /** Cost of runs. Undefined if it was not measured. */
  readonly cost: Cost | undefined;
}

/**
 * Groups requests by model and signature. If all rows have one shape, micro-batches are filled as requests arrive. If
 * rows differ in length, they are cut when all requests are known, or no more may wait.
 */
export const plan: Planner = (maxElementsOf, costOf, mayCutOf) => {
  const groupsByModel = new Map<Model, ModelGroups>();
  let last: ModelGroups | undefined;
  const groupsOf = (model: Model): ModelGroups => {
    const known = groupsByModel.get(model) ?? { model, oneShape: hasOneShape(model), groups: new Map() };
    groupsByModel.set(model, known);
    return known;
  };
  const createGroup = (request: ScoringRequest): Plan => {
    const { model } = request;
    const runLimits = {
      mayCut: mayCutOf?.(model) ?? true,
      maxElements: maxElementsOf(model),
      cost: costOf?.(model),
    };
    return model.ragged === undefined ? createFill(request, runLimits) : createGathering(runLimits);
  };
  return {
    add(request) {
      if (last?.model !== request.model) last = groupsOf(request.model);
      const ofModel = last;
      const signature = ofModel.oneShape ? '' : signatureOf(request);
      let group = ofModel.groups.get(signature);
      if (group === undefined) {
        group = createGroup(request);
        ofModel.groups.set(signature, group);
      }
      return group.add(request);
    },
    finish: () =>
      [...groupsByModel.values()].flatMap(({ groups }) => [...groups.values()].flatMap((group) => group.finish())),
  };
};

interface ModelGroups {
  readonly model: Model;
  readonly oneShape: boolean;
  readonly groups: Map<string, Plan>;
}

function hasOneShape({ inputs }: Model): boolean {
  return inputs.every(({ shape }) => shape.slice(1).every((dim) => typeof dim === 'number'));
}

function createGathering(runLimits: RunLimits): Plan {
  const requests: ScoringRequest[] = [];
  return {
    add(request) {
      requests.push(request);
      return [];
    },
    finish: () => partition(requests, runLimits),
  };
}

/** Returns the trailing shape of each input without the ragged axis. The datatypes are the model's. */
function signatureOf({ model, inputs }: ScoringRequest): string {
  let signature = '';
  for (const [index, { shape }] of inputs.entries()) {
    const ragged = model.ragged?.inputs[index]?.axis;
    for (let axis = 1; axis < shape.length; axis++) if (axis !== ragged) signature += `${shape[axis]},`;
    signature += ';';
  }
  return signature;
}

const NONE: readonly MicroBatch[] = [];

/**
 * Creates the plan for requests of one model and signature with rows of one shape. Each micro-batch is filled in
 * arrival order with the maximum rows, or the rows that cost least per row. The remaining rows form one micro-batch, or
 * several if allowed sizes or measured costs make them cheaper. A request is cut only if it has more rows than a
 * micro-batch and may be cut.
 *
 * Micro-batches run while later bodies are decoded, so that not all requests are in memory at once. See
 * docs/adr/0009-plans-that-stream-and-plans-that-wait.md for figures.
 *
 * @param sample any request of the group
 */
function createFill(sample: ScoringRequest, runLimits: RunLimits): Plan {
  const { model } = sample;
  const { mayCut } = runLimits;
  const capacity = capacityOf(model, elementsPerRowAt(sample, sample.length), runLimits);
  const isGuess = model.allowedSizes.length < 2 && runLimits.cost === undefined;
  const limits = isGuess ? undefined : limitsByLength(sample, runLimits);
  const max = limits === undefined ? capacity.rows : minPerRow(limits(sample.length).costs);
  const reason = max === capacity.rows ? capacity.reason : 'dearer';
  let parts: Part[] = [];
  let rows = 0;
  const close = (closedBecause: MicroBatch['closedBecause']): readonly MicroBatch[] => {
    if (parts.length === 0) return NONE;
    const batch = microBatchOf(model, parts, closedBecause);
    parts = [];
    rows = 0;
    return [batch];
  };
  return {
    add(request) {
      if (request.rows > max && !mayCut) return [loneMicroBatch(request, reason)];
      let closed = request.rows <= max && rows + request.rows > max ? close(reason) : NONE;
      for (let fromRow = 0; fromRow < request.rows; ) {
        const toRow = Math.min(request.rows, fromRow + max - rows);
        parts.push({ request, fromRow, toRow });
        rows += toRow - fromRow;
        fromRow = toRow;
        if (rows === max) closed = closed.length === 0 ? close(reason) : [...closed, ...close(reason)];
      }
      return closed;
    },
    finish() {
      if (limits === undefined) return close('end');
      const left = parts;
      parts = [];
      rows = 0;
      return partitionParts(left, model, limits);
    },
  };
}

function minPerRow(costs: Float64Array): number {
  const perRow = (rows: number): number => (costs[rows] as number) / rows;
  let min = 1;
  for (let rows = 2; rows < costs.length; rows++) if (perRow(rows) < perRow(min)) min = rows;
  return min;
}

/**
 * Partitions requests of one model and signature into micro-batches at the least total cost, shortest first. A request
 * with more rows than a micro-batch fills its own, and its last rows join others. If it may not be cut, it has its own
 * micro-batch.
 */
function partition(requests: readonly ScoringRequest[], runLimits: RunLimits): MicroBatch[] {
  const [sample] = requests;
  if (sample === undefined) return [];
  const { model } = sample;
  const limits = limitsByLength(sample, runLimits);
  const parts: Part[] = [];
  const batches: MicroBatch[] = [];
  for (const { length, alike } of byLength(requests)) {
    const { rows, reason } = limits(length);
    for (const request of alike) {
      if (request.rows > rows && !runLimits.mayCut) {
        batches.push(loneMicroBatch(request, reason));
        continue;
      }
      let fromRow = 0;
      for (; request.rows - fromRow > rows; fromRow += rows) {
        batches.push(microBatchOf(model, [{ request, fromRow, toRow: fromRow + rows }], reason));
      }
      parts.push({ request, fromRow, toRow: request.rows });
    }
  }
  return [...batches, ...partitionParts(parts, model, limits)];
}

/**
 * Partitions parts that each fit into a micro-batch.
 *
 * @param parts shortest first
 */
function partitionParts(parts: readonly Part[], model: Model, limits: LimitsByLength): MicroBatch[] {
  return minCostPartition(parts, limits).map(({ start, end }) => {
    const taken = parts.slice(start, end);
    return microBatchOf(model, taken, reasonOf(taken, parts[end], model, limits));
  });
}

/** Groups requests by length, shortest first, in arrival order. There are far fewer lengths than requests. */
function byLength(
  requests: readonly ScoringRequest[],
): { readonly length: number; readonly alike: readonly ScoringRequest[] }[] {
  const known = new Map<number, ScoringRequest[]>();
  for (const request of requests) {
    const alike = known.get(request.length);
    if (alike === undefined) known.set(request.length, [request]);
    else alike.push(request);
  }
  return [...known].map(([length, alike]) => ({ length, alike })).toSorted((a, b) => a.length - b.length);
}

/** @param taken shortest first @param next the first part after them */
function reasonOf(taken: readonly Part[], next: Part | undefined, model: Model, limits: LimitsByLength): CloseReason {
  const rows = taken.reduce((sum, { fromRow, toRow }) => sum + toRow - fromRow, 0);
  const own = limits((taken.at(-1) as Part).request.length);
  if (rows === own.rows) return own.reason;
  if (next === undefined) return 'end';
  const withNext = limits(next.request.length);
  const rowsWithNext = rows + next.toRow - next.fromRow;
  if (rowsWithNext > withNext.rows) return withNext.reason;
  const isPadded = paddedRowsOf(model, rowsWithNext) > rowsWithNext;
  return !isPadded && costsMoreARow(own, rows, rowsWithNext) ? 'dearer' : 'padding';
}

/** Returns true if more rows of the same length would cost more per row. */
function costsMoreARow({ costs }: LimitsAtLength, rows: number, more: number): boolean {
  return (costs[more] as number) / more > (costs[rows] as number) / rows;
}

interface Cut {
  readonly start: number;
  readonly end: number;
}

/**
 * Finds the least-cost partition of parts sorted by length, shortest first, by exact dynamic programming.
 *
 * A longer run never costs less. So, for single rows, some least-cost partition has only micro-batches of neighbours in
 * order of length, and the result is exact: `minCost[i]`, the cost of the first `i` parts, is the minimum of
 * `minCost[j]` plus the cost of a last micro-batch `j + 1 … i`. Among equal costs the smallest last micro-batch wins,
 * which fills the others. O(n · maxBatchRows): 10,000 texts in runs of up to 512 rows take about 20 ms.
 */
function minCostPartition(parts: readonly Part[], limits: LimitsByLength): Cut[] {
  const rowsBefore = new Int32Array(parts.length + 1);
  const minCost = new Float64Array(parts.length + 1);
  /** Start of the last micro-batch in the least-cost partition of the first `i` parts. */
  const startOfLast = new Int32Array(parts.length + 1);
  let earliest = 0;
  for (const [index, { request, fromRow, toRow }] of parts.entries()) {
    const { rows, costs } = limits(request.length);
    const end = index + 1;
    const rowsToEnd = (rowsBefore[index] as number) + toRow - fromRow;
    rowsBefore[end] = rowsToEnd;
    // Longer micro-batches hold no more rows, so the earliest start only grows. A part alone always fits.
    while (earliest < index && rowsToEnd - (rowsBefore[earliest] as number) > rows) earliest += 1;
    let min = Number.POSITIVE_INFINITY;
    for (let start = earliest; start < end; start++) {
      const cost = (minCost[start] as number) + (costs[rowsToEnd - (rowsBefore[start] as number)] as number);
      if (cost > min) continue;
      min = cost;
      startOfLast[end] = start;
    }
    minCost[end] = min;
  }
  const cuts: Cut[] = [];
  for (let end = parts.length; end > 0; end = startOfLast[end] as number)
    cuts.push({ start: startOfLast[end] as number, end });
  return cuts.reverse();
}

interface LimitsAtLength {
  /** Maximum number of rows, at least one. With allowed sizes, the largest one. */
  readonly rows: number;
  readonly reason: 'full' | 'budget';
  /** Cost of a run by its number of rows, from 1 to `rows`. */
  readonly costs: Float64Array;
}

type LimitsByLength = (length: number) => LimitsAtLength;

function limitsByLength(sample: ScoringRequest, runLimits: RunLimits): LimitsByLength {
  const { model } = sample;
  const known = new Map<number, LimitsAtLength>();
  return (length) => {
    const paddedLength = paddedLengthOf(model, length);
    const found = known.get(paddedLength);
    if (found !== undefined) return found;
    const elementsPerRow = elementsPerRowAt(sample, paddedLength);
    const capacity = capacityOf(model, elementsPerRow, runLimits);
    const cost = runLimits.cost ?? affineCost(() => elementsPerRow);
    const limits = { ...capacity, costs: costsOf(model, cost, capacity.rows, paddedLength) };
    known.set(paddedLength, limits);
    return limits;
  };
}

interface KnownCosts {
  readonly cost: Cost;
  /** Costs by rows and padded length. */
  readonly arrays: Map<string, Float64Array>;
}

/** Costs by model, for its latest cost. Computing them for 512 rows takes 60 µs, too much for a lone message. */
const costsByModel = new WeakMap<Model, KnownCosts>();
const MOST_KNOWN_COSTS = 64;

function costsOf(model: Model, cost: Cost, rows: number, paddedLength: number): Float64Array {
  let known = costsByModel.get(model);
  if (known?.cost !== cost || known.arrays.size >= MOST_KNOWN_COSTS) known = { cost, arrays: new Map() };
  costsByModel.set(model, known);
  const key = `${rows}x${paddedLength}`;
  const costs = known.arrays.get(key) ?? computeCosts(model, cost, rows, paddedLength);
  known.arrays.set(key, costs);
  return costs;
}

function computeCosts(model: Model, cost: Cost, rows: number, paddedLength: number): Float64Array {
  const costs = new Float64Array(rows + 1);
  let paddedRows = 0;
  let ofSize = 0;
  for (let count = 1; count <= rows; count++) {
    if (count > paddedRows) {
      paddedRows = paddedRowsOf(model, count);
      ofSize = cost(paddedRows, paddedLength);
    }
    costs[count] = ofSize;
  }
  return costs;
}

/** Returns the maximum rows of a run, at least 1, or the largest allowed size that fits. */
export function capacityOf(
  { maxBatchRows, allowedSizes }: Model,
  elementsPerRow: number,
  { maxElements }: { readonly maxElements: number },
): { readonly rows: number; readonly reason: 'full' | 'budget' } {
  const affordable = Math.max(1, Math.floor(maxElements / elementsPerRow));
  const reason = affordable < maxBatchRows ? 'budget' : 'full';
  const rows = Math.min(maxBatchRows, affordable);
  if (allowedSizes.length === 0) return { rows, reason };
  return { rows: allowedSizes.findLast((size) => size <= rows) ?? (allowedSizes[0] as number), reason };
}
