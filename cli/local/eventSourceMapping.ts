import { setTimeout } from 'node:timers/promises';
import { ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import { type Clock, SYSTEM_CLOCK } from '../../lambda/aws/clock.ts';
import { type Acknowledge, createAcknowledger } from '../../lambda/aws/requestQueue.ts';
import { messageOf } from '../../lambda/core/failure.ts';

import { type BatchSource, createBatchSource } from './batchSource.ts';
import type { Batch, ClosedBecause, GatherLimits } from './gather.ts';
import { type Invoke, invokeOnce, type Verdict } from './invocation.ts';
import { type MappingLimits, refuseInvalidLimits } from './mappingLimits.ts';
import { toSqsRecord } from './sqsEvent.ts';

export interface InvocationReport {
  records: number;
  closedBecause: ClosedBecause;
  /** Records that the handler failed; they come back when their visibility timeout ends. */
  failed: number;
  /** Time from the invocation's start to its answer. */
  durationMs: number;
}

/** Runs an invocation, knowing its batch: all that the function does happens within. */
export type Around = (batch: Batch, invocation: () => Promise<Verdict>) => Promise<Verdict>;

export interface EventSourceMappingOptions extends MappingLimits {
  sqs: SQSClient;
  queueUrl: string;
  region: string;
  /** The Lambda handler. */
  invoke: Invoke;
  /** @default runs it */
  around?: Around | undefined;
  /** Told of each invocation once its succeeded records are deleted. */
  onInvocation?: (report: InvocationReport) => void;
  /** Told of SQS requests that fail and of batches that fail as a whole. @default writes the message to stderr */
  onError?: (error: Error) => void;
  /** @default the system's */
  clock?: Clock;
}

export interface EventSourceMapping {
  /**
   * Gathers by another size and window from now on; the open batches are handed over as they are.
   *
   * @throws for settings that AWS would refuse, and then nothing is changed
   */
  update(limits: GatherLimits): void;
  /** Stops receiving, invokes with what is gathered, and resolves when every invocation is acknowledged. */
  stop(): Promise<void>;
}

/** Longest wait of one poll, and so of a stop on an idle queue. */
const POLL_SECONDS = 1;
const NEVER = new AbortController().signal;

/**
 * Stands in for AWS's SQS event source mapping: polls the queue, gathers batches, invokes the handler with at most
 * `maximumConcurrency` of them at once, and deletes what the handler did not fail.
 *
 * @throws for settings that AWS would refuse.
 * @see https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
 */
export function startEventSourceMapping(options: EventSourceMappingOptions): EventSourceMapping {
  refuseInvalidLimits(options);
  const report = reportTo(options.onError ?? writeToStderr);
  const acknowledge = createAcknowledger({
    ...options,
    onProblem: (cause) => report('could not delete messages, which will be redelivered', cause),
  });
  const sources = Array.from({ length: options.maximumConcurrency }, () =>
    createBatchSource({
      ...options,
      receive: inTurn((most) => receive(options, most)),
      onError: (cause) => report(`could not receive from ${options.queueUrl}`, cause),
    }),
  );
  const slots = sources.map((source) => mapBatches(source, acknowledge, report, options));
  return {
    update(limits) {
      refuseInvalidLimits({ ...options, ...limits });
      for (const source of sources) source.update(limits);
    },
    stop: async () => {
      await Promise.all(sources.map((source) => source.stop()));
      await Promise.all(slots);
    },
  };
}

/** One of the invocations that may run at once: takes batch after batch until there are no more. */
async function mapBatches(
  batches: BatchSource,
  acknowledge: Acknowledge,
  report: Report,
  options: EventSourceMappingOptions,
): Promise<void> {
  const { clock = SYSTEM_CLOCK, around = (_, invocation) => invocation() } = options;
  let acknowledged = Promise.resolve();
  for (let batch = await batches.next(); batch !== undefined; batch = await batches.next()) {
    const { records, closedBecause } = batch;
    // Taken now: the handler may change the event it is given.
    const handles = records.map(({ messageId, receiptHandle }) => ({ messageId, receiptHandle }));

    const start = clock.now();
    const { failed, error } = await around(batch, () => invokeOnce(records, { ...options, clock }));
    const durationMs = clock.now() - start;
    if (error !== undefined) report(`a batch of ${handles.length} records failed and will be redelivered`, error);

    const handled = handles.filter(({ messageId }) => !failed.has(messageId));
    const counts = { records: handles.length, failed: handles.length - handled.length };
    const before = acknowledged;
    // The next batch does not wait for this one's deletes.
    acknowledged = acknowledge(handled, NEVER).then(() => {
      options.onInvocation?.({ ...counts, closedBecause, durationMs });
      return before;
    });
  }
  await acknowledged;
}

/** Longer than a poll that was answered with nothing takes to be sent again. */
const TURN_MS = 5;

/**
 * The local SQS server wakes every poll that waits, and answers the first that it knows of with what came: of several
 * slots, one would get everything that comes one by one. So a slot that received less than it asked for lets the others go first.
 */
function inTurn(poll: (most: number) => Promise<SQSRecord[]>): typeof poll {
  let turn: Promise<void> | undefined;
  return async (most) => {
    await turn;
    const records = await poll(most);
    if (records.length > 0 && records.length < most) {
      turn = setTimeout(TURN_MS);
    }
    return records;
  };
}

async function receive(options: EventSourceMappingOptions, most: number): Promise<SQSRecord[]> {
  const { Messages = [] } = await options.sqs.send(
    new ReceiveMessageCommand({
      QueueUrl: options.queueUrl,
      MaxNumberOfMessages: most,
      WaitTimeSeconds: POLL_SECONDS,
      MessageSystemAttributeNames: ['All'],
      MessageAttributeNames: ['All'],
    }),
  );
  return Messages.map((message) => toSqsRecord(message, options));
}

type Report = (what: string, cause: unknown) => void;

function reportTo(onError: (error: Error) => void): Report {
  return (what, cause) => onError(new Error(`${what}: ${messageOf(cause)}`, { cause }));
}

function writeToStderr(error: Error): void {
  process.stderr.write(`${error.message}\n`);
}
