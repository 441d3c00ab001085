import { type AttributeValue, BatchGetItemCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import pLimit from 'p-limit';
import * as z from 'zod';
import { describeError, isCallersFault } from '../lambda/aws/awsError.ts';
import { preview } from '../lambda/core/failure.ts';
import { BODY_ATTRIBUTE, MESSAGE_ID_ATTRIBUTE, POINTER_ATTRIBUTE } from '../lambda/core/record.ts';
import { createJobs, type Jobs } from './clientJobs.ts';
import { type BatchscoreOptions, readOptions, type Settings } from './clientOptions.ts';
import { Backoff, type CollectOptions, type Collector, collect } from './collect.ts';
import { QueueCollector } from './collectFromQueue.ts';
import type { ScoreRequest, TensorRequest } from './encodeRequest.ts';
import { Inbox } from './inbox.ts';
import { createOutbox, type Outbox, type Sender } from './outbox.ts';
import { EXPECTED_PER_MESSAGE, isRequestsPerMessage, type RequestsPerMessage, toEntry } from './packRequests.ts';
import { createPayloads, type Payloads } from './payloadBucket.ts';
import { createReader, invalidResult, type OutputTensors, type ReadStored, type ScoringResult } from './readResult.ts';
import { type ScoreOptions, score } from './score.ts';
import { type MessageStatus, statusOf } from './status.ts';
import { type SubmitOptions, submit } from './submit.ts';

/**
 * A producer's connection to a batchscore deployment. Create one and share it: requests sent at the same time share
 * calls, and results waited for at the same time share polls.
 */
export class Batchscore {
  readonly #settings: Settings;
  readonly #payloads: Payloads | undefined;
  readonly #outbox: Outbox | undefined;
  readonly #inbox = new Inbox();
  readonly #collector: Collector | undefined;
  readonly #closing = new AbortController();
  #jobs: Jobs | undefined;

  /** @throws TypeError listing everything that is wrong with the options */
  constructor(options: BatchscoreOptions) {
    this.#settings = readOptions(options);
    const { s3, payloadBucket, payloadPrefix } = this.#settings;
    const payloads = payloadBucket === undefined ? undefined : createPayloads(s3, payloadBucket, payloadPrefix);
    this.#payloads = payloads;
    this.#outbox = createOutbox({ ...this.#settings, payloads, closing: this.#closing.signal });
    this.#collector = startCollector(this.#settings, payloads, this.#inbox, this.#closing.signal);
  }

  /**
   * The jobs of the deployment: files in S3 that are scored in place.
   *
   * @throws Error when it is not said where they are
   */
  get jobs(): Jobs {
    const { jobStateMachine: stateMachineArn, jobBucket: bucket, ...settings } = this.#settings;
    if (stateMachineArn === undefined || bucket === undefined) {
      throw new Error('expected jobStateMachine and jobBucket, got none; set both options');
    }
    this.#jobs ??= createJobs({
      stateMachineArn,
      bucket,
      inputPrefix: settings.jobInputPrefix,
      outputPrefix: settings.jobOutputPrefix,
      concurrency: settings.jobConcurrency,
      s3: settings.s3,
      sfn: settings.sfn,
    });
    return this.#jobs;
  }

  /**
   * Sends requests to the request queue, ten messages or 1 MiB a call. They are pulled from the iterable only as fast
   * as the queue takes them. On a FIFO queue they are sent in order, but a message that SQS did not take at first may
   * end up behind its neighbours.
   *
   * @returns the message IDs, in the order of the requests; `<message ID>/<position>` for those that share a message
   * @throws SubmitError when a request could not be encoded, pulled or sent, with the message IDs of the others
   * @throws RangeError when `requestsPerMessage` is no number of requests that a message may hold
   * @throws Error when there is no request queue, or the AWS clients have no region
   * @throws the signal's reason when it aborts
   */
  async submit(
    requests: Iterable<ScoreRequest> | AsyncIterable<ScoreRequest>,
    { requestsPerMessage: perMessage = this.#settings.requestsPerMessage, ...options }: SubmitOptions = {},
  ): Promise<string[]> {
    this.#assertOpen();
    if (!isRequestsPerMessage(perMessage)) {
      throw new RangeError(`requestsPerMessage: ${EXPECTED_PER_MESSAGE}, got ${preview(perMessage)}`);
    }
    await this.#assertRegion();
    return await submit(requests, options, this.#sender(perMessage));
  }

  /**
   * Yields the results of these message IDs as they come, each once, and ends when all have come. A request that was
   * not scored is a result with `error`. An ID with a position yields the result of that request, one without a position
   * all that its message holds. A result is deleted from the result queue once the next one is asked for,
   * or the loop is left, also by an error: keep it before anything can fail. Leaving the loop early leaves the rest on
   * the queue. Whoever calls `next` itself gives the result in hand back by calling `throw`.
   *
   * @throws TypeError when an ID is none that `submit` gives
   * @throws CollectTimeoutError when not all came within `timeoutMs`, with the message IDs that are missing
   * @throws the signal's reason when it aborts
   * @throws Error when the result store cannot be read, none is configured, or the AWS clients have no region
   */
  collect(messageIds: Iterable<string>, options: CollectOptions): AsyncGenerator<ScoringResult, void, undefined> {
    this.#assertOpen();
    return this.#collect(messageIds, options, this.#results());
  }

  async *#collect(
    messageIds: Iterable<string>,
    options: CollectOptions,
    collector: Collector,
  ): AsyncGenerator<ScoringResult, void, undefined> {
    await this.#assertRegion();
    yield* collect(messageIds, options, { inbox: this.#inbox, collector });
  }

  /**
   * Scores one request: `await client.score({ image: { data: pixels, shape: [1, 64] } })`. Concurrent callers share
   * calls and polls. Each gets its own outputs or its own error, and no promise is left pending.
   *
   * @param inputs by name, each `[rows, …]`
   * @returns the outputs by name, each `[rows, …]`, row-major
   * @throws ScoringError when it was not scored, or not in time
   * @throws RequestError when an input cannot be encoded, or its request is too large for the queue
   * @throws Error when there is no request queue or no store of results, or the AWS clients have no region
   * @throws the signal's reason when it aborts
   */
  async score(inputs: TensorRequest['inputs'], options: ScoreOptions = {}): Promise<OutputTensors> {
    this.#assertOpen();
    const sender = this.#sender(this.#settings.requestsPerMessage);
    const collector = this.#results();
    await this.#assertRegion();
    return await score(inputs, options, { sender, inbox: this.#inbox, collector });
  }

  /**
   * What became of one message, from the stores that can tell. Each dead letter that is looked at, 1,000 at the most, is
   * received once more.
   *
   * @throws Error when there is no request queue, or the AWS clients have no region
   */
  async status(messageId: string): Promise<MessageStatus> {
    this.#assertOpen();
    this.#sender(1);
    await this.#assertRegion();
    return await statusOf(messageId, { ...this.#settings, read: createReader(this.#payloads) });
  }

  /**
   * Ends every wait, lets running polls finish (at most 2 s), deletes from the result queue what callers received,
   * gives back what is not theirs, and destroys the AWS clients that it created.
   */
  async close(): Promise<void> {
    const closed = new Error('the Batchscore client was closed');
    this.#inbox.close(closed);
    await this.#collector?.close();
    this.#closing.abort(closed);
    for (const client of this.#settings.ownClients) client.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #assertOpen(): void {
    this.#closing.signal.throwIfAborted();
  }

  async #assertRegion(): Promise<void> {
    const { sqs, dynamodb, resultTable } = this.#settings;
    await assertRegion(resultTable === undefined ? [sqs] : [sqs, dynamodb]);
  }

  /** @throws Error when there is no request queue */
  #sender(perMessage: RequestsPerMessage): Sender {
    const outbox = this.#outbox;
    if (outbox === undefined) throw new Error('expected requestQueueUrl, to send requests to, got none; set it');
    return {
      send: (request, signal) => outbox.send(toEntry(request, perMessage, this.#settings), perMessage, signal),
      room: () => outbox.room(),
    };
  }

  #results(): Collector {
    if (this.#collector !== undefined) return this.#collector;
    throw new Error('expected resultQueueUrl or resultTable, to read results from, got neither; set one of them');
  }
}

function startCollector(
  { sqs, dynamodb, resultTable, resultQueueUrl }: Settings,
  payloads: Payloads | undefined,
  inbox: Inbox,
  closing: AbortSignal,
): Collector | undefined {
  const read = createReader(payloads);
  if (resultTable !== undefined) return new TableCollector({ dynamodb, table: resultTable, inbox, read, closing });
  if (resultQueueUrl !== undefined) {
    return new QueueCollector({ sqs, queueUrl: resultQueueUrl, inbox, read, warn, closing });
  }
  return undefined;
}

function warn(message: string): void {
  process.emitWarning(message, 'BatchscoreWarning');
}

/** A client of the AWS SDK, which looks for its region when it is first used. */
interface RegionalClient {
  readonly config: { region(): Promise<string> };
}

/** @throws Error saying what to set when a client has no region, which the SDK reports as if it might pass */
export async function assertRegion(clients: readonly RegionalClient[]): Promise<void> {
  try {
    await Promise.all(clients.map(({ config }) => config.region()));
  } catch (cause) {
    throw new Error('expected an AWS region, got none; set region, AWS_REGION, or the region of the AWS profile', {
      cause,
    });
  }
}

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
class TableCollector implements Collector {
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
