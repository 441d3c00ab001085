import { type AttributeValue, BatchGetItemCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { TransformBody, TransformContext, TransformInput } from 'batchscore';

/** Its partition key is `customer`, a string; each item has `features`, a list of numbers. */
const TABLE = process.env.FEATURES_TABLE ?? 'features';
/** @see https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html */
const KEYS_A_CALL = 100;

/** Looks the customers of all requests up together: `{"customer": "c-17"}` becomes float32 `[1, features]`. */
export async function decodeBatch(
  bodies: readonly TransformBody[],
  context: TransformContext,
): Promise<(TransformInput[] | Error)[]> {
  const asked = new Set(bodies.map(({ customer }) => customer).filter((one) => typeof one === 'string'));
  const keys = [...asked].map((customer) => ({ customer: { S: customer } }));
  const pages = Array.from({ length: Math.ceil(keys.length / KEYS_A_CALL) }, (_, page) =>
    keys.slice(page * KEYS_A_CALL, (page + 1) * KEYS_A_CALL),
  );
  const known = new Map((await Promise.all(pages.map((page) => lookUp(page, context)))).flat());
  return bodies.map(({ customer }) => {
    if (typeof customer !== 'string') return new Error('customer: expected a string, got none; send its ID');
    const data = known.get(customer);
    if (data === undefined) return new Error('customer: expected one with features, got one that has none');
    return [{ name: 'features', datatype: 'FP32', shape: [1, data.length], data }];
  });
}

async function lookUp(
  Keys: Record<string, AttributeValue>[],
  context: TransformContext,
): Promise<[string, number[]][]> {
  if (Keys.length === 0) return [];
  const dynamodb = context.once('dynamodb', () => new DynamoDBClient());
  const command = new BatchGetItemCommand({ RequestItems: { [TABLE]: { Keys } } });
  const answer = dynamodb.send(command, { abortSignal: context.signal });
  const { Responses, UnprocessedKeys } = await answer.catch((cause: unknown) => {
    // No customer is to blame: their messages come back.
    throw Object.assign(new Error('the table does not answer', { cause }), { retryable: true });
  });
  const found = (Responses?.[TABLE] ?? []).map(({ customer, features }): [string, number[]] => {
    return [customer?.S ?? '', (features?.L ?? []).map(({ N }) => Number(N))];
  });
  return [...found, ...(await lookUp(UnprocessedKeys?.[TABLE]?.Keys ?? [], context))];
}
