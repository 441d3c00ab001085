import { decodeResult } from '../result/result.ts';
import type { StoredResult } from '../result/unpackResults.ts';
import type { Acknowledger } from './acknowledge.ts';
import type { Inbox } from './inbox.ts';
import type { SetAside } from './setAside.ts';

export interface PackedReceipt {
  readonly inbox: Inbox;
  /** Acknowledges what was delivered here. */
  readonly own: Acknowledger;
  readonly setAside: SetAside;
}

/** What became of the results of one packed message. */
export interface Taken {
  /** Results that reached the inbox. */
  readonly delivered: number;
  /** Results that nobody here waits for. */
  readonly others: number;
}

/**
 * Delivers the results of a packed message that are wanted here. The message is deleted once each of its results was
 * accepted here or is wanted by nobody any more; while it holds results of others, or of a caller without room, it is given
 * back as it is.
 */
export function takePacked(
  results: readonly StoredResult[],
  receiptHandle: string,
  { inbox, own, setAside }: PackedReceipt,
): Taken {
  const messageIds = results.map(({ messageId }) => messageId);
  const standings = messageIds.map((messageId) => inbox.standing(messageId));
  const others = standings.filter((standing) => standing === 'unknown').length;
  const wanted = results.filter((_, index) => standings[index] === 'wanted');
  const comesAgain = others > 0 || standings.includes('full');
  if (comesAgain) setAside.add(receiptHandle, messageIds);
  const someAreHeld = standings.includes('held');
  if (wanted.length === 0 && !comesAgain && !someAreHeld) own.remove(receiptHandle);
  const settled = comesAgain ? () => {} : whenAllSettled(wanted.length, someAreHeld, receiptHandle, own);
  let delivered = 0;
  for (const { messageId, document } of wanted) {
    const giveBack = (): void => settled(false);
    const accept = (): void => {
      inbox.dismiss(messageId);
      settled(true);
    };
    if (inbox.deliver({ result: decodeResult(messageId, document), accept, giveBack })) delivered += 1;
    else giveBack();
  }
  return { delivered, others };
}

/**
 * Deletes a message once all that was delivered of it is accepted, or else gives it back. One of whose results another
 * copy is held here is given back too: it is not known yet what becomes of that one.
 */
function whenAllSettled(
  delivered: number,
  someAreHeld: boolean,
  receiptHandle: string,
  own: Acknowledger,
): (accepted: boolean) => void {
  let open = delivered;
  let keep = someAreHeld;
  return (accepted) => {
    open -= 1;
    keep ||= !accepted;
    if (open > 0) return;
    if (keep) own.giveBack(receiptHandle);
    else own.remove(receiptHandle);
  };
}
