import { preview } from '../lambda/core/failure.ts';
import { FILL } from '../lambda/core/limits.ts';
import { createJobs, type Jobs } from './clientJobs.ts';
import { type BatchscoreOptions, readOptions, type Settings } from './clientOptions.ts';
import { type CollectOptions, type Collector, collect } from './collect.ts';
import { QueueCollector } from './collectFromQueue.ts';
import { TableCollector } from './collectFromTable.ts';
import type { ScoreRequest, TensorRequest } from './encodeRequest.ts';
import { Inbox } from './inbox.ts';
import { createOutbox, createPayloads, type Outbox, type Payloads, type Sender } from './outbox.ts';
import {
  EXPECTED_PER_MESSAGE,
  isRequestsPerMessage,
  MAX_REQUESTS_PER_MESSAGE,
  type RequestsPerMessage,
  toEntry,
} from './packRequests.ts';
import { createReader, type OutputTensors, type ScoringResult } from './readResult.ts';
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
    const { resultTable, resultQueueUrl } = this.#settings;
    this.#outbox = createOutbox({
      ...this.#settings,
      resultQueueUrl: resultTable === undefined ? resultQueueUrl : undefined,
      payloads,
      closing: this.#closing.signal,
    });
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
   * @throws SubmitError when a request could not be encoded, pulled or sent, or the signal aborts, with the message IDs of
   * the others
   * @throws RangeError when `requestsPerMessage` is no number of requests that a message may hold
   * @throws Error when there is no request queue, or the AWS clients have no region
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
   * all that its message holds. A result is deleted from the result queue once the next one is asked for, or the loop is
   * left, also by an error: store it before anything can fail. The others stay, for a later call. If you call `next`
   * yourself, call `throw` to leave the result in hand there too.
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
    this.#results();
    await this.#assertRegion();
    return await score(inputs, options, { sender, inbox: this.#inbox });
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
   * returns the other messages to it, and destroys the AWS clients that it created.
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
    const most = perMessage === FILL ? MAX_REQUESTS_PER_MESSAGE : perMessage;
    return {
      send: (request, signal) => outbox.send(toEntry(request, most, this.#settings), most, signal),
      room: () => outbox.room(),
    };
  }

  #results(): Collector {
    if (this.#collector !== undefined) return this.#collector;
    throw new Error('expected resultQueueUrl or resultTable, to read results from, got neither; set one of them');
  }
}

function startCollector(
  { sqs, dynamodb, resultTable, resultQueueUrl, onUnclaimed }: Settings,
  payloads: Payloads | undefined,
  inbox: Inbox,
  closing: AbortSignal,
): Collector | undefined {
  const read = createReader(payloads);
  if (resultTable !== undefined) return new TableCollector({ dynamodb, table: resultTable, inbox, read, closing });
  if (resultQueueUrl !== undefined) {
    return new QueueCollector({ sqs, queueUrl: resultQueueUrl, inbox, read, onUnclaimed, warn, closing });
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
