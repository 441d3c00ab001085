import { type AttributeValue, BatchGetItemCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import pLimit from 'p-limit';
import * as z from 'zod';
import { describeError, isCallersFault } from '../lambda/aws/awsError.ts';
import { BODY_ATTRIBUTE, MESSAGE_ID_ATTRIBUTE, POINTER_ATTRIBUTE } from '../lambda/core/record.ts';

import { Backoff, type Collector } from './collect.ts';
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
export class TableCollector implements Collector {
  lastError: unknown;
  readonly othersReceived = 0;
  readonly #options: TableCollectorOptions;

  constructor(options: TableCollectorOptions) {
    this.#options = options;
    void this.#collectWhileWanted();
  }

  async settled(): Promise<void> {}

  async close(): Promise<void> {}

  async #collectWhileWanted(): Promise<void> {
    const { inbox, table, closing } = this.#options;
    const backoff = new Backoff();
    while (!closing.aborted) {
      if (await inbox.demand()) backoff.reset();
      const moreWanted = inbox.moreWanted();
      try {
        if ((await this.#askForAll()) > 0) backoff.reset();
        this.lastError = undefined;
      } catch (cause) {
        if (closing.aborted) return;
        this.lastError = cause;
        if (isCallersFault(cause)) {
          inbox.fail(new Error(`the result table ${table} cannot be read: ${describeError(cause)}`, { cause }));
        }
      }
      await backoff.pause(moreWanted);
    }
  }

  /** One round. @returns how many results came */
  async #askForAll(): Promise<number> {
    const inFlight = pLimit(CALLS_IN_FLIGHT);
    const wanted = this.#options.inbox.wanted();
    const calls = Array.from({ length: Math.ceil(wanted.length / KEYS_A_CALL) }, (_, call) =>
      inFlight(() => this.#ask(wanted.slice(call * KEYS_A_CALL, (call + 1) * KEYS_A_CALL))),
    );
    const counts = await Promise.all(calls);
    return counts.reduce((sum, count) => sum + count, 0);
  }

  /** What the table does not answer in this round, unprocessed keys among it, is still wanted in the next. */
  async #ask(messageIds: readonly string[]): Promise<number> {
    const { dynamodb, table, inbox, closing } = this.#options;
    const Keys = messageIds
      .filter((messageId) => inbox.stateOf(messageId) === 'wanted')
      .map((messageId) => ({ [MESSAGE_ID_ATTRIBUTE]: { S: messageId } }));
    if (Keys.length === 0) return 0;
    const ProjectionExpression = '#messageId, #body, #pointer';
    const ExpressionAttributeNames = {
      '#messageId': MESSAGE_ID_ATTRIBUTE,
      '#body': BODY_ATTRIBUTE,
      '#pointer': POINTER_ATTRIBUTE,
    };
    const RequestItems = { [table]: { Keys, ProjectionExpression, ExpressionAttributeNames } };
    const { Responses } = await dynamodb.send(new BatchGetItemCommand({ RequestItems }), { abortSignal: closing });
    const delivered = await Promise.all((Responses?.[table] ?? []).map((item) => this.#deliver(item)));
    return delivered.filter(Boolean).length;
  }

  async #deliver(item: Record<string, AttributeValue>): Promise<boolean> {
    const { inbox, read } = this.#options;
    const { messageId, body, pointer } = ITEM.parse(item);
    const stored = body?.S ?? pointer?.S;
    const result =
      stored === undefined
        ? invalidResult(messageId.S, 'got an item with neither a body nor a pointer')
        : (await read(messageId.S, stored)).result;
    return inbox.deliver({ result, accept: () => {}, giveBack: () => {} });
  }
}
