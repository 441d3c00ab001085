import pLimit from 'p-limit';
import { preview } from '../lambda/core/failure.ts';
import { EXPECTED_KEY_PREFIX, isKeyPrefix } from '../lambda/core/places.ts';
import { type MessageRecord, orderingGroup } from '../lambda/core/record.ts';
import {
  createPayloadSource,
  createReader,
  type PayloadSource,
  type ReadStored,
  readMessage,
  type S3Reader,
  type ScoringResult,
  type SingleResult,
} from './readResult.ts';

/**
 * Delivery of a result. A result may arrive more than once, but `messageId` and `position` always identify its request.
 */
export interface Delivery {
  /** Position of the request in its message. 0 unless the message was packed. */
  readonly position: number;
  /** Number of receives of the message with the result. From 2 on, some of its results may already be consumed. */
  readonly receiveCount: number;
  /** Message group on a FIFO queue. */
  readonly messageGroupId: string | undefined;
  /** ID of the message that contains the result, alone or with others. */
  readonly recordId: string;
}

/** Consumes the answer to one request. If it throws or rejects, the message with the answer goes back to the queue. */
export type ConsumeResult = (result: SingleResult, delivery: Delivery) => unknown;

export interface ConsumeOptions {
  /** Name of the deployment's payload bucket, which contains results that are too large for the queue. @default none */
  readonly payloadBucket?: string | undefined;
  /** Prefix of the deployment's keys, if it shares the payload bucket with other deployments. @default '' */
  readonly payloadPrefix?: string | undefined;
  /** Client that reads the payload bucket. @default none: messages that point to the bucket go back to the queue */
  readonly s3?: S3Reader | undefined;
  /** Maximum messages, or message groups of a FIFO queue, that are consumed at the same time, from 1. @default 10 */
  readonly concurrency?: number | undefined;
  /** Callback for each message that goes back to the queue, with the reason. It is awaited. @default console.error */
  readonly onFailure?: ((error: unknown, recordId: string) => unknown) | undefined;
}

/** Part of Lambda's SQS event that is read here. */
export interface ResultEvent {
  readonly Records: readonly MessageRecord[];
}

/** Response for Lambda. The event source mapping must have `ReportBatchItemFailures`. */
export interface ResultResponse {
  readonly batchItemFailures: { readonly itemIdentifier: string }[];
}

/**
 * Returns a Lambda handler for the result queue: `export const handler = consumeResults(async (result) => { … })`.
 *
 * The callback gets the answers of a message, or of a message group on a FIFO queue, one after the other. If it throws,
 * the whole message goes back to the queue, and all its results arrive again, including consumed ones of a packed
 * message. On a FIFO queue, no later message of the group is consumed.
 *
 * @throws TypeError if options are invalid
 */
export function consumeResults(
  consume: ConsumeResult,
  options: ConsumeOptions = {},
): (event: ResultEvent) => Promise<ResultResponse> {
  const { concurrency = 10, onFailure = logFailure } = options;
  if (!(Number.isInteger(concurrency) && concurrency >= 1)) {
    throw new TypeError(`concurrency: expected a whole number from 1, got ${concurrency}`);
  }
  const read = createReader(payloadsOf(options));
  const atATime = pLimit(concurrency);

  const consumeRecord = async (record: MessageRecord): Promise<void> => {
    const delivery = {
      receiveCount: Number(record.attributes.ApproximateReceiveCount),
      messageGroupId: orderingGroup(record),
      recordId: record.messageId,
    };
    for (const { result, position } of await readRecord(record, read)) await consume(result, { position, ...delivery });
  };
  /** @returns the IDs of the messages that go back to the queue: the first that failed, and all after it */
  const consumeInOrder = async (records: readonly MessageRecord[]): Promise<string[]> => {
    for (const [index, record] of records.entries()) {
      try {
        await consumeRecord(record);
      } catch (error) {
        const behind = records.slice(index + 1).map(({ messageId }) => messageId);
        await report(onFailure, error, record.messageId);
        const why = `not consumed: it is behind ${record.messageId} of its message group, which goes back to the queue`;
        for (const recordId of behind) await report(onFailure, new Error(why, { cause: error }), recordId);
        return [record.messageId, ...behind];
      }
    }
    return [];
  };
  return async ({ Records }) => {
    // Messages of a group are consumed one after the other. Other messages are independent.
    const sequences = Map.groupBy(Records, (record) => orderingGroup(record) ?? record).values();
    const failed = await Promise.all(Array.from(sequences, (records) => atATime(() => consumeInOrder(records))));
    return { batchItemFailures: failed.flat().map((itemIdentifier) => ({ itemIdentifier })) };
  };
}

/** Reports a failure. If the callback itself fails, consumed messages must not go back to the queue. */
async function report(onFailure: NonNullable<ConsumeOptions['onFailure']>, error: unknown, recordId: string) {
  try {
    await onFailure(error, recordId);
  } catch (unreported) {
    logFailure(error, recordId);
    console.error('onFailure:', unreported);
  }
}

/** Logs an error of the consumer with its stack, and an unreadable message in one line. */
function logFailure(error: unknown, recordId: string): void {
  console.error(
    `result message ${recordId} goes back to its queue:`,
    error instanceof UnreadableError ? error.message : error,
  );
}

function payloadsOf({ payloadBucket, payloadPrefix = '', s3 }: ConsumeOptions): PayloadSource | undefined {
  if ((payloadBucket === undefined) !== (s3 === undefined)) {
    const [has, lacks] = s3 === undefined ? ['payloadBucket', 's3'] : ['s3', 'payloadBucket'];
    throw new TypeError(`expected payloadBucket and s3, or neither, got ${has} alone; set ${lacks} too`);
  }
  if (!isKeyPrefix(payloadPrefix)) {
    throw new TypeError(`payloadPrefix: ${EXPECTED_KEY_PREFIX}, got ${preview(payloadPrefix)}; take the deployment's`);
  }
  if (payloadBucket === undefined || s3 === undefined) return undefined;
  return createPayloadSource(payloadBucket, payloadPrefix, (object) => s3.getObject(object));
}

interface OneResult {
  readonly result: SingleResult;
  /** Position of the request in its message. 0 unless the message was packed. */
  readonly position: number;
}

/**
 * Returns the answers in a message of a result queue, in order, for all message forms.
 *
 * @throws Error if the message has no results, or its payload cannot be read. None of it may be consumed then
 */
async function readRecord(record: MessageRecord, read: ReadStored): Promise<OneResult[]> {
  const stored = readMessage(record);
  if ('problem' in stored) throw new UnreadableError(stored.problem);
  const answers: OneResult[] = [];
  for (const one of stored) {
    const { result, complete } = await one.read(read);
    if (!complete && 'error' in result) throw result.error;
    answers.push(...resultsOf(result));
  }
  return answers;
}

/** Error of a message without results, or with incomplete ones. */
class UnreadableError extends Error {
  override readonly name = 'UnreadableError';
}

function resultsOf(result: ScoringResult): OneResult[] {
  const results = 'results' in result ? result.results : [result];
  for (const one of results) {
    if ('error' in one && one.error.code === 'INVALID_RESULT') throw one.error;
  }
  return results.map((one, position) => ({ result: one, position }));
}
