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
}

export interface Started {
  readonly start: JobStart;
  /** False: it is the job that was started before for the same object, in the same way. */
  readonly isNew: boolean;
}

/** Starts the job of an object. The same version, asked for in the same way, is one job however often this is called. */
export async function startJob(
  input: JobInput,
  { spec, outputPrefix, concurrency }: StartOptions,
  executions: Executions,
): Promise<Started> {
  const job = jobId(input, spec);
  const start: JobStart = { ...input, job, run: 1, folder: `${outputPrefix}${job}/`, concurrency, spec };
  return { start, isNew: await executions.start(job, start) };
}
