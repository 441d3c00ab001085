import { headKey } from '../../core/job/keys.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import type { JobHead, Part } from '../../core/job/words.ts';
import { JOB_HEAD, PART, parseObject } from '../schemas.ts';

/** One part a line, as a distributed map reads them. */
export function linesOfPlan(parts: readonly Part[]): string {
  return parts.map((part) => `${JSON.stringify(part)}\n`).join('');
}

/** What planning found out; undefined before. */
export async function readHead(storage: JobStorage, folder: string): Promise<JobHead | undefined> {
  const text = await storage.get(headKey(folder));
  return text === undefined ? undefined : parseObject(JOB_HEAD, text, headKey(folder));
}

/** @throws Error when there is no plan */
export async function readParts(storage: JobStorage, key: string): Promise<Part[]> {
  const text = await storage.get(key);
  if (text === undefined) throw new Error(`${key}: expected the plan of a job, got no object; submit it again`);
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => parseObject(PART, line, key));
}
