import { describe, expect, it } from '@jest/globals';
import { MAX_LEVELS, outlineOf } from '../../../../lambda/core/outline.ts';

function isNestedTooDeep(text: string): boolean {
  return outlineOf(text).levels > MAX_LEVELS;
}

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
    const max = MAX_LEVELS / perRepeat;
    expect([isNestedTooDeep(nested(max, open, close)), isNestedTooDeep(nested(max + 1, open, close))]).toEqual([
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
});

describe('the arrays and objects of a long text', () => {
  it('are counted, not those in strings', () => {
    expect(outlineOf(`${LONG}[[],{"a":{}},"[{"]`).containers).toBe(4);
  });
});

describe('the keys of a long text', () => {
  it('are those of the object that has most', () => {
    const objects = '[{"a":1,"b":{"c":1}},{"a":{"d":1,"e":1,"f":":"},"b":2},{"a":1}]';
    expect(outlineOf(LONG + objects).keys).toBe(3);
  });
});

describe('the elements of a long array', () => {
  it.each([
    ['numbers', '[1,2,3]', 3],
    ['arrays and objects with elements of their own', '[[1,2],{"a":[3,4],"b":5},[]]', 3],
    ['strings with commas in them', '["a,b","\\",",",c"]', 3],
    ['none of an object', '{"a":1,"b":2}', 0],
  ])('are counted: %s', (_, text, elements) => {
    expect(outlineOf(LONG + text).elements).toBe(elements);
  });
});
