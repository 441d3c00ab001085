import { setTimeout } from 'node:timers/promises';
import { type Message, type MessageAttributeValue, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import type {
  Context,
  SQSEvent,
  SQSMessageAttribute,
  SQSMessageAttributes,
  SQSRecord,
  SQSRecordAttributes,
} from 'aws-lambda';
import { type Clock, SYSTEM_CLOCK } from '../../lambda/aws/clock.ts';
import { type Acknowledge, createAcknowledger, createPoller, type Poller } from '../../lambda/aws/requestQueue.ts';
import { messageOf } from '../../lambda/core/failure.ts';
import {
  FUNCTION_TIMEOUT_SECONDS,
  MAX_EVENT_BYTES,
  MAXIMUM_CONCURRENCY,
  mappingProblems,
  outside,
} from '../../lambda/core/limits.ts';

import { createLambdaContext } from './lambdaContext.ts';

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
      receive: inTurn((max) => receive(options, max)),
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
function inTurn(poll: (max: number) => Promise<SQSRecord[]>): typeof poll {
  let turn: Promise<void> | undefined;
  return async (max) => {
    await turn;
    const records = await poll(max);
    if (records.length > 0 && records.length < max) {
      turn = setTimeout(TURN_MS);
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

type Report = (what: string, cause: unknown) => void;

function reportTo(onError: (error: Error) => void): Report {
  return (what, cause) => onError(new Error(`${what}: ${messageOf(cause)}`, { cause }));
}

function writeToStderr(error: Error): void {
  process.stderr.write(`${error.message}\n`);
}

interface BatchSourceOptions extends GatherOptions {
  /** One long poll for at most `max` messages. */
  receive: (max: number) => Promise<SQSRecord[]>;
  /** Told of a failed poll. */
  onError: (error: unknown) => void;
}

export interface BatchSource {
  /** The next batch once one is closed; undefined once the source is stopped and empty. */
  next(): Promise<Batch | undefined>;
  /** Closes the open batch, and gathers by other limits from now on. */
  update(limits: GatherLimits): void;
  /** Ends polling and closes the open batch. What is closed can still be taken. */
  stop(): Promise<void>;
}

/** Messages that SQS hands over in one receive. */
const MESSAGES_A_POLL = 10;
const MAX_POLLS = 8;
const PAUSE_AFTER_ERROR_MS = 1000;

/**
 * Receives records and gathers them into batches, for one taker. With a window it gathers one ahead while the taker does
 * not wait; without one what comes meanwhile stays on the queue, so that it is received together.
 */
export function createBatchSource({ receive, onError, clock, ...limits }: BatchSourceOptions): BatchSource {
  const closed: Batch[] = [];
  let stoppedBefore = Promise.resolve();
  let taker: ((batch: Batch | undefined) => void) | undefined;
  let stopped = false;

  const handOver = (batch: Batch): void => {
    if (taker === undefined) closed.push(batch);
    else taker(batch);
    taker = undefined;
  };
  /** What polls of before an update bring belongs to what is gathered after it. */
  const take = (records: readonly SQSRecord[]): void => gather.add(records);
  const pollBy = ({ batchSize, windowSeconds }: GatherLimits): Poller => {
    const recordsAPoll = Math.min(MESSAGES_A_POLL, batchSize);
    const gathersAhead = windowSeconds > 0;
    return createPoller({
      receive: () => receive(recordsAPoll),
      recordsAPoll,
      maxPolls: MAX_POLLS,
      hasRoom(expected) {
        const batches = Number(taker !== undefined) + Number(gathersAhead);
        return closed.length === 0 && gather.size() + expected < batches * batchSize;
      },
      take,
      onError,
      pauseMs: () => PAUSE_AFTER_ERROR_MS,
      clock,
    });
  };
  let gather: Gather = createGather({ ...limits, clock }, handOver);
  let poller = pollBy(limits);

  return {
    next: () =>
      new Promise((resolve) => {
        const batch = closed.shift();
        if (batch !== undefined || stopped) resolve(batch);
        else taker = resolve;
        poller.poll();
      }),
    update(changed) {
      stoppedBefore = bothOf(stoppedBefore, poller.stop());
      gather.flush('update');
      gather = createGather({ ...changed, clock }, handOver);
      poller = pollBy(changed);
      poller.poll();
    },
    stop: async () => {
      await bothOf(stoppedBefore, poller.stop());
      gather.flush();
      stopped = true;
      taker?.(undefined);
    },
  };
}

async function bothOf(one: Promise<void>, other: Promise<void>): Promise<void> {
  await one;
  await other;
}

/**
 * Why a batch was closed. `poll`: there is no window to wait for the next poll. Its window was cut short by `update`, other
 * settings, or `stop`.
 */
export type ClosedBecause = 'full' | 'window' | 'bytes' | 'poll' | 'update' | 'stop';

export interface Batch {
  records: SQSRecord[];
  closedBecause: ClosedBecause;
}

interface Gather {
  /** Takes what one poll returned, and hands over each batch that this closes. */
  add(records: readonly SQSRecord[]): void;
  /** Hands over the open batch, if it holds anything. @param because @default 'stop' */
  flush(because?: 'update' | 'stop'): void;
  /** Records in the open batch. */
  size(): number;
}

/** How batches are gathered. */
export interface GatherLimits {
  /** Records that fill a batch. */
  batchSize: number;
  /** Longest time from a batch's first record to its hand-over, in seconds; 0 keeps no record waiting. */
  windowSeconds: number;
}

interface GatherOptions extends GatherLimits {
  /** @default the system's */
  clock?: Clock;
}

/**
 * Gathers records into batches as the event source mapping does: a batch is closed when it is full, when the
 * window since its first record has ended, or when the next record would overflow the event's 6 MB.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventsourcemapping.html#invocation-eventsourcemapping-batching
 */
export function createGather(options: GatherOptions, handOver: (batch: Batch) => void): Gather {
  const { batchSize, windowSeconds, clock = SYSTEM_CLOCK } = options;
  const windowMs = windowSeconds * 1000;
  let open: SQSRecord[] = [];
  let openBytes = ENVELOPE_BYTES;
  let cancelWindow = () => {};

  function close(closedBecause: ClosedBecause): void {
    if (open.length === 0) return;
    cancelWindow();
    const records = open;
    open = [];
    openBytes = ENVELOPE_BYTES;
    handOver({ records, closedBecause });
  }

  function addOne(record: SQSRecord): void {
    const bytes = recordBytes(record);
    if (openBytes + bytes > MAX_EVENT_BYTES) close('bytes');
    if (open.length === 0 && windowMs > 0) cancelWindow = clock.after(windowMs, () => close('window'));
    open.push(record);
    openBytes += bytes;
    if (open.length === batchSize) close('full');
  }

  return {
    add: (records) => {
      for (const record of records) addOne(record);
      if (windowMs === 0) close('poll');
    },
    flush: (because = 'stop') => close(because),
    size: () => open.length,
  };
}

export type Invoke = (event: SQSEvent, context: Context) => Promise<unknown>;

interface InvocationOptions {
  invoke: Invoke;
  region: string;
  functionTimeoutSeconds: number;
  clock: Clock;
}

/** What became of a batch: the message IDs to leave in the queue, and the error where all of them failed. */
interface Verdict {
  failed: ReadonlySet<string>;
  error?: unknown;
}

/** Invokes the function once. Never rejects: a throw, a timeout or a malformed response fails the whole batch. */
export async function invokeOnce(records: readonly SQSRecord[], options: InvocationOptions): Promise<Verdict> {
  const sentIds = new Set(records.map(({ messageId }) => messageId));
  const deadline = options.clock.now() + options.functionTimeoutSeconds * 1000;
  try {
    const context = createLambdaContext(deadline, { region: options.region, now: options.clock.now });
    const work = () => options.invoke({ Records: [...records] }, context);
    const response = await withinTimeout(work, { deadline, ...options });
    return { failed: failedMessageIds(response, sentIds) };
  } catch (error) {
    return { failed: sentIds, error };
  }
}

async function withinTimeout<T>(
  work: () => Promise<T>,
  { deadline, functionTimeoutSeconds, clock }: InvocationOptions & { deadline: number },
): Promise<T> {
  const timedOut = () =>
    new Error(
      `expected the invocation to end within the function's timeout of ${functionTimeoutSeconds} s, it did not; ` +
        'raise the timeout, or lower the batch size',
    );
  const timeout = Promise.withResolvers<never>();
  const cancelTimeout = clock.after(deadline - clock.now(), () => timeout.reject(timedOut()));
  try {
    const result = await Promise.race([work(), timeout.promise]);
    // A handler that blocks the event loop also keeps the timer from firing.
    if (clock.now() > deadline) throw timedOut();
    return result;
  } finally {
    cancelTimeout();
  }
}

/**
 * Reads a handler's partial batch response: which of the sent message IDs failed.
 *
 * Nothing, `null`, `{}` and an empty or null `batchItemFailures` say that all succeeded.
 *
 * @throws for what Lambda takes as a failure of the whole batch: a response that is not an object, or an
 *   `itemIdentifier` that is missing, empty or of no message in the batch.
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html#services-sqs-batchfailurereporting
 */
export function failedMessageIds(response: unknown, sentIds: ReadonlySet<string>): Set<string> {
  const failures = batchItemFailures(overTheWire(response));
  return new Set(failures.map((failure, index) => itemIdentifier(failure, index, sentIds)));
}

// Lambda sends the response as JSON: what JSON cannot hold is an error there, and must be one here.
function overTheWire(response: unknown): unknown {
  return JSON.parse(JSON.stringify(response) ?? 'null');
}

function batchItemFailures(response: unknown): unknown[] {
  if (response === null) return [];
  if (typeof response !== 'object' || Array.isArray(response)) {
    throw new Error(`response: expected {"batchItemFailures": […]} or nothing, got ${kindOf(response)}`);
  }
  const failures = 'batchItemFailures' in response ? response.batchItemFailures : null;
  if (failures === null) return [];
  if (!Array.isArray(failures)) {
    throw new Error(`batchItemFailures: expected an array, got ${kindOf(failures)}`);
  }
  return failures;
}

function itemIdentifier(failure: unknown, index: number, sentIds: ReadonlySet<string>): string {
  const id =
    typeof failure === 'object' && failure !== null && 'itemIdentifier' in failure ? failure.itemIdentifier : undefined;
  if (typeof id !== 'string' || !sentIds.has(id)) {
    throw new Error(
      `batchItemFailures[${index}].itemIdentifier: expected the messageId of a record in the event, ` +
        `got ${typeof id === 'string' ? JSON.stringify(id) : kindOf(id)}`,
    );
  }
  return id;
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  return Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`;
}

/** The queue that a record came from, as its record names it. */
interface RecordSource {
  queueArn: string;
  region: string;
}

/** Bytes of an event around its records: `{"Records":[]}`, less the comma that its last record lacks. */
export const ENVELOPE_BYTES = 13;

/**
 * Makes the record that Lambda is handed for a received message: every attribute, nothing undefined, equal to
 * its own JSON round trip.
 *
 * @throws when the server left out what SQS always sends.
 * @see https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
 */
export function toSqsRecord(message: Message, source: RecordSource): SQSRecord {
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

/** Bytes that a record adds to an event's JSON, with its comma. */
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

interface MappingLimits {
  queueArn: string;
  /** Most records of one event, 1–10,000; FIFO 1–10. Above 10 needs a window of at least 1 s. */
  batchSize: number;
  /** Longest wait for a batch to fill, in seconds, 0–300; FIFO 0. */
  windowSeconds: number;
  /** Invocations that may run at once, 1–1000. (The service's own setting starts at 2.) */
  maximumConcurrency: number;
  /** The function's timeout, in seconds, 1–900. */
  functionTimeoutSeconds: number;
}

/** A single invocation at a time, which AWS does not offer, shows what one of them does. */
const LOCAL_CONCURRENCY = { ...MAXIMUM_CONCURRENCY, min: 1 };

/** Refuses the settings that AWS refuses, all of them in one error. */
export function refuseInvalidLimits(limits: MappingLimits): void {
  const problems = [
    ...mappingProblems({ ...limits, fifo: limits.queueArn.endsWith('.fifo') }),
    outside('maximumConcurrency', limits.maximumConcurrency, LOCAL_CONCURRENCY),
    outside('functionTimeoutSeconds', limits.functionTimeoutSeconds, FUNCTION_TIMEOUT_SECONDS),
  ].filter((problem) => problem !== undefined);
  if (problems.length > 0) throw new Error(`event source mapping: ${problems.join('; ')}`);
}
