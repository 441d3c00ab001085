import { describe, expect, it } from '@jest/globals';
import { splitByPayloadSize } from '../../../lambda/core/plan/chunks.ts';
import { fifoRecord, standardRecord } from '../../helpers/records.ts';

const ofLength = (length: number) => standardRecord('x'.repeat(length));
const pointingTo = (bytes: number, attribute: string) =>
  standardRecord('a pointer', { messageAttributes: { [attribute]: { stringValue: String(bytes) } } });

describe('the chunks of a call', () => {
  it('hold every record once, in order, and no more than fits', () => {
    const records = [4, 4, 4, 9, 12, 1].map(ofLength);
    const chunks = splitByPayloadSize(records, 10);
    expect(chunks.map((chunk) => chunk.map(({ body }) => body.length))).toEqual([[4, 4], [4], [9], [12], [1]]);
    expect(chunks.flat()).toEqual(records);
  });

  it.each(['ExtendedPayloadSize', 'SQSLargePayloadSize'])('count what a pointer points to, by its %s', (attribute) => {
    const records = [pointingTo(6, attribute), pointingTo(6, attribute), pointingTo(3, attribute)];
    expect(splitByPayloadSize(records, 10).map((chunk) => chunk.length)).toEqual([1, 2]);
  });

  it('keep a FIFO call whole', () => {
    const records = [fifoRecord('g', 'x'.repeat(9)), fifoRecord('g', 'x'.repeat(9))];
    expect(splitByPayloadSize(records, 10)).toEqual([records]);
  });

  it('are none for an empty call', () => {
    expect(splitByPayloadSize([])).toEqual([]);
  });
});
