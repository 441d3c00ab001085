import { ScoringError } from '../base/errors.ts';
import { placeOf } from '../base/requestIds.ts';
import { invalidResult, type ScoringResult, type SingleResult } from './result.ts';

/**
 * The result of the request `id`, of what is stored for its message: an error of the whole message is that of each of its
 * requests. What is not there becomes a failed result; nothing is thrown.
 */
export function resultOf(id: string, stored: ScoringResult): ScoringResult {
  const { messageId, position } = placeOf(id);
  if (position === undefined) return stored;
  if ('error' in stored) return named(id, stored);
  if (!('results' in stored)) return invalidResult(id, `got one answer under ${messageId}, which is no packed message`);
  const own = stored.results[position];
  if (own !== undefined) return named(id, own);
  return invalidResult(id, `got ${stored.results.length} answers under ${messageId}, so none at position ${position}`);
}

function named(messageId: string, result: SingleResult): SingleResult {
  if (!('error' in result)) return { ...result, messageId };
  const { code, message, id, retryable, cause } = result.error;
  return { ...result, messageId, error: new ScoringError(code, message, { messageId, id, retryable, cause }) };
}
