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
});
