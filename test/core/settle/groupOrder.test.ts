import { describe, expect, it } from '@jest/globals';
import { passesInGroupOrder } from '../../../lambda/core/settle/groupOrder.ts';
import { fifoRecord, fifoRecords, standardRecords } from '../../helpers/records.ts';

describe('passesInGroupOrder', () => {
  it("puts a group's records into rounds in their order, one a round, and groups side by side", () => {
    const records = fifoRecords(['a', 'a', 'b', 'a', 'b'].map((group) => [group, {}]));
    expect(passesInGroupOrder(records)).toEqual([[0, 2], [1, 4], [3]]);
  });

  it('leaves the records of a standard queue out', () => {
    const records = [...standardRecords([{}]), fifoRecord('a', {}), ...standardRecords([{}]), fifoRecord('a', {})];
    expect(passesInGroupOrder(records)).toEqual([[1], [3]]);
  });

  it("leaves a standard queue's message group out, for it is for fairness and not for order", () => {
    const [record] = standardRecords([{}]);
    if (record === undefined) throw new Error('expected a record');
    const fair = { ...record, attributes: { ...record.attributes, MessageGroupId: 'tenant-1' } };
    expect(passesInGroupOrder([fair, fair])).toEqual([]);
  });

  it('has no rounds for no records', () => {
    expect(passesInGroupOrder([])).toEqual([]);
  });
});
