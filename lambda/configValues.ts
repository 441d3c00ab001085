import { z } from 'zod';
import { EXPECTED_KEY_PREFIX, isKeyPrefix } from './core/contract/objectKeys.ts';
import { FILL, type RangeWithDefault } from './limits/configuration.ts';
import type { Range } from './limits/range.ts';

/* What the text of an environment variable may be, and what becomes of it. */

/** Empty text is no number, though JavaScript takes it for 0. */
export const count = ({ least, most }: Range) =>
  z.string().trim().min(1).transform(Number).pipe(z.number().int().min(least).max(most));

/** Fractions, too. */
export const amount = ({ least, most }: Range) =>
  z.string().trim().min(1).transform(Number).pipe(z.number().min(least).max(most));

export const countOrDefault = (range: RangeWithDefault) => count(range).default(range.default);

export const countOrFill = (range: RangeWithDefault) =>
  z
    .union([z.literal(FILL), count(range)], {
      error: `expected a whole number from ${range.least} to ${range.most}, or '${FILL}'`,
    })
    .default(range.default);

export const flag = (fallback: boolean) =>
  z
    .enum(['true', 'false'])
    .default(fallback ? 'true' : 'false')
    .transform((text) => text === 'true');

export const keyPrefix = z.string().refine(isKeyPrefix, { error: EXPECTED_KEY_PREFIX }).optional();

export const commaSeparated = (list: string): string[] => list.split(',').map((name) => name.trim());
