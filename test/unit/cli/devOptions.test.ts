import { describe, expect, it } from '@jest/globals';
import { batchingFrom, storesFrom } from '../../../cli/dev.ts';

describe('what npm run dev is told', () => {
  it('by options comes before the environment, which comes before the defaults', () => {
    const env = { BATCHSCORE_BATCH_SIZE: '3', BATCHSCORE_WINDOW_SECONDS: '0', BATCHSCORE_RESULTS: 'queue, table' };
    expect(batchingFrom('5', undefined, { ...env, BATCHSCORE_BATCH_SIZE: 'many' })).toEqual({
      batchSize: 5,
      windowSeconds: 0,
    });
    expect(batchingFrom(undefined, undefined, {})).toEqual({ batchSize: 100, windowSeconds: 1 });
    expect([storesFrom('bucket', env), storesFrom(undefined, env)]).toEqual([['bucket'], ['queue', 'table']]);
  });

  it.each([
    [
      { BATCHSCORE_WINDOW_SECONDS: '0.5' },
      /BATCHSCORE_WINDOW_SECONDS: expected a whole number from 0 to 300, got '0.5'/,
    ],
    [{ BATCHSCORE_BATCH_SIZE: '10001' }, /BATCHSCORE_BATCH_SIZE: expected a whole number from 1 to 10000/],
    [
      { BATCHSCORE_WINDOW_SECONDS: '0' },
      /^--window: expected at least 1 with a --batch-size above 10, got 0 with --batch-size 100; raise --window or/,
    ],
  ])('is refused where AWS would refuse it: %j', (env, message) => {
    expect(() => batchingFrom(undefined, undefined, env)).toThrow(message);
  });

  it('of results is refused where there is no such store', () => {
    expect(() => storesFrom('queue,shelf', {})).toThrow(
      /^--results: expected one or several of queue, table, bucket, .* got queue,shelf/,
    );
  });
});
