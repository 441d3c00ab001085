import { describe, expect, it } from '@jest/globals';
import { check } from '../../../cli/start.ts';

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
