import { describe, expect, it } from '@jest/globals';
import { packBatchRequests } from '../../../../lambda/aws/sendBatches.ts';

const MIB = 1_048_576;

function entriesOf(...bytes: number[]) {
  return bytes.map((size) => ({ bytes: size }));
}

describe('packBatchRequests', () => {
  it('makes no batch request of nothing', () => {
    expect(packBatchRequests([])).toEqual([]);
  });

  it('fills batch requests with ten entries, in order', () => {
    const entries = entriesOf(...Array.from({ length: 21 }, (_, index) => index));

    expect(packBatchRequests(entries)).toEqual([entries.slice(0, 10), entries.slice(10, 20), entries.slice(20)]);
  });

  it('fills a batch request up to the very last byte of 1 MiB', () => {
    const entries = entriesOf(MIB - 10, 10, 1, MIB - 1, MIB);

    expect(packBatchRequests(entries)).toEqual([entries.slice(0, 2), entries.slice(2, 4), entries.slice(4)]);
  });

  it('counts the bytes of every batch request from its own first entry', () => {
    const entries = entriesOf(MIB / 2, MIB / 2 + 1, MIB / 2 - 1, 1, MIB);

    expect(packBatchRequests(entries)).toEqual([
      entries.slice(0, 1),
      entries.slice(1, 3),
      entries.slice(3, 4),
      entries.slice(4),
    ]);
  });
});
