import { messageOf } from '../../../core/contract/failure.ts';
import {
  axisInModel,
  type MeasuredRun,
  type Model,
  RunAbandonedError,
  type RunResult,
  shapeInModel,
  type TensorSpec,
} from '../../../core/contract/model.ts';
import { allocate } from '../../../core/tensor/datatype.ts';
import { elementCount, type Tensor } from '../../../core/tensor/tensor.ts';

/** Sizes of symbolic axes by name; `true` is 1 for each, `false` is no warm-up. */
export type WarmUpSizes = boolean | Readonly<Record<string, number>>;

export interface WarmUpResult {
  /** The model as it can really be run. */
  readonly model: Model;
  /** What its runs took: the faster of two where they are short, as the first run of a shape is slow. */
  readonly measured: readonly MeasuredRun[];
  /** The sizes of symbolic axes, by name, that it ran at; undefined where it did not run, or was not asked to. */
  readonly sizes?: AxisSizes | undefined;
  /** Set when the model declares its batch axis dynamic and yet runs at this size only. */
  readonly bakedRows?: number;
  /** What kept the warm-up from being complete, and what to do. */
  readonly problem?: string;
}

export type AxisSizes = Readonly<Record<string, number>>;

/** A run that takes less is measured again. */
const SHORT_RUN_MS = 50;

/** What axes without a size are tried at, one after the other, until the model runs. */
const SIZES = [1, 4, 32, 128];
/** Of the inputs of such a run: several open axes of the larger sizes together are more than fits into memory. */
const MOST_ELEMENTS = 4_194_304;

/** What is tried where a model does not run at 1 row: it may be baked to one of these. */
const BAKED_ROWS = [2, 4, 8, 16, 32, 64];

/**
 * Runs the model on zeros at every rung, or at 1 and 2 rows where it has no ladder: the first run of a shape is
 * slow, and an axis that is dynamic in name only fails at 2 rows.
 *
 * @throws Error when an output has no batch axis, a size names no axis of the model, or a run does not end
 */
export async function warmUp(model: Model, sizes: WarmUpSizes): Promise<WarmUpResult> {
  const measured: MeasuredRun[] = [];
  if (sizes === false) return { model, measured };
  refuseUnknownAxes(model, sizes);
  return { ...(await runEveryRung(model, sizes === true ? {} : sizes, measured)), measured };
}

async function runEveryRung(
  model: Model,
  given: AxisSizes,
  measured: MeasuredRun[],
): Promise<Omit<WarmUpResult, 'measured'>> {
  const [smallest = 1, ...others] =
    model.ladder.length > 0 ? model.ladder : [1, ...(model.maxBatchRows > 1 ? [2] : [])];
  const found = await findSizes(model, smallest, given, measured);
  if ('reason' in found) {
    const baked = smallest === 1 && model.ladder.length === 0 ? await findBakedRows(model, given, measured) : undefined;
    if (baked !== undefined) return baked;
    const hint = 'give the sizes of its symbolic axes as "warmup" in config.json, or "warmup": false';
    return { model, problem: `warm-up with ${smallest} rows of zeros failed: ${found.reason}; ${hint}` };
  }
  const { sizes } = found;
  for (const rows of others) {
    const reason = await tryRun(model, rows, sizes, measured);
    if (reason === undefined) continue;
    if (smallest === 1 && model.ladder.length === 0) {
      return {
        model: { ...model, maxBatchRows: 1, ladder: [1] },
        sizes,
        bakedRows: 1,
        problem: `with 2 rows: ${reason}`,
      };
    }
    throw new Error(`expected the model to run at ${rows} rows, a rung of its ladder, got: ${reason}`);
  }
  return { model, sizes };
}

/** The sizes at which it runs, or why it did not at the first of them. */
async function findSizes(
  model: Model,
  rows: number,
  given: AxisSizes,
  measured: MeasuredRun[],
): Promise<{ readonly sizes: AxisSizes } | { readonly reason: string }> {
  const open = symbolicAxes(model).filter((name) => given[name] === undefined);
  let first: string | undefined;
  for (const size of open.length === 0 ? [1] : SIZES) {
    const sizes = { ...Object.fromEntries(open.map((name) => [name, size])), ...given };
    if (size > 1 && elementsAt(model, rows, sizes) > MOST_ELEMENTS) break;
    const reason = await tryRun(model, rows, sizes, measured);
    if (reason === undefined) return { sizes };
    first ??= reason;
  }
  return { reason: first ?? '' };
}

/** A model whose axis 0 is dynamic in name only: it runs at one row count, and not at twice that. */
async function findBakedRows(
  model: Model,
  given: AxisSizes,
  measured: MeasuredRun[],
): Promise<Omit<WarmUpResult, 'measured'> | undefined> {
  for (const rows of BAKED_ROWS.filter((count) => count <= model.maxBatchRows)) {
    const found = await findSizes(model, rows, given, measured);
    if ('reason' in found) continue;
    const { sizes } = found;
    if ((await tryRun(model, 2 * rows, sizes, [])) === undefined) return undefined;
    return { model: { ...model, maxBatchRows: rows, ladder: [rows] }, sizes, bakedRows: rows };
  }
  return undefined;
}

function elementsAt(model: Model, rows: number, sizes: AxisSizes): number {
  return model.inputs.reduce((sum, spec) => sum + elementCount(shapeAt(spec, rows, sizes)), 0);
}

function shapeAt({ shape }: TensorSpec, rows: number, sizes: AxisSizes): number[] {
  return [rows, ...shape.slice(1).map((dim) => (typeof dim === 'number' ? dim : (sizes[dim] ?? 1)))];
}

function symbolicAxes({ inputs }: Model): string[] {
  const names = inputs.flatMap(({ shape }) => shape.slice(1)).filter((dim) => typeof dim === 'string');
  return [...new Set(names)];
}

function refuseUnknownAxes(model: Model, sizes: WarmUpSizes): void {
  if (typeof sizes === 'boolean') return;
  const axes = symbolicAxes(model);
  const unknown = Object.keys(sizes).filter((name) => !axes.includes(name));
  if (unknown.length > 0) {
    throw new Error(
      `config.json, warmup: expected symbolic axes of the model (${axes.join(', ') || 'it has none'}), got ${unknown.join(', ')}`,
    );
  }
}

/** Why a run failed, or undefined. Enters what the runs took in `measured`. */
async function tryRun(
  model: Model,
  rows: number,
  sizes: AxisSizes,
  measured: MeasuredRun[],
): Promise<string | undefined> {
  for (const sizesOfRung of sizesOfRungs(model, sizes)) {
    const first = await runOnZeros(model, rows, sizesOfRung);
    if (typeof first === 'string') return first;
    refuseUnbatched(model, first.outputs, rows);
    const second = first.runMs < SHORT_RUN_MS ? await runOnZeros(model, rows, sizesOfRung) : first;
    if (typeof second === 'string') return second;
    const length = model.ragged === undefined ? 1 : (sizesOfRung[model.ragged.name] ?? 1);
    measured.push({ rows, length, ms: Math.min(first.runMs, second.runMs) });
  }
  return undefined;
}

/** The sizes, once for every rung of the ragged axis. */
function sizesOfRungs({ ragged }: Model, sizes: AxisSizes): AxisSizes[] {
  if (ragged === undefined || ragged.ladder.length === 0) return [sizes];
  return ragged.ladder.map((length) => ({ ...sizes, [ragged.name]: length }));
}

function refuseUnbatched({ outputs: specs }: Model, outputs: readonly Tensor[], rows: number): void {
  for (const [index, { name, shape }] of outputs.entries()) {
    if (shape[0] === rows) continue;
    const spec = specs[index] as TensorSpec;
    throw new Error(
      `output '${name}': expected axis ${axisInModel(spec, 0)} to be the batch axis, ${rows} rows, got shape ` +
        `[${shapeInModel(spec, shape).join(', ')}]; export the model so that every output keeps the batch axis, leave ` +
        `out those that have none, or name the axis that it is as "batchAxis": {"${name}": …} in config.json`,
    );
  }
}

/** What the run gave, or why it failed. */
async function runOnZeros(model: Model, rows: number, sizes: AxisSizes): Promise<RunResult | string> {
  const inputs = model.inputs.map((spec): Tensor => {
    const shape = shapeAt(spec, rows, sizes);
    return { name: spec.name, datatype: spec.datatype, shape, data: allocate(spec.datatype, elementCount(shape)) };
  });
  try {
    return await model.run(inputs);
  } catch (error) {
    if (error instanceof RunAbandonedError) throw error;
    return messageOf(error);
  }
}
