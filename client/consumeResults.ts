import pLimit from 'p-limit';
import { preview } from '../lambda/core/failure.ts';
import { EXPECTED_KEY_PREFIX, isKeyPrefix, resultKeys } from '../lambda/core/places.ts';
import { type MessageRecord, orderingGroup } from '../lambda/core/record.ts';
import {
  createReader,
  type PayloadSource,
  type ReadStored,
  readMessage,
  type ScoringResult,
  type SingleResult,
} from './readResult.ts';

/** How a result came. Together with its `messageId`, `position` names a request for good: a result may come again. */
export interface Delivery {
  /** The place of the request in its message: 0, unless the message was packed. */
  readonly position: number;
  /** How often the message that holds the result was received; from 2 on some of its results may have been consumed. */
  readonly receiveCount: number;
  /** The message group on a FIFO queue. */
  readonly messageGroupId: string | undefined;
  /** The message ID of the message that holds the result, alone or with others. */
  readonly recordId: string;
}

/** Consumes the answer to one request. What it throws, or rejects with, hands back the message that holds it. */
export type ConsumeResult = (result: SingleResult, delivery: Delivery) => unknown;

/** A client of S3: `new S3()` of `@aws-sdk/client-s3`. */
export interface S3Reader {
  getObject(input: { readonly Bucket: string; readonly Key: string }): Promise<{
    readonly Body?: { transformToString(encoding?: string): Promise<string> } | undefined;
  }>;
}

export interface ConsumeOptions {
  /** The deployment's payload bucket, where results lie that are too large for the queue. @default none */
  readonly payloadBucket?: string | undefined;
  /** What the deployment's keys in the payload bucket begin with, where it shares the bucket with others. @default '' */
  readonly payloadPrefix?: string | undefined;
  /** Reads the payload bucket. @default none: a message that points there is handed back */
  readonly s3?: S3Reader | undefined;
  /** Most messages, or message groups of a FIFO queue, that are consumed at the same time, from 1. @default 10 */
  readonly concurrency?: number | undefined;
  /** Told of each message that is handed back, and why; it is waited for. @default console.error */
  readonly onFailure?: ((error: unknown, recordId: string) => unknown) | undefined;
}

/** What Lambda gives a function behind an SQS queue, as far as it is read here. */
export interface ResultEvent {
  readonly Records: readonly MessageRecord[];
}

/** What Lambda is answered; the event source mapping must have `ReportBatchItemFailures`. */
export interface ResultResponse {
  readonly batchItemFailures: { readonly itemIdentifier: string }[];
}

/**
 * A Lambda handler behind the result queue: `export const handler = consumeResults(async (result) => { … })`.
 *
 * The callback is given each answer, one after the other within a message and within a message group of a FIFO queue.
 * When it throws, the message goes back to the queue as a whole, and all its results come again: those of a packed
 * message that were consumed before as well. After it nothing of its message group is consumed.
 *
 * @throws TypeError for options that are wrong
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
  /** @returns the message IDs of those that are handed back: the first that failed, and all behind it */
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
    // Those of a message group are consumed one after the other; any other record stands alone.
    const sequences = Map.groupBy(Records, (record) => orderingGroup(record) ?? record).values();
    const failed = await Promise.all(Array.from(sequences, (records) => atATime(() => consumeInOrder(records))));
    return { batchItemFailures: failed.flat().map((itemIdentifier) => ({ itemIdentifier })) };
  };
}

/** One that fails itself must not have the messages handed back that were consumed. */
async function report(onFailure: NonNullable<ConsumeOptions['onFailure']>, error: unknown, recordId: string) {
  try {
    await onFailure(error, recordId);
  } catch (unreported) {
    logFailure(error, recordId);
    console.error('onFailure:', unreported);
  }
}

/** What the consumer threw is logged with its stack, a message that is none of ours in one line. */
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
  return {
    bucket: payloadBucket,
    resultKeys: resultKeys(payloadPrefix),
    async get({ bucket: Bucket, key: Key }) {
      const { Body } = await s3.getObject({ Bucket, Key });
      if (Body === undefined) throw new Error(`expected a body at s3://${Bucket}/${Key}, got none`);
      return await Body.transformToString('utf-8');
    },
  };
}

/** The answer to one request, and which of its message it was. */
interface OneResult {
  readonly result: SingleResult;
  /** The place of the request in its message: 0, unless the message was packed. */
  readonly position: number;
}

/**
 * The answers in a message of a result queue, in their order, whatever its form.
 *
 * @throws Error when it is no message of results, or its payload cannot be read: nothing of it may be taken
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

/** A message holds no results, or they are cut short. */
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
