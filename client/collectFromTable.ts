import { setTimeout as sleep } from 'node:timers/promises';
import { type AttributeValue, BatchGetItemCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import pLimit from 'p-limit';
import * as z from 'zod';
import { describeError, isCallersFault } from '../lambda/aws/awsError.ts';
import { withTimeout } from '../lambda/core/concurrency.ts';
import { BODY_ATTRIBUTE, MESSAGE_ID_ATTRIBUTE, POINTER_ATTRIBUTE } from '../lambda/core/record.ts';
import type { StoreTrouble } from './clientErrors.ts';
import type { Collector } from './collect.ts';
import type { Inbox } from './inbox.ts';
import { invalidResult, type ReadStored } from './readResult.ts';

interface TableCollectorOptions {
  readonly dynamodb: DynamoDBClient;
  readonly table: string;
  readonly inbox: Inbox;
  readonly read: ReadStored;
  readonly closing: AbortSignal;
}

/** @see https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html */
const KEYS_A_CALL = 100;
const CALLS_IN_FLIGHT = 4;
const SHORTEST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;

/** A body that is not text counts as missing. */
const TEXT = z.object({ S: z.string() }).optional().catch(undefined);
const ITEM = z.object({ [MESSAGE_ID_ATTRIBUTE]: z.object({ S: z.string() }), body: TEXT, pointer: TEXT });

/**
 * Reads wanted results from the result table in rounds. After a round without results the pause doubles, from 50 ms to
 * 1 s. A new caller ends the pause.
 */
export class TableCollector implements Collector {
  readonly #options: TableCollectorOptions;
  #error: unknown;

  constructor(options: TableCollectorOptions) {
    this.#options = options;
    void this.#collectWhileWanted();
  }

  async settled(): Promise<void> {}

  async trouble(): Promise<StoreTrouble> {
    return { cause: this.#error };
  }

  async close(): Promise<void> {}

  async #collectWhileWanted(): Promise<void> {
    const { inbox, table, closing } = this.#options;
    let pauseMs = SHORTEST_PAUSE_MS;
    while (!closing.aborted) {
      if (await inbox.demand()) pauseMs = SHORTEST_PAUSE_MS;
      const moreWanted = inbox.moreWanted();
      let count = 0;
      try {
        count = await this.#askForAll();
        this.#error = undefined;
      } catch (cause) {
        if (closing.aborted) return;
        this.#error = cause;
        if (isCallersFault(cause)) {
          inbox.fail(new Error(`the result table ${table} cannot be read: ${describeError(cause)}`, { cause }));
        }
      }
      await sleep(SHORTEST_PAUSE_MS);
      await withTimeout(moreWanted, pauseMs - SHORTEST_PAUSE_MS);
      const isNews = count > 0 || inbox.moreWanted() !== moreWanted;
      pauseMs = isNews ? SHORTEST_PAUSE_MS : Math.min(LONGEST_PAUSE_MS, 2 * pauseMs);
    }
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
    const items = Responses?.[table] ?? [];
    await Promise.all(items.map((item) => this.#deliver(item)));
    return items.length;
  }

  async #deliver(item: Record<string, AttributeValue>): Promise<void> {
    const { inbox, read } = this.#options;
    const { messageId, body, pointer } = ITEM.parse(item);
    const stored = body?.S ?? pointer?.S;
    const result =
      stored === undefined
        ? invalidResult(messageId.S, 'got an item with neither a body nor a pointer')
        : (await read(messageId.S, stored)).result;
    inbox.deliver(result);
  }
}
