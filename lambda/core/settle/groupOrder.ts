import { type MessageRecord, orderingGroup } from '../contract/record.ts';

/** FIFO records by message group, each group in its order. Standard records are in none. Entries are indexes into `records`. */
export function inMessageGroups(records: readonly MessageRecord[]): number[][] {
  const groups = new Map<string, number[]>();
  for (const [index, record] of records.entries()) {
    const name = orderingGroup(record);
    if (name === undefined) continue;
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [index]);
    else group.push(index);
  }
  return [...groups.values()];
}
