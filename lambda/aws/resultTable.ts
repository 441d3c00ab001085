import { type AttributeValue, BatchWriteItemCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import pLimit from 'p-limit';
import {
  BODY_ATTRIBUTE,
  EXPIRES_AT_ATTRIBUTE,
  MESSAGE_ID_ATTRIBUTE,
  POINTER_ATTRIBUTE,
  pointerBody,
  type Result,
  type ResultWriter,
} from '../core/record.ts';
import { createDynamoDbClient } from './awsClients.ts';
import { CALLS_IN_FLIGHT, packBatches, type Refusal, type RetryOptions, sendBatches } from './sendBatches.ts';
import { HOST_PATIENCE } from './sqsWire.ts';
import {
  type Container,
  type OpenStore,
  type PayloadUploader,
  placeOf,
  refusedForSize,
  sendOrOffload,
} from './storeEntries.ts';

export const openTableStore: OpenStore = ({ resultTable, resultTtlSeconds }, { clients, payloads }) =>
  createTableWriter({
    dynamodb: clients.dynamodb ?? createDynamoDbClient(HOST_PATIENCE),
    tableName: placeOf('table', resultTable),
    ttlSeconds: resultTtlSeconds,
    payloads,
  });

export interface TableWriterOptions {
  readonly dynamodb: DynamoDBClient;
  readonly tableName: string;
  /** Time until DynamoDB may delete a result, at least 1. */
  readonly ttlSeconds: number;
  /** Store for results over 400 KB; the item is then a pointer. @default none: such a result is refused */
  readonly payloads?: PayloadUploader | undefined;
  readonly retry?: RetryOptions;
  /** Milliseconds since the epoch. @default Date.now */
  readonly now?: () => number;
}

interface Entry {
  readonly result: Result;
  readonly item: Readonly<Record<string, AttributeValue>>;
  /** Size of the item as DynamoDB counts it. */
  readonly itemBytes: number;
  readonly bytes: number;
}

/**
 * Writes results to a DynamoDB table, in concurrent batch requests of up to 25 items. A result replaces an earlier one
 * of the same message ID. Of several in one write, which DynamoDB would refuse, the last one is kept.
 */
export function createTableWriter(options: TableWriterOptions): ResultWriter {
  const { dynamodb, tableName, ttlSeconds, payloads, retry, now = Date.now } = options;
  const inFlight = pLimit(CALLS_IN_FLIGHT);
  const expiry = (): string => String(Math.floor(now() / 1000) + ttlSeconds);
  const container: Container<Entry> = {
    container: 'a DynamoDB item',
    bytesOf: ({ itemBytes }) => itemBytes,
    maxBytes: () => MAX_ITEM_BYTES,
    payloads,
  };

  return {
    write(results, signal) {
      const expiresAt = expiry();
      const attempt = (batch: readonly Entry[]) => inFlight(() => put(dynamodb, tableName, batch, signal));
      const pack = (entries: readonly Entry[]) => packBatches(entries, MAX_BATCH_ITEMS, MAX_BATCH_BYTES);
      return sendOrOffload(lastOfEach(results.map((result) => toEntry(result, expiresAt))), {
        ...container,
        toPointer: ({ result }, pointer) =>
          entryOf(result, { [POINTER_ATTRIBUTE]: { S: pointerBody(pointer) } }, expiresAt),
        signal,
        sendBatches: (entries) => sendBatches(entries, { store: 'result table', pack, attempt, signal, retry }),
      });
    },
    refuses: (result) => (payloads === undefined ? refusedForSize(toEntry(result, expiry()), container) : undefined),
  };
}

function lastOfEach(entries: readonly Entry[]): Entry[] {
  const last = new Map(entries.map((entry) => [entry.result.messageId, entry]));
  return entries.map((entry) => last.get(entry.result.messageId) ?? entry);
}

function toEntry(result: Result, expiresAt: string): Entry {
  return entryOf(result, { [BODY_ATTRIBUTE]: { S: result.body } }, expiresAt);
}

function entryOf(result: Result, content: Record<string, AttributeValue.SMember>, expiresAt: string): Entry {
  const texts = { [MESSAGE_ID_ATTRIBUTE]: { S: result.messageId }, ...content };
  let itemBytes = EXPIRES_AT_ATTRIBUTE.length + MAX_NUMBER_BYTES;
  for (const [name, { S }] of Object.entries(texts)) itemBytes += Buffer.byteLength(name) + Buffer.byteLength(S);
  const item = { ...texts, [EXPIRES_AT_ATTRIBUTE]: { N: expiresAt } };
  return { result, item, itemBytes, bytes: MAX_ESCAPED * itemBytes + FRAME_BYTES };
}

/** @see https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html */
const MAX_NUMBER_BYTES = 21;
/** Maximum growth of a JSON text as a JSON string: quotes, backslashes and line breaks take two bytes each. */
const MAX_ESCAPED = 2;
/** Size of an item's braces, quotes and types in a batch request. */
const FRAME_BYTES = 128;

/** Sends one batch request. A 200 response may name items that DynamoDB had no capacity for. */
async function put(
  dynamodb: DynamoDBClient,
  tableName: string,
  batch: readonly Entry[],
  signal: AbortSignal,
): Promise<Refusal<Entry>[]> {
  const requests = batch.map(({ item }) => ({ PutRequest: { Item: item } }));
  const command = new BatchWriteItemCommand({ RequestItems: { [tableName]: requests } });
  const { UnprocessedItems = {} } = await dynamodb.send(command, { abortSignal: signal });
  const left = Object.values(UnprocessedItems).flat();
  const ids = new Set(left.map(({ PutRequest }) => PutRequest?.Item?.[MESSAGE_ID_ATTRIBUTE]?.S));
  return batch
    .filter(({ result }) => ids.has(result.messageId))
    .map((entry) => ({ entry, reason: 'DynamoDB had no capacity left for this item', again: true, outage: 'busy' }));
}

/** @see https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html */
const MAX_ITEM_BYTES = 409_600;
const MAX_BATCH_ITEMS = 25;
/** 16 MiB without the frame of a batch request. */
const MAX_BATCH_BYTES = 16 * 1024 * 1024 - 4 * 1024;
