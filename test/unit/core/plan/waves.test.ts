import { describe, expect, it } from '@jest/globals';
import type { MessageRecord } from '../../../../lambda/core/record.ts';
import { wavesOf } from '../../../../lambda/core/scoreRecords.ts';
import { standardRecord } from '../../../helpers/records.ts';

/** A record that comes for the n-th time. */
function received(receives: number, messageId: string): MessageRecord {
  const record = standardRecord({});
  return { ...record, messageId, attributes: { ...record.attributes, ApproximateReceiveCount: String(receives) } };
}

const IDS = Array.from({ length: 100 }, (_, index) => `id-${String(index).padStart(3, '0')}`);

/** The message IDs of each wave of 100 records that come for the n-th time. */
function wavesOfHundred(receives: number): string[][] {
  const records = IDS.toReversed().map((id) => received(receives, id));
  return wavesOf(records).map((wave) => wave.map((index) => (records[index] as MessageRecord).messageId));
}

describe('waves', () => {
  it('are one of first-timers, in the order they came', () => {
    expect(wavesOfHundred(1)).toEqual([IDS.toReversed()]);
  });

  it('put suspects after first-timers, those that came most often last', () => {
    const records = [received(3, 'a'), received(1, 'b'), received(2, 'c'), received(1, 'd')];
    expect(wavesOf(records)).toEqual([[1, 3], [2], [0]]);
  });

  it('hold the fewer suspects the more often they came, one at last', () => {
    expect(
      [2, 3, 4, 5, 9].map((receives) => Math.max(...wavesOfHundred(receives).map(({ length }) => length))),
    ).toEqual([64, 8, 1, 1, 1]);
  });

  it('stand in the order of their IDs, and in the opposite one at every other receive', () => {
    expect(wavesOfHundred(4).flat()).toEqual(IDS);
    expect(wavesOfHundred(5).flat()).toEqual(IDS.toReversed());
  });

  it('are bounded in number, however many suspects there are', () => {
    const records = Array.from({ length: 10_000 }, (_, index) => received(4, `id-${index}`));
    const waves = wavesOf(records);
    expect(waves.length).toBeLessThanOrEqual(256);
    expect(waves.flat().toSorted((a, b) => a - b)).toEqual(records.map((_, index) => index));
  });

  it('are one on FIFO queues, whose order is not ours', () => {
    const fifo = ['1', '3', '2'].map((count, index) => {
      const record = received(Number(count), `id-${index}`);
      const attributes = { ...record.attributes, MessageGroupId: 'group' };
      return { ...record, attributes, eventSourceARN: `${record.eventSourceARN}.fifo` };
    });
    expect(wavesOf(fifo)).toEqual([[0, 1, 2]]);
  });

  it('let a culprit that takes the process with it reach its fifth receive alone', () => {
    for (const culprit of ['id-000', 'id-042', 'id-099']) {
      let left = IDS;
      for (let receives = 1; receives <= 5; receives++) {
        const records = left.map((id) => received(receives, id));
        const scored: string[] = [];
        for (const wave of wavesOf(records)) {
          const ids = wave.map((index) => (records[index] as MessageRecord).messageId);
          if (ids.includes(culprit)) break;
          scored.push(...ids);
        }
        left = left.filter((id) => !scored.includes(id));
      }
      expect(left).toEqual([culprit]);
    }
  });
});
