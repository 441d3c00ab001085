import { placeOf } from '../base/requestIds.ts';

/** Who waits for what, by ID and by message. */
export interface Claims<T> {
  set(id: string, owner: T): void;
  has(id: string): boolean;
  delete(id: string): void;
  /** The IDs of a message, or of its requests, that are waited for, and by whom. */
  ofMessage(messageId: string): ReadonlyMap<string, T>;
}

export function createClaims<T>(): Claims<T> {
  const byMessage = new Map<string, Map<string, T>>();
  const ofMessage = (messageId: string): ReadonlyMap<string, T> => byMessage.get(messageId) ?? NONE;
  return {
    set(id, owner) {
      const { messageId } = placeOf(id);
      const claims = byMessage.get(messageId);
      if (claims === undefined) byMessage.set(messageId, new Map([[id, owner]]));
      else claims.set(id, owner);
    },
    has: (id) => ofMessage(placeOf(id).messageId).has(id),
    delete(id) {
      const { messageId } = placeOf(id);
      const claims = byMessage.get(messageId);
      claims?.delete(id);
      if (claims?.size === 0) byMessage.delete(messageId);
    },
    ofMessage,
  };
}

const NONE = new Map<string, never>();
