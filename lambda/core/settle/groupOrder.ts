import { type MessageRecord, orderingGroup } from '../contract/record.ts';

/**
 * FIFO records in rounds: each round holds at most one record of a message group, and a group's records stand in
 * rounds in their order. Standard records are in none. Entries are indexes into `records`.
 */
export function roundsInGroupOrder(records: readonly MessageRecord[]): number[][] {
  const rounds: number[][] = [];
  const seen = new Map<string, number>();
  for (const [index, record] of records.entries()) {
    const group = orderingGroup(record);
    if (group === undefined) continue;
    const round = seen.get(group) ?? 0;
    seen.set(group, round + 1);
    rounds[round] = [...(rounds[round] ?? []), index];
  }
  return rounds;
}
