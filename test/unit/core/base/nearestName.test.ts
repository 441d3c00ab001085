import { describe, expect, it } from '@jest/globals';
import { nearestName } from '../../../../lambda/core/wrongValue.ts';

const NAMES = ['axis', 'cut', 'batchSize', 'batchAxis'];

describe('the nearest name', () => {
  it.each([
    ['axs', 'axis'],
    ['AXIS', 'axis'],
    ['batchsize', 'batchSize'],
    ['batchAxi', 'batchAxis'],
    ['batchSizeInX', 'batchSize'],
    ['batchSizeInXY', undefined],
    ['pad', undefined],
    ['colour', undefined],
    ['', undefined],
  ])('of %j is %j: one letter in three may be wrong, three at most', (wrong, nearest) => {
    expect(nearestName(wrong, NAMES)).toBe(nearest);
  });

  it('takes no time over a name as long as a body, which a producer may send as a key', () => {
    expect(nearestName('x'.repeat(30_000_000), NAMES)).toBe(undefined);
  });
});
