import { MESSAGE_ID_ATTRIBUTE, type MessageRecord, RESULTS_ATTRIBUTE } from '../../lambda/core/record.ts';
import type { ReadStored } from '../result/readResult.ts';
import { decodeResult, type ScoringResult, type SingleResult } from '../result/result.ts';
import { isUnreadable, unpackResults } from '../result/unpackResults.ts';

/** The answer to one request, and which of its message it was. */
export interface Answer {
  readonly result: SingleResult;
  /** The place of the request in its message: 0, unless the message was packed. */
  readonly position: number;
}

/**
 * The answers in a message of a result queue, in their order, whatever its form.
 *
 * @throws Error when it is no message of results, or its payload cannot be read: nothing of it may be taken
 */
export async function readRecord({ body, messageAttributes }: MessageRecord, read: ReadStored): Promise<Answer[]> {
  const count = messageAttributes[RESULTS_ATTRIBUTE]?.stringValue;
  const messageId = messageAttributes[MESSAGE_ID_ATTRIBUTE]?.stringValue;
  if (count !== undefined) return unpack(body, count);
  if (messageId === undefined) {
    throw new Error(
      `expected the message attribute ${MESSAGE_ID_ATTRIBUTE} or ${RESULTS_ATTRIBUTE}, got neither; ` +
        'connect the result queue of a batchscore deployment',
    );
  }
  const { result, complete } = await read(messageId, body);
  if (!complete && 'error' in result) throw result.error;
  return answersOf(result);
}

function unpack(body: string, count: string): Answer[] {
  const results = unpackResults(body, count);
  if (isUnreadable(results)) throw new Error(results.problem);
  return results.flatMap(({ messageId, document }) => answersOf(decodeResult(messageId, document)));
}

function answersOf(result: ScoringResult): Answer[] {
  const results = 'results' in result ? result.results : [result];
  for (const one of results) {
    if ('error' in one && one.error.code === 'INVALID_RESULT') throw one.error;
  }
  return results.map((one, position) => ({ result: one, position }));
}
