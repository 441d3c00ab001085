import { describe, expect, it } from '@jest/globals';
import { inMessageGroups } from '../../../../lambda/core/writeResults.ts';
import { fifoRecord, fifoRecords, standardRecords } from '../../../helpers/records.ts';

describe('inMessageGroups', () => {
  it('puts the records of each group together, in their order', () => {
    const records = fifoRecords(['a', 'a', 'b', 'a', 'b'].map((group) => [group, {}]));
    expect(inMessageGroups(records)).toEqual([
      [0, 1, 3],
      [2, 4],
    ]);
  });

  it('leaves the records of a standard queue out', () => {
    const records = [...standardRecords([{}]), fifoRecord('a', {}), ...standardRecords([{}]), fifoRecord('a', {})];
    expect(inMessageGroups(records)).toEqual([[1, 3]]);
  });

  it("leaves a standard queue's message group out, for it is for fairness and not for order", () => {
    const [record] = standardRecords([{}]);
    if (record === undefined) throw new Error('expected a record');
    const fair = { ...record, attributes: { ...record.attributes, MessageGroupId: 'tenant-1' } };
    expect(inMessageGroups([fair, fair])).toEqual([]);
  });

  it('has no groups for no records', () => {
    expect(inMessageGroups([])).toEqual([]);
  });
});
