import { isFailure, isTransient } from '../../core/failure.ts';
import { piecesOf } from '../../core/job/cut.ts';
import { formatOf, KNOWN_ENDINGS } from '../../core/job/format.ts';
import { headKey, planKey } from '../../core/job/keys.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import { type Format, JobError, type JobHead, type JobStart, type Part } from '../../core/job/words.ts';
import type { Model, ModelRepository } from '../../core/model.ts';
import { layOut } from './layOut.ts';
import { linesOfPlan, readHead, readParts } from './planObjects.ts';
import { planWhatIsMissing } from './resume.ts';

export interface PlanEvent {
  readonly action: 'plan';
  readonly start: JobStart;
}

export interface PlanAnswer {
  /** Of the object with one part a line. */
  readonly planKey: string;
  readonly parts: number;
  /** Null where only reading it all would tell. */
  readonly pieces: number | null;
}

export interface PlanDependencies {
  readonly storage: JobStorage;
  readonly models: ModelRepository;
  readonly partBytes: number;
  readonly pieceBytes: number;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/**
 * Writes down how a job's input is cut, once: a call that is made again finds the plan of the first. Of a resumed job it
 * lists the pieces that have no report.
 *
 * @throws JobError when the input, the model and what is asked for do not fit each other
 */
export async function planJob({ start }: PlanEvent, deps: PlanDependencies): Promise<PlanAnswer> {
  const { folder, run } = start;
  const head = (await readHead(deps.storage, folder)) ?? (await createHead(start, deps));
  const key = planKey(folder, run);
  if (run > 1) await planWhatIsMissing(deps.storage, folder, head, run);
  const parts = await readParts(deps.storage, key);
  return { planKey: key, parts: parts.length, pieces: sumOf(parts, head.pieceBytes) };
}

async function createHead(start: JobStart, { storage, models, partBytes, pieceBytes, now }: PlanDependencies) {
  const { job, bucket, key, etag, bytes, folder, spec } = start;
  const lies = formatOf(key, spec);
  if (lies === undefined) {
    throw new JobError(
      'INVALID_JOB',
      `${key}: expected a key that ends in ${KNOWN_ENDINGS}; rename it, or say the format`,
    );
  }
  if (lies.format === 'jsonl') refuseColumns(start, lies.format);
  const model = await findModel(models, start);
  const input = { bucket, key, etag, bytes };
  const { parts, ...found } = await layOut(storage, input, { ...lies, spec, model, partBytes, pieceBytes });
  const head: JobHead = {
    ...input,
    ...lies,
    ...found,
    job,
    model: model.name,
    version: model.version,
    partBytes,
    pieceBytes,
    parts: parts.length,
    pieces: sumOf(parts, pieceBytes) ?? undefined,
    keep: spec.keep ?? [],
    plannedAt: new Date(now()).toISOString(),
  };
  // The head is put last: where there is one, there is a plan.
  await storage.put(planKey(folder, 1), linesOfPlan(parts));
  await storage.put(headKey(folder), JSON.stringify(head));
  return head;
}

function refuseColumns({ key, spec }: JobStart, format: Format): void {
  if (spec.inputs === undefined && spec.keep === undefined) return;
  throw new JobError(
    'INVALID_JOB',
    `${key}: expected inputs and keep only with CSV and Parquet, which have columns, got them with ${format}; ` +
      'leave them out: each line is a request as it is',
  );
}

async function findModel(models: ModelRepository, { spec }: JobStart): Promise<Model> {
  const model = await models.find(spec.model, spec.version);
  if (!isFailure(model)) return model;
  if (isTransient(model)) throw new Error(model.message);
  throw new JobError('INVALID_JOB', model.message);
}

function sumOf(parts: readonly Part[], pieceBytes: number): number | null {
  let sum = 0;
  for (const part of parts) {
    const pieces = part.only?.length ?? piecesOf(part, pieceBytes);
    if (pieces === undefined) return null;
    sum += pieces;
  }
  return sum;
}
