import { z } from 'zod';
import { FILL, type Range, type RangeWithDefault, wholeNumberIn } from './core/limits.ts';
import { EXPECTED_KEY_PREFIX, isKeyPrefix } from './core/places.ts';

/* What the text of an environment variable may be, and what becomes of it. Each says in its own words what it expects. */

/** A whole number. */
export const count = (range: Range, error = `expected ${wholeNumberIn(range)}`) =>
  numberIn(range, Number.isInteger, error);

/** Fractions, too. */
export const amount = (range: Range) =>
  numberIn(range, Number.isFinite, `expected a number from ${range.least} to ${range.most}`);

/** Empty text is no number, though JavaScript takes it for 0. */
const numberIn = ({ least, most }: Range, isOne: (value: number) => boolean, error: string) =>
  z
    .string({ error })
    .transform((text) => (text.trim() === '' ? Number.NaN : Number(text)))
    .refine((value) => isOne(value) && value >= least && value <= most, { error });

export const countOrDefault = (range: RangeWithDefault) => count(range).default(range.default);

export const countOrFill = (range: RangeWithDefault) => {
  const error = `expected ${wholeNumberIn(range)}, or '${FILL}'`;
  return z.union([z.literal(FILL), count(range, error)], { error }).default(range.default);
};

export const flag = (fallback: boolean) =>
  oneOf(['true', 'false'])
    .default(fallback ? 'true' : 'false')
    .transform((text) => text === 'true');

export const oneOf = <const T extends readonly string[]>(values: T) =>
  z.enum(values, {
    error: `expected ${values.length > 2 ? 'one of ' : ''}${values.join(values.length > 2 ? ', ' : ' or ')}`,
  });

/** @param what the text is, such as `the name of a model` */
export const text = (what: string) => z.string({ error: `expected ${what}` }).min(1, { error: `expected ${what}` });

/** The URL of an SQS queue. */
export const queueUrl = z.url({ error: 'expected the URL of an SQS queue' });

export const keyPrefix = z.string().refine(isKeyPrefix, { error: EXPECTED_KEY_PREFIX }).optional();

export const commaSeparated = (list: string): string[] => list.split(',').map((name) => name.trim());
