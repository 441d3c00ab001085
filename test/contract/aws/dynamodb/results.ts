import type { BatchWriteItemInput } from '@aws-sdk/client-dynamodb';
import type { Result } from '../../../../lambda/core/record.ts';
import type { Exchange } from '../../../helpers/frontServer.ts';

export const NEVER = new AbortController().signal;
export const WRITTEN = { written: true };

export function result(messageId: string, body = JSON.stringify({ message_id: messageId })): Result {
  return { messageId, body, messageGroupId: undefined };
}

/** Results `m0`, `m1`, … */
export function results(count: number): Result[] {
  return Array.from({ length: count }, (_, index) => result(`m${index}`));
}

const EXPIRES_AT_BYTES = 'expiresAt'.length + 21;

/** A result whose item takes exactly `bytes`, by the longest that a number can be. */
export function resultOf(bytes: number, messageId: string, character = 'x'): Result {
  const others = 'messageId'.length + messageId.length + 'body'.length + EXPIRES_AT_BYTES + '""'.length;
  const filler = (bytes - others) / Buffer.byteLength(character);
  return result(messageId, `"${character.repeat(filler)}"`);
}

type Requests = NonNullable<BatchWriteItemInput['RequestItems']>;

/** The table and the put requests of one batch request. */
export function putsOf({ body }: Exchange): { table: string; puts: Requests[string] } {
  const { RequestItems }: { RequestItems: Requests } = JSON.parse(body);
  const [[table, puts] = ['', []]] = Object.entries(RequestItems);
  return { table, puts };
}

/** The message IDs of one batch request. */
export function idsOf(exchange: Exchange): string[] {
  return putsOf(exchange).puts.map(({ PutRequest }) => PutRequest?.Item?.messageId?.S ?? '');
}
