import { dataKey } from '../../core/job/keys.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import { ANSWERED, parseObject } from '../schemas.ts';

/** Which piece of which job. */
export interface Place {
  readonly folder: string;
  readonly part: number;
  readonly piece: number;
}

/** Results of a piece that lie in data objects: of its first row and those that follow it. */
export interface Standing {
  readonly rows: number;
  /** Error results by code. */
  readonly errors: Readonly<Record<string, number>>;
  readonly bytes: number;
  readonly objects: number;
}

export const NOTHING: Standing = { rows: 0, errors: {}, bytes: 0, objects: 0 };

/**
 * What calls before this one have put of a piece. An object's key says which row it begins with, and what is said about
 * it how many it has: so they follow each other, whichever calls have put them.
 */
export async function readStanding(storage: JobStorage, { folder, part, piece }: Place): Promise<Standing> {
  for (let standing = NOTHING; ; ) {
    const key = dataKey(folder, part, piece, standing.rows);
    const there = await storage.look(key);
    if (there === undefined) return standing;
    const { rows, errors } = parseObject(ANSWERED, there.about, key);
    standing = sumOf(standing, { rows, errors, bytes: there.bytes, objects: 1 });
  }
}

export function sumOf(one: Standing, other: Standing): Standing {
  const errors = { ...one.errors };
  for (const [code, count] of Object.entries(other.errors)) errors[code] = (errors[code] ?? 0) + count;
  return {
    rows: one.rows + other.rows,
    errors,
    bytes: one.bytes + other.bytes,
    objects: one.objects + other.objects,
  };
}
