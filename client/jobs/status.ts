import type { z } from 'zod';
import {
  FAILURE,
  failureKey,
  headKey,
  JOB_HEAD,
  MANIFEST,
  manifestKey,
  parseObject,
  reportKeys,
} from '../../lambda/jobs/jobObjects.ts';
import type { FailedPiece, JobStorage } from '../../lambda/jobs/jobTypes.ts';
import type { Execution } from './execution.ts';

/** How a job stands. */
export interface JobStatus {
  readonly job: string;
  /** `done`: every row has its result, save those of `failedParts`. `failed` and `cancelled` jobs can be resumed. */
  readonly state: 'running' | 'done' | 'failed' | 'cancelled';
  /** `s3://bucket/key` of the input, and of the folder with what is written. */
  readonly input: string;
  readonly output: string;
  /** Pieces that are scored, and all; undefined before the job is planned, and where only reading it all would tell. */
  readonly pieces: { readonly done: number; readonly all: number | undefined } | undefined;
  /** Of a job that is done. */
  readonly rows?: number | undefined;
  /** Error results by code, of a job that is done. */
  readonly errors?: Readonly<Record<string, number>> | undefined;
  readonly failedParts?: readonly FailedPiece[] | undefined;
  /** Why it failed. */
  readonly code?: string | undefined;
  readonly message?: string | undefined;
}

const STATES = { RUNNING: 'running', SUCCEEDED: 'done', ABORTED: 'cancelled' } as const;

export async function statusOf(storage: JobStorage, { start, status, error, cause }: Execution): Promise<JobStatus> {
  const { job, bucket, key, folder } = start;
  const state = STATES[status as keyof typeof STATES] ?? 'failed';
  const about = { job, state, input: `s3://${bucket}/${key}`, output: `s3://${bucket}/${folder}` };
  const pieces = await piecesOf(storage, folder);
  if (state === 'done') {
    const manifest = await parsed(storage, manifestKey(folder), MANIFEST);
    if (manifest === undefined)
      throw new Error(`${about.output}: expected the manifest of a job that is done, got none`);
    const { rows, errors, failedParts } = manifest;
    return { ...about, pieces, rows, errors, failedParts };
  }
  if (state === 'running') return { ...about, pieces };
  const said = await parsed(storage, failureKey(folder), FAILURE);
  return { ...about, pieces, code: said?.code ?? error ?? status, message: said?.message ?? cause };
}

async function piecesOf(storage: JobStorage, folder: string): Promise<JobStatus['pieces']> {
  const head = await parsed(storage, headKey(folder), JOB_HEAD);
  if (head === undefined) return undefined;
  let done = 0;
  for await (const _ of storage.list(reportKeys(folder))) done += 1;
  return { done, all: head.pieces };
}

async function parsed<T>(storage: JobStorage, key: string, schema: z.ZodType<T>): Promise<T | undefined> {
  const text = await storage.get(key);
  return text === undefined ? undefined : parseObject(schema, text, key);
}
