import { describe, expect, it } from '@jest/globals';
import { preview } from '../../../../lambda/core/failure.ts';

describe('preview', () => {
  it.each([
    ['a short string in quotes', 'a"b', '"a\\"b"'],
    ['a number', -0.5, '-0.5'],
    ['nothing', undefined, 'nothing'],
    ['null', null, 'null'],
    ['an array by its length', [1, [2]], 'an array of 2'],
    ['an object without its contents', { secret: 1 }, 'an object'],
  ])('shows %s', (_, value, shown) => {
    expect(preview(value)).toBe(shown);
  });

  it.each(['a'.repeat(59), '\u0000'.repeat(40), 'a'.repeat(1_000_000)])('cuts a long string short', (text) => {
    expect(preview(text)).toBe(`${JSON.stringify(text).slice(0, 60)}…`);
  });
});
