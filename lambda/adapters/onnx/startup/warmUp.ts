import { messageOf } from '../../../core/contract/failure.ts';
import { type MeasuredRun, type Model, RunAbandonedError, type RunResult } from '../../../core/contract/model.ts';
import { allocate } from '../../../core/tensor/datatype.ts';
import { elementCount, type Tensor } from '../../../core/tensor/tensor.ts';
import { checkPadding } from './checkPadding.ts';

/** Sizes of symbolic axes by name; `true` is 1 for each, `false` is no warm-up. */
export type WarmUpSizes = boolean | Readonly<Record<string, number>>;

export interface WarmUpResult {
  /** The model as it can really be run. */
  readonly model: Model;
  /** What its runs took: the faster of two where they are short, as the first run of a shape is slow. */
  readonly measured: readonly MeasuredRun[];
  /** Set when the model declares its batch axis dynamic and yet runs at this size only. */
  readonly bakedRows?: number;
  /** What kept the warm-up from being complete, and what to do. */
  readonly problem?: string;
}

/** A run that takes longer than this in a warm-up is taken for one that never ends. */
const RUN_LIMIT_MS = 60_000;

/** A run that takes less is measured again. */
const SHORT_RUN_MS = 50;

/**
 * Runs the model on zeros at every rung, or at 1 and 2 rows where it has no ladder: the first run of a shape is
 * slow, and an axis that is dynamic in name only fails at 2 rows. Checks that padding changes no answer.
 *
 * @throws Error when an output has no batch axis, a size names no axis of the model, padding changes an answer, or a run
 *   does not end
 */
export async function warmUp(model: Model, sizes: WarmUpSizes, runLimitMs = RUN_LIMIT_MS): Promise<WarmUpResult> {
  const measured: MeasuredRun[] = [];
  if (sizes === false) return { model, measured };
  refuseUnknownAxes(model, sizes);
  const limited: Model = { ...model, run: (inputs) => model.run(inputs, AbortSignal.timeout(runLimitMs)) };
  try {
    const found = await runEveryRung(limited, sizes, measured);
    return { ...found, model: { ...found.model, run: model.run }, measured };
  } catch (error) {
    if (!(error instanceof RunAbandonedError)) throw error;
    throw new Error(
      `expected a warm-up run on zeros to end within ${runLimitMs / 1000} s, it did not; give other sizes of its ` +
        'symbolic axes as "warmup" in config.json, or "warmup": false',
      { cause: error },
    );
  }
}

async function runEveryRung(
  model: Model,
  sizes: WarmUpSizes,
  measured: MeasuredRun[],
): Promise<Omit<WarmUpResult, 'measured'>> {
  const [smallest = 1, ...others] =
    model.ladder.length > 0 ? model.ladder : [1, ...(model.maxBatchRows > 1 ? [2] : [])];

  const failedAtSmallest = await tryRun(model, smallest, sizes, measured);
  if (failedAtSmallest !== undefined) {
    const hint = 'give the sizes of its symbolic axes as "warmup" in config.json, or "warmup": false';
    return { model, problem: `warm-up with ${smallest} rows of zeros failed: ${failedAtSmallest}; ${hint}` };
  }
  for (const rows of others) {
    const failedReason = await tryRun(model, rows, sizes, measured);
    if (failedReason === undefined) continue;
    if (smallest === 1 && model.ladder.length === 0) {
      const alone = { ...model, maxBatchRows: 1, ladder: [1] };
      const unchecked = await tryPadding(alone, sizes);
      const problem = `with 2 rows: ${failedReason}${unchecked === undefined ? '' : `; ${unchecked}`}`;
      return { model: alone, bakedRows: 1, problem };
    }
    throw new Error(`expected the model to run at ${rows} rows, a rung of its ladder, got: ${failedReason}`);
  }
  const problem = await tryPadding(model, sizes);
  return problem === undefined ? { model } : { model, problem };
}

/** Why padding could not be checked, or undefined. */
async function tryPadding(model: Model, sizes: WarmUpSizes): Promise<string | undefined> {
  if (model.ragged === undefined) return undefined;
  return checkPadding(model, model.ragged, typeof sizes === 'boolean' ? {} : sizes);
}

function refuseUnknownAxes(model: Model, sizes: WarmUpSizes): void {
  if (typeof sizes === 'boolean') return;
  const axes = new Set(model.inputs.flatMap(({ shape }) => shape.slice(1)).filter((dim) => typeof dim === 'string'));
  const unknown = Object.keys(sizes).filter((name) => !axes.has(name));
  if (unknown.length > 0) {
    throw new Error(
      `config.json, warmup: expected symbolic axes of the model (${[...axes].join(', ') || 'it has none'}), got ${unknown.join(', ')}`,
    );
  }
}

/** Why a run failed, or undefined. Enters what the runs took in `measured`. */
async function tryRun(
  model: Model,
  rows: number,
  sizes: WarmUpSizes,
  measured: MeasuredRun[],
): Promise<string | undefined> {
  for (const sizesOfRung of sizesOfRungs(model, sizes)) {
    const first = await runOnZeros(model, rows, sizesOfRung);
    if (typeof first === 'string') return first;
    refuseUnbatched(first.outputs, rows);
    const second = first.runMs < SHORT_RUN_MS ? await runOnZeros(model, rows, sizesOfRung) : first;
    if (typeof second === 'string') return second;
    const length = model.ragged === undefined ? 1 : sizeOf(model.ragged.name, sizesOfRung);
    measured.push({ rows, length, ms: Math.min(first.runMs, second.runMs) });
  }
  return undefined;
}

/** The sizes, once for every rung of the ragged axis. */
function sizesOfRungs({ ragged }: Model, sizes: WarmUpSizes): WarmUpSizes[] {
  if (ragged === undefined || ragged.ladder.length === 0) return [sizes];
  const others = typeof sizes === 'boolean' ? {} : sizes;
  return ragged.ladder.map((length) => ({ ...others, [ragged.name]: length }));
}

function refuseUnbatched(outputs: readonly Tensor[], rows: number): void {
  const unbatched = outputs.find(({ shape }) => shape[0] !== rows);
  if (unbatched === undefined) return;
  throw new Error(
    `output '${unbatched.name}': expected axis 0 to be the batch axis, ${rows} rows, got shape ` +
      `[${unbatched.shape.join(', ')}]; export the model so that every output keeps the batch axis`,
  );
}

/** What the run gave, or why it failed. */
async function runOnZeros(model: Model, rows: number, sizes: WarmUpSizes): Promise<RunResult | string> {
  const inputs = model.inputs.map((spec): Tensor => {
    const trailing = spec.shape.slice(1).map((dim) => sizeOf(dim, sizes));
    const shape = [rows, ...trailing];
    return { name: spec.name, datatype: spec.datatype, shape, data: allocate(spec.datatype, elementCount(shape)) };
  });
  try {
    return await model.run(inputs);
  } catch (error) {
    if (error instanceof RunAbandonedError) throw error;
    return messageOf(error);
  }
}

function sizeOf(dim: number | string, sizes: WarmUpSizes): number {
  if (typeof dim === 'number') return dim;
  return typeof sizes === 'boolean' ? 1 : (sizes[dim] ?? 1);
}
