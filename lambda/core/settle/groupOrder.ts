import { type MessageRecord, orderingGroup } from '../contract/record.ts';

/**
 * FIFO records in passes: each pass holds at most one record of a message group, and a group's records stand in
 * passes in their order. Standard records are in none. Entries are indexes into `records`.
 */
export function passesInGroupOrder(records: readonly MessageRecord[]): number[][] {
  const passes: number[][] = [];
  const seen = new Map<string, number>();
  for (const [index, record] of records.entries()) {
    const group = orderingGroup(record);
    if (group === undefined) continue;
    const pass = seen.get(group) ?? 0;
    seen.set(group, pass + 1);
    passes[pass] = [...(passes[pass] ?? []), index];
  }
  return passes;
}
