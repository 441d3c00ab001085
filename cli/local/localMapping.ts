import { setTimeout as sleep } from 'node:timers/promises';
import { type Message, type MessageAttributeValue, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import type {
  Context,
  SQSEvent,
  SQSMessageAttribute,
  SQSMessageAttributes,
  SQSRecord,
  SQSRecordAttributes,
} from 'aws-lambda';
import * as z from 'zod';
import { type ActOnMessages, createAcknowledger, createPoller } from '../../lambda/aws/requestQueue.ts';
import { type Clock, SYSTEM_CLOCK } from '../../lambda/core/concurrency.ts';
import { messageOf } from '../../lambda/core/failure.ts';
import { mappingProblems } from '../../lambda/core/limits.ts';
import { createGather, type EndReason, type Gathered, type GatherLimits, MESSAGES_A_POLL } from './gather.ts';
import { createLambdaContext } from './lambdaContext.ts';

export interface InvocationReport {
  records: number;
  endedBecause: EndReason;
  /** Number of records that the handler failed. They return when their visibility timeout ends. */
  failed: number;
  durationMs: number;
}

/** Wraps the invocation of a batch. Everything that the function does happens within the wrapper. */
export type Around = (batch: Batch, invocation: () => Promise<BatchOutcome>) => Promise<BatchOutcome>;

export interface EventSourceMappingOptions extends GatherLimits {
  sqs: SQSClient;
  queueUrl: string;
  queueArn: string;
  region: string;
  /** Maximum number of concurrent invocations, at least 1. */
  maximumConcurrency: number;
  functionTimeoutSeconds: number;
  invoke: Invoke;
  /** @default runs the invocation */
  around?: Around | undefined;
  /** Is called for each invocation after its succeeded records are deleted. */
  onInvocation?: (report: InvocationReport) => void;
  /** Takes errors of SQS requests and of batches that fail as a whole. */
  onError: (error: Error) => void;
  /** @default the system clock */
  clock?: Clock;
}

export type EventSourceMapping = ReturnType<typeof startEventSourceMapping>;

/** Maximum time of one poll, and therefore of a stop on an idle queue. */
const POLL_SECONDS = 1;
const NEVER = new AbortController().signal;

/**
 * Starts a local version of the SQS event source mapping. It polls the queue, gathers batches, runs at most
 * `maximumConcurrency` invocations of the handler at once, and deletes the records that succeed.
 *
 * @throws Error for settings that AWS rejects
 * @see https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
 */
export function startEventSourceMapping(options: EventSourceMappingOptions) {
  const problems = mappingProblems({ ...options, fifo: options.queueArn.endsWith('.fifo') });
  if (problems.length > 0) throw new Error(`event source mapping: ${problems.join('; ')}`);
  const report: Report = (what, cause) => options.onError(new Error(`${what}: ${messageOf(cause)}`, { cause }));
  const acknowledge = createAcknowledger({
    ...options,
    onProblem: (cause) => report('could not delete messages, which will be redelivered', cause),
  });
  const sources = Array.from({ length: options.maximumConcurrency }, () =>
    createBatchSource({
      ...options,
      receive: inTurn((max) => receive(options, max)),
      onError: (cause) => report(`could not receive from ${options.queueUrl}`, cause),
    }),
  );
  const slots = sources.map((source) => mapBatches(source, acknowledge, report, options));
  return {
    /**
     * Stops receiving, invokes the handler with the gathered records, and resolves when every invocation is acknowledged.
     */
    stop: async (): Promise<void> => {
      await Promise.all(sources.map((source) => source.stop()));
      await Promise.all(slots);
    },
  };
}

type Report = (what: string, cause: unknown) => void;

/** Processes batches one after the other until there are no more. */
async function mapBatches(
  batches: BatchSource,
  acknowledge: ActOnMessages<Pick<SQSRecord, 'receiptHandle'>>,
  report: Report,
  options: EventSourceMappingOptions,
): Promise<void> {
  const { clock = SYSTEM_CLOCK, around = (_, invocation) => invocation() } = options;
  let acknowledged = Promise.resolve();
  for (let batch = await batches.next(); batch !== undefined; batch = await batches.next()) {
    const { records, endedBecause } = batch;
    // The handler may change its event, so the handles are copied first.
    const handles = records.map(({ messageId, receiptHandle }) => ({ messageId, receiptHandle }));

    const start = clock.now();
    const { failed, error } = await around(batch, () => invokeOnce(records, { ...options, clock }));
    const durationMs = clock.now() - start;
    if (error !== undefined) report(`a batch of ${handles.length} records failed and will be redelivered`, error);

    const handled = handles.filter(({ messageId }) => !failed.has(messageId));
    const counts = { records: handles.length, failed: handles.length - handled.length };
    const before = acknowledged;
    // The next batch does not wait for these deletes.
    acknowledged = acknowledge(handled, NEVER).then(() => {
      options.onInvocation?.({ ...counts, endedBecause, durationMs });
      return before;
    });
  }
  await acknowledged;
}

/** Time that a slot waits. It is longer than the time to send the next poll after an empty one. */
const TURN_MS = 5;

/**
 * Makes slots take turns. The local SQS server wakes every waiting poll and gives all new messages to the first poll
 * that it knows. Without turns one slot would receive all messages that arrive one by one. A slot that received fewer
 * messages than it asked for therefore waits before its next poll.
 */
function inTurn(poll: (max: number) => Promise<SQSRecord[]>): typeof poll {
  let turn: Promise<void> | undefined;
  return async (max) => {
    await turn;
    const records = await poll(max);
    if (records.length > 0 && records.length < max) {
      turn = sleep(TURN_MS);
    }
    return records;
  };
}

async function receive(options: EventSourceMappingOptions, max: number): Promise<SQSRecord[]> {
  const { Messages = [] } = await options.sqs.send(
    new ReceiveMessageCommand({
      QueueUrl: options.queueUrl,
      MaxNumberOfMessages: max,
      WaitTimeSeconds: POLL_SECONDS,
      MessageSystemAttributeNames: ['All'],
      MessageAttributeNames: ['All'],
    }),
  );
  return Messages.map((message) => toSqsRecord(message, options));
}

interface BatchSourceOptions extends GatherLimits {
  /** Polls once for at most `max` messages, with long polling. */
  receive: (max: number) => Promise<SQSRecord[]>;
  onError: (error: unknown) => void;
  /** @default the system clock */
  clock?: Clock;
}

export type BatchSource = ReturnType<typeof createBatchSource>;

const MAX_POLLS = 8;
const PAUSE_AFTER_ERROR_MS = 1000;

/**
 * Receives records and gathers them into batches for one taker. With a window, it gathers one batch ahead while the
 * taker is busy. Without a window, messages stay on the queue meanwhile, so that they are received together.
 */
export function createBatchSource({ receive, onError, clock = SYSTEM_CLOCK, ...limits }: BatchSourceOptions) {
  const { batchSize, windowSeconds } = limits;
  const closed: Batch[] = [];
  let taker: ((batch: Batch | undefined) => void) | undefined;
  let stopped = false;
  const gather = createGather({ ...limits, clock, bytesOf: recordBytes }, (batch: Batch) => {
    if (taker === undefined) closed.push(batch);
    else taker(batch);
    taker = undefined;
  });
  const recordsAPoll = Math.min(MESSAGES_A_POLL, batchSize);
  const gathersAhead = windowSeconds > 0;
  const poller = createPoller({
    receive: () => receive(recordsAPoll),
    recordsAPoll,
    maxPolls: MAX_POLLS,
    hasRoom(expected) {
      const batches = Number(taker !== undefined) + Number(gathersAhead);
      return closed.length === 0 && gather.size() + expected < batches * batchSize;
    },
    take: gather.add,
    onError,
    pauseMs: () => PAUSE_AFTER_ERROR_MS,
    clock,
  });
  return {
    /** Returns the next closed batch, or undefined if the source is stopped and empty. */
    next: () =>
      new Promise<Batch | undefined>((resolve) => {
        const batch = closed.shift();
        if (batch !== undefined || stopped) resolve(batch);
        else taker = resolve;
        poller.poll();
      }),
    /** Stops polling and closes the open batch. Closed batches remain available. */
    async stop(): Promise<void> {
      await poller.stop();
      gather.flush();
      stopped = true;
      taker?.(undefined);
    },
  };
}

export type Batch = Gathered<SQSRecord>;

export type Invoke = (event: SQSEvent, context: Context) => Promise<unknown>;

type InvocationOptions = Pick<EventSourceMappingOptions, 'invoke' | 'region' | 'functionTimeoutSeconds'> & {
  clock: Clock;
};

/** Outcome of a batch: the message IDs to leave in the queue, and the error if all of them failed. */
export interface BatchOutcome {
  failed: ReadonlySet<string>;
  error?: unknown;
}

/** Invokes the function once and never rejects. An error, a timeout or a malformed response fails the whole batch. */
export async function invokeOnce(records: readonly SQSRecord[], options: InvocationOptions): Promise<BatchOutcome> {
  const { invoke, region, functionTimeoutSeconds, clock } = options;
  const sentIds = new Set(records.map(({ messageId }) => messageId));
  const timeoutMs = functionTimeoutSeconds * 1000;
  const deadline = clock.now() + timeoutMs;
  const timedOut = () =>
    new Error(
      `expected the invocation to end within the function's timeout of ${functionTimeoutSeconds} s, it did not; ` +
        'raise the timeout, or lower the batch size',
    );
  const timeout = Promise.withResolvers<never>();
  const cancelTimeout = clock.after(timeoutMs, () => timeout.reject(timedOut()));
  try {
    const context = createLambdaContext(deadline, region, clock.now);
    const response = await Promise.race([invoke({ Records: [...records] }, context), timeout.promise]);
    // A handler that blocks the event loop also prevents the timer from firing.
    if (clock.now() > deadline) throw timedOut();
    return { failed: failedMessageIds(response, sentIds) };
  } catch (error) {
    return { failed: sentIds, error };
  } finally {
    cancelTimeout();
  }
}

const RESPONSE = z
  .object({ batchItemFailures: z.array(z.object({ itemIdentifier: z.string() })).nullish() })
  .nullable();

/**
 * Returns the message IDs that failed, from a handler's partial batch response.
 *
 * No response, `null`, `{}`, and an empty or null `batchItemFailures` mean that all messages succeeded.
 *
 * @throws Error if Lambda would treat the response as a failure of the whole batch: it is not an object, or an
 *   `itemIdentifier` is missing, empty or not in the batch
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html#services-sqs-batchfailurereporting
 */
export function failedMessageIds(response: unknown, sentIds: ReadonlySet<string>): Set<string> {
  // Lambda sends the response as JSON, so a value that JSON cannot represent is an error here too.
  const { data, error } = RESPONSE.safeParse(JSON.parse(JSON.stringify(response) ?? 'null'));
  if (error !== undefined) {
    throw new Error(
      `response: expected {"batchItemFailures": [{"itemIdentifier": …}]} or nothing: ${z.prettifyError(error)}`,
    );
  }
  const failed = new Set(data?.batchItemFailures?.map(({ itemIdentifier }) => itemIdentifier));
  for (const id of failed) {
    if (!sentIds.has(id)) {
      throw new Error(`itemIdentifier: expected the messageId of a record in the event, got ${JSON.stringify(id)}`);
    }
  }
  return failed;
}

/**
 * Creates the record that Lambda passes to the handler for a received message. It has every attribute, no undefined
 * values, and survives a JSON round trip.
 *
 * @throws Error if the server omits an attribute that SQS always sends
 * @see https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
 */
export function toSqsRecord(message: Message, source: { queueArn: string; region: string }): SQSRecord {
  return {
    messageId: sent(message.MessageId, 'MessageId'),
    receiptHandle: sent(message.ReceiptHandle, 'ReceiptHandle'),
    body: sent(message.Body, 'Body'),
    attributes: systemAttributes(message),
    messageAttributes: messageAttributes(message.MessageAttributes ?? {}),
    md5OfBody: sent(message.MD5OfBody, 'MD5OfBody'),
    ...(message.MD5OfMessageAttributes === undefined ? {} : { md5OfMessageAttributes: message.MD5OfMessageAttributes }),
    eventSource: 'aws:sqs',
    eventSourceARN: source.queueArn,
    awsRegion: source.region,
  };
}

/** Returns the bytes that a record adds to an event's JSON, including its comma. */
export function recordBytes(record: SQSRecord): number {
  return Buffer.byteLength(JSON.stringify(record)) + 1;
}

function systemAttributes({ Attributes = {} }: Message): SQSRecordAttributes {
  return {
    ...Attributes,
    ApproximateReceiveCount: sent(Attributes.ApproximateReceiveCount, 'ApproximateReceiveCount'),
    SentTimestamp: sent(Attributes.SentTimestamp, 'SentTimestamp'),
    SenderId: sent(Attributes.SenderId, 'SenderId'),
    ApproximateFirstReceiveTimestamp: sent(
      Attributes.ApproximateFirstReceiveTimestamp,
      'ApproximateFirstReceiveTimestamp',
    ),
  };
}

function messageAttributes(attributes: Record<string, MessageAttributeValue>): SQSMessageAttributes {
  return Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name, messageAttribute(value)]));
}

function messageAttribute(value: MessageAttributeValue): SQSMessageAttribute {
  return {
    ...(value.StringValue === undefined ? {} : { stringValue: value.StringValue }),
    ...(value.BinaryValue === undefined ? {} : { binaryValue: Buffer.from(value.BinaryValue).toString('base64') }),
    stringListValues: [],
    binaryListValues: [],
    dataType: sent(value.DataType, 'DataType'),
  };
}

function sent(value: string | undefined, name: string): string {
  if (value === undefined) {
    throw new Error(`received message: expected ${name}, which SQS always sends, got none; check the SQS endpoint`);
  }
  return value;
}
