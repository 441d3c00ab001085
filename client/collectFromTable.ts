import { setTimeout as sleep } from 'node:timers/promises';
import {
  type AttributeValue,
  BatchGetItemCommand,
  type DynamoDBClient,
  GetItemCommand,
} from '@aws-sdk/client-dynamodb';
import pLimit from 'p-limit';
import * as z from 'zod';
import { createDynamoDbClient } from '../lambda/aws/awsClients.ts';
import { describeError, isCallersFault } from '../lambda/aws/awsError.ts';
import { CLIENT_PATIENCE } from '../lambda/aws/sqsWire.ts';
import { withTimeout } from '../lambda/core/concurrency.ts';
import { BODY_ATTRIBUTE, MESSAGE_ID_ATTRIBUTE, POINTER_ATTRIBUTE } from '../lambda/core/record.ts';
import type { StoreTrouble } from './clientErrors.ts';
import type { ResultStore, StoreContext } from './collect.ts';
import { clientOption, NAME } from './optionKinds.ts';
import { invalidResult, type ScoringResult } from './readResult.ts';

export interface TableOptions {
  /** Name of the result table, for `collect` and `score`. If both stores are set, the table is read. */
  readonly resultTable?: string | undefined;
  /** @default a client in `region` that waits at most 30 s for an answer, destroyed by `close` */
  readonly dynamodb?: DynamoDBClient | undefined;
}

export const TABLE_OPTIONS = {
  resultTable: NAME.optional(),
  dynamodb: clientOption<DynamoDBClient>('DynamoDBClient').optional(),
};

interface TableStoreOptions extends TableOptions, StoreContext {
  readonly resultTable: string;
}

/** @see https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html */
const KEYS_A_CALL = 100;
const CALLS_IN_FLIGHT = 4;
const SHORTEST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;

/** A value that is not text counts as missing. */
const TEXT = z.object({ S: z.string() }).optional().catch(undefined);
const ITEM = z.object({ [MESSAGE_ID_ATTRIBUTE]: z.object({ S: z.string() }), body: TEXT, pointer: TEXT });

/**
 * Reads wanted results from the result table in rounds. After a round without results the pause doubles, from 50 ms to
 * 1 s. A new caller ends the pause.
 */
export class TableStore implements ResultStore {
  readonly clients: readonly [DynamoDBClient];
  readonly lookUp: NonNullable<ResultStore['lookUp']>;
  readonly #options: TableStoreOptions;
  #error: unknown;
  #isRunning = false;
  #called = Promise.withResolvers<void>();

  constructor(options: TableStoreOptions) {
    const { resultTable, dynamodb, config, own, inbox } = options;
    this.#options = options;
    this.clients = [dynamodb ?? own(createDynamoDbClient(CLIENT_PATIENCE, config))];
    this.lookUp = { where: resultTable, find: (messageId) => this.#find(messageId) };
    inbox.onWanted(() => {
      this.#called.resolve();
      this.#called = Promise.withResolvers();
      if (!this.#isRunning) void this.#collectWhileWanted();
    });
  }

  async settled(): Promise<void> {}

  async trouble(): Promise<StoreTrouble> {
    return { cause: this.#error };
  }

  async close(): Promise<void> {}

  async #find(messageId: string): Promise<ScoringResult | undefined> {
    const [dynamodb] = this.clients;
    const Key = { [MESSAGE_ID_ATTRIBUTE]: { S: messageId } };
    const { Item } = await dynamodb.send(
      new GetItemCommand({ TableName: this.#options.resultTable, Key, ConsistentRead: true }),
    );
    return Item && (await this.#read(Item));
  }

  async #collectWhileWanted(): Promise<void> {
    const { inbox, closing } = this.#options;
    let pauseMs = SHORTEST_PAUSE_MS;
    this.#isRunning = true;
    while (inbox.isWanting() && !closing.aborted) {
      const { promise: called } = this.#called;
      let count = 0;
      try {
        count = await this.#askForAll();
        this.#error = undefined;
      } catch (cause) {
        if (closing.aborted) return;
        this.#error = cause;
        if (isCallersFault(cause)) {
          inbox.fail(
            new Error(`the result table ${this.#options.resultTable} cannot be read: ${describeError(cause)}`, {
              cause,
            }),
          );
        }
      }
      await sleep(SHORTEST_PAUSE_MS);
      await withTimeout(called, pauseMs - SHORTEST_PAUSE_MS);
      const isNews = count > 0 || this.#called.promise !== called;
      pauseMs = isNews ? SHORTEST_PAUSE_MS : Math.min(LONGEST_PAUSE_MS, 2 * pauseMs);
    }
    this.#isRunning = false;
  }

  /** Makes one round. @returns number of results that arrived */
  async #askForAll(): Promise<number> {
    const inFlight = pLimit(CALLS_IN_FLIGHT);
    const wanted = this.#options.inbox.wanted();
    const calls = Array.from({ length: Math.ceil(wanted.length / KEYS_A_CALL) }, (_, call) =>
      inFlight(() => this.#ask(wanted.slice(call * KEYS_A_CALL, (call + 1) * KEYS_A_CALL))),
    );
    const counts = await Promise.all(calls);
    return counts.reduce((sum, count) => sum + count, 0);
  }

  /** Reads these keys. Unanswered and unprocessed ones stay wanted for the next round. */
  async #ask(messageIds: readonly string[]): Promise<number> {
    const { inbox, closing } = this.#options;
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
    const RequestItems = { [this.#options.resultTable]: { Keys, ProjectionExpression, ExpressionAttributeNames } };
    const { Responses } = await this.clients[0].send(new BatchGetItemCommand({ RequestItems }), {
      abortSignal: closing,
    });
    const items = Responses?.[this.#options.resultTable] ?? [];
    await Promise.all(items.map(async (item) => inbox.deliver(await this.#read(item))));
    return items.length;
  }

  async #read(item: Record<string, AttributeValue>): Promise<ScoringResult> {
    const { messageId, body, pointer } = ITEM.parse(item);
    const stored = body?.S ?? pointer?.S;
    if (stored === undefined) return invalidResult(messageId.S, 'got an item with neither a body nor a pointer');
    return (await this.#options.read(messageId.S, stored)).result;
  }
}
