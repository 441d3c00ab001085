import { createJobs, type Jobs } from './clientJobs.ts';
import { type BatchscoreOptions, openResultStore, readOptions, type Settings } from './clientOptions.ts';
import { type CollectOptions, collect, type RegionalClient, type ResultStore } from './collect.ts';
import type { ScoreRequest, TensorRequest } from './encodeRequest.ts';
import { Inbox } from './inbox.ts';
import { createOutbox, createPayloads, type Outbox } from './outbox.ts';
import { createReader, type OutputTensors, type ScoringResult } from './readResult.ts';
import { type ScoreOptions, score } from './score.ts';
import { type MessageStatus, statusOf } from './status.ts';
import { type SubmitOptions, submit } from './submit.ts';

/**
 * Producer's connection to a batchscore deployment. Create one instance and share it: concurrent requests share calls,
 * and concurrent waits share polls.
 */
export class Batchscore {
  readonly #settings: Settings;
  readonly #outbox: Outbox | undefined;
  readonly #inbox = new Inbox();
  readonly #store: ResultStore | undefined;
  readonly #closing = new AbortController();
  #jobs: Jobs | undefined;

  /** @throws TypeError listing all problems with the options */
  constructor(options: BatchscoreOptions) {
    this.#settings = readOptions(options);
    const { s3, payloadBucket, payloadPrefix } = this.#settings;
    const payloads = payloadBucket === undefined ? undefined : createPayloads(s3, payloadBucket, payloadPrefix);
    const { signal: closing } = this.#closing;
    const context = { inbox: this.#inbox, read: createReader(payloads), warn, closing };
    this.#store = openResultStore({ ...this.#settings, ...context });
    this.#outbox = createOutbox({ ...this.#settings, replyTo: this.#store?.replyTo, payloads });
  }

  /**
   * Jobs of the deployment, which score files in S3.
   *
   * @throws Error if the options for jobs are missing
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
   * Sends requests to the request queue, up to ten messages or 1 MiB per call. The iterable is pulled only as fast as
   * the queue accepts requests. On a FIFO queue they are sent in order, but a message that SQS did not accept at first
   * may end up after others.
   *
   * @returns the message IDs, in the order of the requests. IDs of requests that share a message are
   * `<message ID>/<position>`
   * @throws SubmitError with the accepted message IDs, if a request cannot be encoded, pulled or sent, the signal
   * aborts, or the client is closed
   * @throws Error if there is no request queue, or the AWS clients have no region
   */
  async submit(
    requests: Iterable<ScoreRequest> | AsyncIterable<ScoreRequest>,
    options: SubmitOptions = {},
  ): Promise<string[]> {
    this.#assertOpen();
    await this.#assertRegion();
    return await submit(requests, options, this.#requests());
  }

  /**
   * Yields the results of these message IDs as they arrive, each once, and ends when all have arrived. The result of a
   * request that was not scored has an `error`. An ID with a position yields the result of that request, and one
   * without yields all results of the message.
   *
   * A result is deleted from the result queue when you ask for the next one or leave the loop, including by an error.
   * Store it before an operation that may fail. Other results stay for a later call. If you call `next` yourself, call
   * `throw` to leave the current result on the queue.
   *
   * @throws TypeError if `submit` cannot have returned an ID
   * @throws CollectTimeoutError with the missing message IDs, if not all results arrive within `timeoutMs`
   * @throws the signal's reason if it aborts
   * @throws Error if the result store cannot be read, none is configured, or the AWS clients have no region
   */
  collect(messageIds: Iterable<string>, options: CollectOptions): AsyncGenerator<ScoringResult, void, undefined> {
    this.#assertOpen();
    return this.#collect(messageIds, options, this.#results());
  }

  async *#collect(
    messageIds: Iterable<string>,
    options: CollectOptions,
    store: ResultStore,
  ): AsyncGenerator<ScoringResult, void, undefined> {
    await this.#assertRegion();
    yield* collect(messageIds, options, { inbox: this.#inbox, store });
  }

  /**
   * Scores one request: `await client.score({ image: { data: pixels, shape: [1, 64] } })`. Concurrent callers share
   * calls and polls. Each gets its own outputs or error, and no promise stays pending.
   *
   * @param inputs by name, each `[rows, …]`
   * @returns the outputs by name, each `[rows, …]`, row-major
   * @throws ScoringError if the request is not scored, or not in time
   * @throws RequestError if an input cannot be encoded, or the request is too large for the queue
   * @throws Error if there is no request queue or no result store, or the AWS clients have no region
   * @throws the signal's reason if it aborts
   */
  async score(inputs: TensorRequest['inputs'], options: ScoreOptions = {}): Promise<OutputTensors> {
    this.#assertOpen();
    const outbox = this.#requests();
    this.#results();
    await this.#assertRegion();
    return await score(inputs, options, { outbox, inbox: this.#inbox });
  }

  /**
   * Returns the status of one message, from the stores that can be read. It receives up to 1,000 dead letters, which
   * counts as a receive of each.
   *
   * @throws Error if there is no request queue, or the AWS clients have no region
   */
  async status(messageId: string): Promise<MessageStatus> {
    this.#assertOpen();
    this.#requests();
    await this.#assertRegion();
    return await statusOf(messageId, { ...this.#settings, store: this.#store });
  }

  /**
   * Ends all waits, lets polls (at most 2 s) and sends (at most 30 s) under way finish, deletes from the result queue the
   * messages that callers received, makes the others visible again, and destroys the AWS clients that it created.
   */
  async close(): Promise<void> {
    const closed = new Error('the Batchscore client was closed');
    this.#inbox.close(closed);
    await Promise.all([this.#outbox?.close(closed), this.#store?.close()]);
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
    await assertRegion([this.#settings.sqs, ...(this.#store?.clients ?? [])]);
  }

  #requests(): Outbox {
    if (this.#outbox !== undefined) return this.#outbox;
    throw new Error('expected requestQueueUrl, to send requests to, got none; set it');
  }

  #results(): ResultStore {
    if (this.#store !== undefined) return this.#store;
    throw new Error('expected resultQueueUrl or resultTable, to read results from, got neither; set one of them');
  }
}

function warn(message: string): void {
  process.emitWarning(message, 'BatchscoreWarning');
}

/**
 * Checks that the clients have a region. The SDK's own error for this looks transient.
 * @throws Error with the option to set
 */
export async function assertRegion(clients: readonly RegionalClient[]): Promise<void> {
  try {
    await Promise.all(clients.map(({ config }) => config.region()));
  } catch (cause) {
    throw new Error('expected an AWS region, got none; set region, AWS_REGION, or the region of the AWS profile', {
      cause,
    });
  }
}
