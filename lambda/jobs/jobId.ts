import { createHash } from 'node:crypto';
import type { JobInput, Spec } from '../core/job/words.ts';

/**
 * Names a job by what it scores: the same version of an object, asked for in the same way, is one job however often it
 * is submitted. It is the name of an execution, of which Step Functions takes 80 characters.
 *
 * @param again something of its own for each job that scores what was scored before
 * @returns 32 hexadecimal digits
 * @see https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html
 */
export function jobId({ bucket, key, etag }: Omit<JobInput, 'bytes'>, spec: Spec, again?: string): string {
  const { model, version, format, compression, inputs, keep } = spec;
  const columns = inputs === undefined ? undefined : Object.entries(inputs).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const asked = [bucket, key, unquoted(etag), model, version, format, compression, columns, keep];
  const text = JSON.stringify(again === undefined ? asked : [...asked, again]);
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}

/** S3 quotes an ETag in its answers, and does not in its events. */
function unquoted(etag: string): string {
  return etag.replace(/^"|"$/g, '');
}
