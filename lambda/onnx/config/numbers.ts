import { z } from 'zod';
import { type Range, wholeNumberIn } from '../../core/limits.ts';

/* Numbers of a JSON file, which say in plain words what is expected. */

export function whole(range: Range) {
  const error = `expected ${wholeNumberIn(range)}`;
  return z.int({ error }).min(range.least, { error }).max(range.most, { error });
}

/** Such as the number of an axis, or its size. */
export function atLeast(least: number) {
  const error = `expected a whole number of at least ${least}`;
  return z.int({ error }).min(least, { error });
}

/** At least one, each once. @param of what they are, such as `numbers of cards` */
export function distinct<T extends z.ZodType>(item: T, of: string) {
  const error = `expected an array of ${of}`;
  return z
    .array(item, { error })
    .min(1, { error: `${error} with at least one` })
    .refine((list) => new Set(list).size === list.length, { error: `${error}, each once` });
}
