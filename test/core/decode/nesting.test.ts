import { describe, expect, it } from '@jest/globals';
import { isNestedTooDeep, MOST_LEVELS } from '../../../lambda/core/decode/nesting.ts';

const LONG = ' '.repeat(65_536);

function nested(levels: number, open = '[', close = ']'): string {
  return open.repeat(levels) + close.repeat(levels) + LONG;
}

describe('a text that is nested too deep', () => {
  it.each([
    ['arrays', '[', ']'],
    ['objects', '{"a":', '}'],
    ['both, with elements between', '[0,{"b":', '}]'],
  ])('has more than a hundred levels: %s', (_, open, close) => {
    const perRepeat = (open.match(/[[{]/g) ?? []).length - (open.match(/[\]}]/g) ?? []).length;
    const most = MOST_LEVELS / perRepeat;
    expect([isNestedTooDeep(nested(most, open, close)), isNestedTooDeep(nested(most + 1, open, close))]).toEqual([
      false,
      true,
    ]);
  });

  it.each([
    ['brackets in strings', JSON.stringify('['.repeat(1000))],
    ['brackets behind escaped quotes', JSON.stringify(`"${'['.repeat(1000)}`)],
    ['brackets behind escaped backslashes', `${JSON.stringify('\\')},${JSON.stringify('['.repeat(1000))}`],
    ['brackets in a string that does not end', `"${'['.repeat(1000)}`],
    ['many arrays one after the other', `[${'[],'.repeat(1000)}[]]`],
  ])('is not one with %s', (_, text) => {
    expect(isNestedTooDeep(text + LONG)).toBe(false);
  });

  it('counts a string that ends in backslashes as ended', () => {
    expect(isNestedTooDeep(`"\\\\"${nested(MOST_LEVELS + 1)}`)).toBe(true);
  });
});
