import { existsSync, readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { applied, MUTATIONS } from '../mutate/mutations.ts';

it.each(MUTATIONS.map((mutation) => [mutation.breaks, mutation] as const))(
  'a mutation finds its place and its tests: %s',
  (_, mutation) => {
    const text = readFileSync(mutation.file, 'utf8');
    expect(applied(mutation, text)).not.toBe(text);
    for (const tests of mutation.tests) expect(existsSync(`test/${tests}`)).toBe(true);
  },
);
