import { type AttributeValue, BatchGetItemCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import pLimit from 'p-limit';
import { z } from 'zod';
import { describeError, isCallersFault } from '../lambda/aws/awsError.ts';
import { BODY_ATTRIBUTE, MESSAGE_ID_ATTRIBUTE, POINTER_ATTRIBUTE } from '../lambda/core/record.ts';

import { type Collector, createBackoff } from './collect.ts';
import type { Inbox } from './inbox.ts';
import { invalidResult, type ReadStored } from './readResult.ts';

interface TableCollectorOptions {
  readonly dynamodb: DynamoDBClient;
  readonly table: string;
  readonly inbox: Inbox;
  readonly read: ReadStored;
  /** Ends the polls. */
  readonly closing: AbortSignal;
}

/** @see https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html */
const KEYS_A_CALL = 100;
const CALLS_IN_FLIGHT = 4;

/** A body that is not text counts as none. */
const TEXT = z.object({ S: z.string() }).optional().catch(undefined);
const ITEM = z.object({ [MESSAGE_ID_ATTRIBUTE]: z.object({ S: z.string() }), body: TEXT, pointer: TEXT });

/**
 * Asks the result table for all that is wanted, again and again while someone waits. After a round that brought
 * nothing the pause is longer, from 50 ms to 1 s; a new caller ends it.
 */
export function startTableCollector(options: TableCollectorOptions): Collector {
  const state: AskerState = { lastError: undefined };
  void askWhileWanted(options, state);
  return {
    settled: async () => {},
    lastError: () => state.lastError,
    othersReceived: () => 0,
    close: async () => {},
  };
}

interface AskerState {
  /** Why the last round failed; undefined after one that did not. */
  lastError: unknown;
}

async function askWhileWanted(options: TableCollectorOptions, state: AskerState): Promise<void> {
  const { inbox, table, closing } = options;
  const backoff = createBackoff();
  while (!closing.aborted) {
    if (await inbox.demand()) backoff.reset();
    const joined = inbox.joined();
    try {
      if ((await askForAll(options)) > 0) backoff.reset();
      state.lastError = undefined;
    } catch (error) {
      if (closing.aborted) return;
      state.lastError = error;
      if (isCallersFault(error)) inbox.fail(unreadable(table, error));
    }
    await backoff.pause(joined);
  }
}

/** One round. @returns how many results came */
async function askForAll(options: TableCollectorOptions): Promise<number> {
  const inFlight = pLimit(CALLS_IN_FLIGHT);
  const wanted = options.inbox.wanted();
  const calls = Array.from({ length: Math.ceil(wanted.length / KEYS_A_CALL) }, (_, call) =>
    inFlight(() => ask(wanted.slice(call * KEYS_A_CALL, (call + 1) * KEYS_A_CALL), options)),
  );
  const counts = await Promise.all(calls);
  return counts.reduce((sum, count) => sum + count, 0);
}

/** What the table does not answer in this round, unprocessed keys among it, is still wanted in the next. */
async function ask(messageIds: readonly string[], options: TableCollectorOptions): Promise<number> {
  const { dynamodb, table, inbox, closing } = options;
  const Keys = messageIds
    .filter((messageId) => inbox.stateOf(messageId) === 'wanted')
    .map((messageId) => ({ [MESSAGE_ID_ATTRIBUTE]: { S: messageId } }));
  if (Keys.length === 0) return 0;
  const command = new BatchGetItemCommand({
    RequestItems: {
      [table]: {
        Keys,
        ProjectionExpression: '#messageId, #body, #pointer',
        ExpressionAttributeNames: {
          '#messageId': MESSAGE_ID_ATTRIBUTE,
          '#body': BODY_ATTRIBUTE,
          '#pointer': POINTER_ATTRIBUTE,
        },
      },
    },
  });
  const { Responses } = await dynamodb.send(command, { abortSignal: closing });
  const delivered = await Promise.all((Responses?.[table] ?? []).map((item) => deliver(item, options)));
  return delivered.filter(Boolean).length;
}

async function deliver(item: Record<string, AttributeValue>, { inbox, read }: TableCollectorOptions): Promise<boolean> {
  const { messageId, body, pointer } = ITEM.parse(item);
  const stored = body?.S ?? pointer?.S;
  const result =
    stored === undefined
      ? invalidResult(messageId.S, 'got an item with neither a body nor a pointer')
      : (await read(messageId.S, stored)).result;
  return inbox.deliver({ result, accept: () => {}, giveBack: () => {} });
}

function unreadable(table: string, cause: unknown): Error {
  return new Error(`the result table ${table} cannot be read: ${describeError(cause)}`, { cause });
}
