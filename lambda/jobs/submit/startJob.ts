import { randomUUID } from 'node:crypto';
import type { JobInput, JobStart, Spec } from '../../core/job/words.ts';
import { jobId } from '../jobId.ts';

/** Starts executions of the state machine of jobs. */
export interface Executions {
  /** @returns false when an execution of that name was started before */
  start(name: string, input: JobStart): Promise<boolean>;
}

export interface StartOptions {
  readonly spec: Spec;
  /** Each job has a folder of its own under it; it ends in `/`. */
  readonly outputPrefix: string;
  readonly concurrency: number;
  /** Whether this is a new job, though the same was asked for before. @default false */
  readonly again?: boolean | undefined;
}

export interface Started {
  readonly start: JobStart;
  /** False: it is the job that was started before for the same object, in the same way. */
  readonly isNew: boolean;
}

/**
 * An execution is started with at most 256 KiB, and what each state gives the next has no more: the plan and an error
 * need some of it.
 *
 * @see https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
 */
const MOST_START_BYTES = 200 * 1024;

/** Starts the job of an object. The same version, asked for in the same way, is one job however often this is called, unless it is to be scored again. @throws Error when it asks for too much */
export async function startJob(
  input: JobInput,
  { spec, outputPrefix, concurrency, again = false }: StartOptions,
  executions: Executions,
): Promise<Started> {
  const job = jobId(input, spec, again ? randomUUID() : undefined);
  const start: JobStart = { ...input, job, run: 1, folder: `${outputPrefix}${job}/`, concurrency, spec };
  const bytes = Buffer.byteLength(JSON.stringify(start));
  if (bytes > MOST_START_BYTES) {
    throw new Error(
      `job: expected what is asked for to come to at most ${MOST_START_BYTES} bytes, got ${bytes}; ` +
        'name fewer columns, or shorter ones: their names are the most of it',
    );
  }
  return { start, isNew: await executions.start(job, start) };
}
