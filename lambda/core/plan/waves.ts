import { type MessageRecord, orderingGroup } from '../contract/record.ts';

/** Records of a wave that came for the second, the third time, and more often. */
const SUSPECTS_A_WAVE = [64, 8, 1] as const;
/** Each wave costs batch requests of its own: of very many suspects more stand in one. */
const MOST_WAVES = 256;

/**
 * The records of an invocation in waves, which are scored and acknowledged one after the other. Records that came
 * before are suspects: one of them may have hung, or have ended the process. First-timers go first; suspects follow, in
 * the smaller waves the more often they came, alone at last.
 *
 * Suspects stand in the order of their message IDs, in the opposite one at every other receive: whoever stood behind
 * the culprit then stands before it now. So the culprit reaches the dead letters alone, after five receives.
 *
 * FIFO records are one wave, as their order is not ours to choose. Entries are indexes into `records`.
 */
export function wavesOf(records: readonly MessageRecord[]): number[][] {
  const all = records.map((_, index) => index);
  if (records.some((record) => orderingGroup(record) !== undefined)) return [all];
  const byReceives = Map.groupBy(all, (index) => receivesOf(records[index] as MessageRecord));
  return [...byReceives]
    .toSorted(([a], [b]) => a - b)
    .flatMap(([receives, indexes]) => (receives <= 1 ? [indexes] : wavesOfSuspects(receives, indexes, records)));
}

function receivesOf({ attributes }: MessageRecord): number {
  const receives = Number(attributes.ApproximateReceiveCount);
  return receives >= 1 ? receives : 1;
}

function wavesOfSuspects(receives: number, indexes: readonly number[], records: readonly MessageRecord[]): number[][] {
  const idOf = (index: number) => (records[index] as MessageRecord).messageId;
  const ascending = indexes.toSorted((a, b) => (idOf(a) < idOf(b) ? -1 : 1));
  const ordered = receives % 2 === 0 ? ascending : ascending.toReversed();
  const wanted = SUSPECTS_A_WAVE[receives - 2] ?? 1;
  const size = Math.max(wanted, Math.ceil(ordered.length / MOST_WAVES));
  const waves: number[][] = [];
  for (let from = 0; from < ordered.length; from += size) waves.push(ordered.slice(from, from + size));
  return waves;
}
