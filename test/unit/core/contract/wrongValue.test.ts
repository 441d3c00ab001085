import { describe, expect, it } from '@jest/globals';
import * as z from 'zod';
import { IN_OUR_WORDS, problemsIn } from '../../../../lambda/core/wrongValue.ts';

function problemsOf(schema: z.ZodType, value: unknown): string[] {
  return problemsIn(schema.safeParse(value, IN_OUR_WORDS).error?.issues ?? [], value);
}

const shape = { rows: z.int(), names: z.array(z.string().min(1)).min(2).optional() };
const Strict = z.strictObject(shape);

describe('what is wrong with a value that a validator read', () => {
  it.each([
    [z.string(), 1, 'expected text, got 1'],
    [z.int(), 1.5, 'expected a whole number, got 1.5'],
    [z.number().min(2), 1, 'expected a number of at least 2, got 1'],
    [z.string().max(2), 'abc', 'expected at most 2 characters, got "abc"'],
    [z.array(z.string()).min(1), [], 'expected at least 1 element, got an array of 0'],
    [z.enum(['a', 'b']), 'c', 'expected one of a, b, got "c"'],
    [z.iso.datetime(), 'now', 'expected a time as 2026-01-31T12:00:00Z, got "now"'],
    [z.string().regex(/^a/), 'b', 'expected text of another form, got "b"'],
    [z.union([z.string(), z.number()]), true, 'expected another value, got true'],
    [z.string({ error: 'expected a name' }), 1, 'expected a name, got 1'],
    [z.string().refine(() => false, 'expected a name, got none; give one'), 'x', 'expected a name, got none; give one'],
  ])('is told in plain words: %#', (schema, value, sentence) => {
    expect(problemsOf(schema, value)).toEqual([sentence]);
  });

  it('says where it is', () => {
    expect(problemsOf(Strict, { rows: 1, names: ['a', ''] })).toEqual([
      'names.1: expected text, not an empty one, got ""',
    ]);
    expect(problemsOf(Strict, {})).toEqual(['rows: expected a number, got nothing']);
  });

  it('names the known keys, the unknown ones and those that are meant, with what they take', () => {
    expect(problemsOf(Strict, { rows: 1, nams: [], row: 2, colour: 'red' })).toEqual([
      'expected only the keys rows, names, got "nams", "row", "colour"; ' +
        'did you mean names, an array?; did you mean rows, a number?',
    ]);
    expect(problemsOf(z.object({ within: Strict }), { within: { rows: 1, rwos: 2 } })).toEqual([
      'within: expected only the keys rows, names, got "rwos"; did you mean rows, a number?',
    ]);
  });

  it('does not list very many keys', () => {
    const many = z.strictObject(
      Object.fromEntries(Array.from({ length: 21 }, (_, key) => [`key${key}`, z.int().optional()])),
    );
    expect(problemsOf(many, { colour: 1 })).toEqual(['expected no other keys, got "colour"']);
  });
});
