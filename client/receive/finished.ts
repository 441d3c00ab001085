import { placeOf } from '../base/requestIds.ts';
import { createRefused, type Refused } from './refused.ts';

/** The requests whose results nobody here will want any more, and so the messages that may go. */
export interface Finished extends Refused {
  /** @param requests how many its message holds, where that is known */
  add(id: string, requests?: number): void;
  /** It is wanted again. */
  delete(id: string): void;
  /** Whether that is so for all requests of a message. */
  has(messageId: string): boolean;
}

/** The oldest is forgotten first: its result is then taken for that of somebody else. */
const REMEMBERED_MESSAGES = 10_000;

const ALL = 'all';

export function createFinished(): Finished {
  const messages = new Map<string, Set<number> | typeof ALL>();
  return {
    ...createRefused(),
    add(id, requests) {
      const { messageId, position } = placeOf(id);
      const before = messages.get(messageId) ?? new Set();
      if (before === ALL) return;
      if (position !== undefined) before.add(position);
      messages.set(messageId, position === undefined || before.size === requests ? ALL : before);
      const [oldest] = messages.keys();
      if (messages.size > REMEMBERED_MESSAGES && oldest !== undefined) messages.delete(oldest);
    },
    delete(id) {
      const { messageId, position } = placeOf(id);
      const before = messages.get(messageId);
      if (position === undefined || before === undefined || before === ALL) messages.delete(messageId);
      else before.delete(position);
    },
    has: (messageId) => messages.get(messageId) === ALL,
  };
}
