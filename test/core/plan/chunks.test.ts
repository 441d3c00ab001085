import { describe, expect, it } from '@jest/globals';
import { horizonsOf } from '../../../lambda/core/plan/chunks.ts';
import { fifoRecord, standardRecord } from '../../helpers/records.ts';

const ofLength = (length: number) => standardRecord('x'.repeat(length));
const pointingTo = (bytes: number, attribute: string) =>
  standardRecord('a pointer', { messageAttributes: { [attribute]: { stringValue: String(bytes) } } });

describe('the horizons of a call', () => {
  it('hold every record once, in order, and no more than fits', () => {
    const records = [4, 4, 4, 9, 12, 1].map(ofLength);
    const horizons = horizonsOf(records, 10);
    expect(horizons.map((horizon) => horizon.map(({ body }) => body.length))).toEqual([[4, 4], [4], [9], [12], [1]]);
    expect(horizons.flat()).toEqual(records);
  });

  it.each(['ExtendedPayloadSize', 'SQSLargePayloadSize'])('count what a pointer points to, by its %s', (attribute) => {
    const records = [pointingTo(6, attribute), pointingTo(6, attribute), pointingTo(3, attribute)];
    expect(horizonsOf(records, 10).map((horizon) => horizon.length)).toEqual([1, 2]);
  });

  it('keep a FIFO call whole', () => {
    const records = [fifoRecord('g', 'x'.repeat(9)), fifoRecord('g', 'x'.repeat(9))];
    expect(horizonsOf(records, 10)).toEqual([records]);
  });

  it('are none for an empty call', () => {
    expect(horizonsOf([])).toEqual([]);
  });
});
