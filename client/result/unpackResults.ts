import { preview } from '../../lambda/core/failure.ts';
import { isObject } from '../../lambda/core/json.ts';

/** One result of a packed message, as it would be in a message of its own. */
export interface StoredResult {
  /** The message ID of its request. */
  readonly messageId: string;
  readonly document: unknown;
}

/** Why a message cannot be read. Nothing of it may be taken, and it must be kept. */
export interface Unreadable {
  readonly problem: string;
}

/**
 * The results of a message that holds several: a JSON array of them, each with its own message ID. The result of a
 * packed request is an array itself, of answers that all have its message ID.
 *
 * @param count what the message's attribute `results` says
 */
export function unpackResults(body: string, count: string): readonly StoredResult[] | Unreadable {
  let documents: unknown;
  try {
    documents = JSON.parse(body);
  } catch {
    return unreadable(`a JSON array of ${count} results`, `${body.length} characters that are not JSON`);
  }
  if (!Array.isArray(documents)) return unreadable(`a JSON array of ${count} results`, preview(documents));
  if (String(documents.length) !== count) return unreadable(`${count} results`, String(documents.length));
  const results: StoredResult[] = [];
  for (const [index, document] of documents.entries()) {
    const messageId = messageIdOf(document);
    if (messageId === undefined) {
      return unreadable(`[${index}] to be a result with a message_id, or an array of answers with the same`, 'none');
    }
    results.push({ messageId, document });
  }
  return results;
}

/** The message ID that a result names; undefined where it names none, or answers of one array name several. */
export function messageIdOf(document: unknown): string | undefined {
  const ids = Array.isArray(document) ? new Set(document.map(idIn)) : new Set([idIn(document)]);
  const [messageId] = ids;
  return ids.size === 1 ? messageId : undefined;
}

function idIn(document: unknown): string | undefined {
  const id = isObject(document) ? document.message_id : undefined;
  return typeof id === 'string' && id !== '' ? id : undefined;
}

function unreadable(expected: string, got: string): Unreadable {
  return { problem: `expected ${expected}, got ${got}` };
}

export function isUnreadable(read: readonly StoredResult[] | Unreadable): read is Unreadable {
  return 'problem' in read;
}
