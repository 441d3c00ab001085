import type { Result } from '../../../lambda/core/record.ts';
import type { ResultSeen } from './wire.ts';

/** Characters of a result that the page is given. */
export const MOST_BODY_CHARACTERS = 16_384;

/** An error's first keys. */
const ERROR = /^\{"message_id":"[^"]*"(?:,"id":"(?:[^"\\]|\\.)*")?,"code":"/;
/** Those of one among the answers to a packed message: within a JSON string its quotes would be escaped. */
const ERROR_AMONG_OTHERS = new RegExp(`[[,]${ERROR.source.slice(1)}`);

/** Whether a result is an error, or holds one. */
export function isErrorBody(body: string): boolean {
  return (body.startsWith('[') ? ERROR_AMONG_OTHERS : ERROR).test(body);
}

export function resultSeen(
  { messageId, body }: Result,
  how: Pick<ResultSeen, 'at' | 'invocation' | 'isError' | 'isLoad'>,
): ResultSeen {
  return { messageId, body: body.slice(0, MOST_BODY_CHARACTERS).toWellFormed(), characters: body.length, ...how };
}
