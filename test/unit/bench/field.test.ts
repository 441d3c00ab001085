import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import type { FieldFigures } from '../../../bench/field/field.ts';
import { pageWith } from '../../../bench/field/page.ts';
import { agree } from '../../../bench/field/workloads.ts';

const read = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
const FIGURES: FieldFigures = JSON.parse(read('bench/field/figures.json'));
const PAGE = read('docs/comparison.md');

describe('docs/comparison.md', () => {
  it('has the tables of the run that is kept', () => {
    expect(pageWith(FIGURES, PAGE)).toBe(PAGE);
  });

  it('has no other measured figures: prose names rates, memory, money and shares only within what is made', () => {
    const prose = PAGE.replaceAll(/<!-- begin .*?<!-- end -->|```.*?```/gs, '');
    expect(prose.match(/[\d.,]+ (rows\/s|µs|MB|\$|%|times)/g)).toBeNull();
  });

  it('is held against the figures: another figure makes another page', () => {
    const [first, ...others] = FIGURES.speed;
    if (first === undefined) throw new Error('expected figures');
    const turns = first.turns.map((turn) => ({ ...turn, rowsPerSecond: 3 * turn.rowsPerSecond }));
    expect(pageWith({ ...FIGURES, speed: [{ ...first, turns }, ...others] }, PAGE)).not.toBe(PAGE);
  });

  it('has figures of at least five others, in speed and in faults', () => {
    for (const part of [FIGURES.speed, FIGURES.faults]) {
      const others = new Set<string>(
        part.map(({ contestant }) => contestant).filter((name) => !/^batchscore/.test(name)),
      );
      expect(others.size).toBeGreaterThanOrEqual(5);
    }
  });
});

describe('an answer is right', () => {
  it.each([
    ['the same', [0.25, 0.75], [0.25, 0.75], true],
    ['rounded otherwise', [0.25, 0.750_01], [0.25, 0.75], true],
    ['NaN where NaN is right', [Number.NaN, 1], [Number.NaN, 1], true],
    ['off by a thousandth', [0.25, 0.752], [0.25, 0.75], false],
    ['NaN where a number is right', [Number.NaN, 0.75], [0.25, 0.75], false],
    ['of another row count', [0.25], [0.25, 0.75], false],
  ])('%s: %j for %j: %s', (_, got, expected, isRight) => {
    expect(agree(got, expected)).toBe(isRight);
  });
});
