import type { Acknowledger } from './acknowledge.ts';

/** Messages that were received and that nobody here can take now: kept from everyone until they are given back. */
export interface SetAside {
  /** @param messageIds those of its requests, as far as it carries any */
  add(receiptHandle: string, messageIds: readonly string[]): void;
  size(): number;
  /** Gives back those of these message IDs: somebody here waits for them now. */
  giveBackOf(messageIds: Iterable<string>): void;
  /** @returns how many there were */
  giveBackAll(): number;
}

export function createSetAside(acknowledger: Acknowledger): SetAside {
  const handles = new Set<string>();
  const handlesById = new Map<string, string[]>();
  return {
    add(receiptHandle, messageIds) {
      handles.add(receiptHandle);
      for (const messageId of messageIds) {
        const known = handlesById.get(messageId);
        if (known === undefined) handlesById.set(messageId, [receiptHandle]);
        else known.push(receiptHandle);
      }
    },
    size: () => handles.size,
    giveBackOf(messageIds) {
      if (handles.size === 0) return;
      for (const messageId of messageIds) {
        for (const receiptHandle of handlesById.get(messageId) ?? []) {
          if (handles.delete(receiptHandle)) acknowledger.giveBack(receiptHandle);
        }
        handlesById.delete(messageId);
      }
    },
    giveBackAll() {
      const count = handles.size;
      for (const receiptHandle of handles) acknowledger.giveBack(receiptHandle);
      handles.clear();
      handlesById.clear();
      return count;
    },
  };
}
