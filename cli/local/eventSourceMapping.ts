import { ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import pLimit from 'p-limit';
import { messageOf } from '../../lambda/core/contract/failure.ts';
import { deleteMessages } from './deleteMessages.ts';
import { type Batch, type ClosedBecause, createGather } from './gather.ts';
import { type Invoke, invokeOnce, type Verdict } from './invocation.ts';
import { type MappingLimits, refuseInvalidLimits } from './mappingLimits.ts';
import { createPoller } from './poller.ts';
import { toSqsRecord } from './sqsEvent.ts';

export interface InvocationReport {
  records: number;
  closedBecause: ClosedBecause;
  /** Records that the invocation failed; they come back when their visibility ends. */
  failed: number;
  /** Time from the invocation's start to its answer. */
  durationMs: number;
}

export interface EventSourceMappingOptions extends MappingLimits {
  sqs: SQSClient;
  queueUrl: string;
  region: string;
  /** The Lambda handler. */
  invoke: Invoke;
  /** Told of each invocation once its succeeded records are deleted. */
  onInvocation?: (report: InvocationReport) => void;
  /** Told of failed SQS calls and of batches that failed as a whole. @default writes the message to stderr */
  onError?: (error: Error) => void;
  /** Milliseconds that only go forward. @default performance.now */
  now?: () => number;
}

export interface EventSourceMapping {
  /** Stops receiving, invokes with what is gathered, and resolves when every invocation is acknowledged. */
  stop(): Promise<void>;
}

/** Messages that SQS hands over in one receive. */
const MESSAGES_A_POLL = 10;
/** Longest wait of one poll, and so of a stop on an idle queue. */
const POLL_SECONDS = 1;
const DELETES_AT_ONCE = 16;

/**
 * Stands in for AWS's SQS event source mapping: polls the queue, gathers batches, invokes the handler with at most
 * `maximumConcurrency` of them at once, and deletes what it answered.
 *
 * @throws for settings that AWS would refuse.
 * @see https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
 */
export function startEventSourceMapping(options: EventSourceMappingOptions): EventSourceMapping {
  refuseInvalidLimits(options);
  const { batchSize, maximumConcurrency, now = () => performance.now(), onError = writeToStderr } = options;
  const recordsAPoll = Math.min(MESSAGES_A_POLL, batchSize);
  const deleteLimit = pLimit(DELETES_AT_ONCE);
  const waiting: Batch[] = [];
  const unacknowledged = new Set<Promise<void>>();
  let invocations = 0;

  const gather = createGather(options, (batch) => {
    waiting.push(batch);
    dispatch();
  });
  const poller = createPoller({
    receive: () => receive(options, recordsAPoll),
    recordsAPoll,
    hasRoom,
    take: gather.add,
    onError: (cause) => report(`could not receive from ${options.queueUrl}`, cause),
  });

  // Bounds what is held: a batch for each free slot and one gathered ahead, and nothing more while a closed one waits.
  function hasRoom(expected: number): boolean {
    const batchesAllowed = maximumConcurrency - invocations + 1;
    return waiting.length === 0 && gather.size() + expected < batchSize * batchesAllowed;
  }

  function dispatch(): void {
    while (invocations < maximumConcurrency) {
      const batch = waiting.shift();
      if (batch === undefined) break;
      const done = runBatch(batch).finally(() => unacknowledged.delete(done));
      unacknowledged.add(done);
    }
    poller.poll();
  }

  async function runBatch({ records, closedBecause }: Batch): Promise<void> {
    // Taken now: the handler may change the event it is given.
    const handles = records.map(({ messageId, receiptHandle }) => ({ messageId, receiptHandle }));
    const start = now();
    const { failed, error } = await invokeInASlot(records);
    const durationMs = now() - start;
    if (error !== undefined) report(`a batch of ${handles.length} records failed and will be redelivered`, error);
    const succeeded = handles.filter(({ messageId }) => !failed.has(messageId));
    await acknowledge(succeeded.map(({ receiptHandle }) => receiptHandle));
    const failures = handles.length - succeeded.length;
    options.onInvocation?.({ records: handles.length, closedBecause, failed: failures, durationMs });
  }

  async function invokeInASlot(records: readonly SQSRecord[]): Promise<Verdict> {
    invocations += 1;
    try {
      return await invokeOnce(records, { ...options, now });
    } finally {
      invocations -= 1;
      dispatch();
    }
  }

  function acknowledge(receiptHandles: string[]): Promise<void> {
    return deleteMessages(receiptHandles, {
      ...options,
      limit: deleteLimit,
      onError: (cause) => report('could not delete messages, which will be redelivered', cause),
    });
  }

  function report(what: string, cause: unknown): void {
    onError(new Error(`${what}: ${messageOf(cause)}`, { cause }));
  }

  poller.poll();
  return {
    stop: async () => {
      await poller.stop();
      gather.flush();
      while (unacknowledged.size > 0) await Promise.all(unacknowledged);
    },
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

function writeToStderr(error: Error): void {
  process.stderr.write(`${error.message}\n`);
}
