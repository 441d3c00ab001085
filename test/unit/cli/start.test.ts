import { describe, expect, it } from '@jest/globals';
import { check, drawDigits } from '../../../cli/start.ts';

describe('what came back of the digits', () => {
  const digit = { pixels: [], label: 7 };
  const sent = new Map(
    ['a', 'b', 'c', 'd'].map((messageId) => [messageId, { body: '', id: `id-${messageId}`, digit }]),
  );
  const resultOf = (messageId: string, more: object, id = `id-${messageId}`) => ({
    messageId,
    body: JSON.stringify({ message_id: messageId, id, ...more }),
  });
  const scored = (label: number) => ({ predictions: [{ label, probabilities: [] }] });

  it('is counted message by message: right, wrong, refused, twice, under another ID and not at all', () => {
    const results = [
      resultOf('a', scored(7)),
      resultOf('a', scored(7)),
      resultOf('b', scored(1)),
      resultOf('c', { code: 'INVALID_DATA', error: 'why' }),
      resultOf('d', scored(7), 'id-of-another'),
      resultOf('unknown', scored(7)),
      { messageId: 'd', body: 'no JSON' },
      { messageId: undefined, body: '{}' },
    ];
    expect(check({ length: 4 }, { sent, results, seconds: 1 })).toEqual({
      ...{ answered: 3, missing: 1, duplicates: 1, wrongId: 4, right: 1, seconds: 1 },
      errors: new Map([['INVALID_DATA', 1]]),
    });
  });
});

describe('digits in blocks', () => {
  /** A stroke from the upper left to the lower right, darker and darker. */
  const pixels = Array.from({ length: 64 }, (_, pixel) => (pixel % 9 === 0 ? 2 * (1 + pixel / 9) : 0));
  const digit = { pixels, label: 7, probability: 0.987 };

  it('stand side by side above their labels, as many as there is room for', () => {
    const drawn = drawDigits([digit, digit, digit], 45);
    expect(drawn[0]).toBe(`  ${'░░'.padEnd(20)}░░`);
    expect(drawn[7]).toBe(`  ${'██'.padStart(16).padEnd(20)}${'██'.padStart(16)}`);
    expect(drawn[8]).toBe(`  ${'7, 98.7 %'.padEnd(20)}7, 98.7 %`);
    expect(drawDigits([digit], 10)[8]).toBe('  7, 98.7 %');
  });
});
