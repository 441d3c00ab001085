import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  type Message,
  ReceiveMessageCommand,
} from '@aws-sdk/client-sqs';
import pLimit from 'p-limit';
import { type Clock, SYSTEM_CLOCK } from '../core/concurrency.ts';
import { isFailure } from '../core/failure.ts';
import { type MessageRecord, POINTER_ATTRIBUTES, RESULT_QUEUE_ATTRIBUTE } from '../core/record.ts';
import { CALLS_IN_FLIGHT, type RetryOptions, sendBatches } from './sendBatches.ts';
import { type BatchAnswer, MAX_BATCH_ENTRIES, refusalsIn, type SqsCaller } from './sqsMessages.ts';

interface ReceiverOptions {
  /** Its patience must exceed the wait. */
  readonly sqs: SqsCaller;
  readonly queueUrl: string;
  /** Maximum wait of one poll for a first message, 0 to 20. */
  readonly waitSeconds: number;
  readonly visibilitySeconds: number;
  /** Maximum number of messages of one poll. @default 10 */
  readonly max?: number | undefined;
  /** Names of the message attributes to receive. @default those of requests */
  readonly attributes?: readonly string[] | undefined;
  /** Called if some messages lack attributes that SQS always sends. */
  readonly onProblem?: ((error: Error) => void) | undefined;
}

/**
 * Creates a function that makes one long poll. The records have only the fields that scoring reads.
 *
 * @throws Error if the poll fails, or if no message is valid
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html
 */
export function createReceiver(options: ReceiverOptions): (signal: AbortSignal) => Promise<MessageRecord[]> {
  const { sqs, queueUrl, waitSeconds, visibilitySeconds, max = MAX_BATCH_ENTRIES, onProblem } = options;
  const { attributes = [...POINTER_ATTRIBUTES, RESULT_QUEUE_ATTRIBUTE] } = options;
  const input = {
    QueueUrl: queueUrl,
    MaxNumberOfMessages: Math.min(max, MAX_BATCH_ENTRIES),
    WaitTimeSeconds: waitSeconds,
    VisibilityTimeout: visibilitySeconds,
    MessageSystemAttributeNames: [
      'ApproximateReceiveCount' as const,
      'SentTimestamp' as const,
      'MessageGroupId' as const,
    ],
    MessageAttributeNames: [...attributes],
  };
  const eventSourceARN = arnOf(queueUrl);
  return async (signal) => {
    const { Messages = [] } = await sqs.send(new ReceiveMessageCommand(input), { abortSignal: signal });
    const records = Messages.map((message) => toRecord(message, eventSourceARN)).filter(
      (record) => record !== undefined,
    );
    const odd = Messages.length - records.length;
    if (odd > 0) {
      const error = new Error(
        `expected messages with MessageId, ReceiptHandle and Body, which SQS always sends, got ${odd} of ` +
          `${Messages.length} without one of them, which are ignored; check the SQS endpoint`,
      );
      if (records.length === 0) throw error;
      onProblem?.(error);
    }
    return records;
  };
}

/** Returns an ARN with only the queue's name, which tells if the queue is FIFO. */
function arnOf(queueUrl: string): string {
  return `arn:aws:sqs:::${queueUrl.slice(queueUrl.lastIndexOf('/') + 1)}`;
}

function toRecord(message: Message | null, eventSourceARN: string): MessageRecord | undefined {
  const { MessageId, ReceiptHandle, Body, Attributes, MessageAttributes } = message ?? {};
  if (typeof MessageId !== 'string' || typeof ReceiptHandle !== 'string' || typeof Body !== 'string') return undefined;
  const { ApproximateReceiveCount = '1', SentTimestamp = '0', MessageGroupId } = Attributes ?? {};
  const messageAttributes: Record<string, { readonly stringValue?: string | undefined }> = {};
  for (const name in MessageAttributes) messageAttributes[name] = { stringValue: MessageAttributes[name]?.StringValue };
  return {
    messageId: MessageId,
    receiptHandle: ReceiptHandle,
    body: Body,
    attributes: { ApproximateReceiveCount, SentTimestamp, MessageGroupId },
    messageAttributes,
    eventSourceARN,
  };
}

interface PollerOptions<R> {
  receive: () => Promise<readonly R[]>;
  recordsAPoll: number;
  maxPolls: number;
  /** Returns true if another poll may start while polls in flight may bring `expected` records. */
  hasRoom: (expected: number) => boolean;
  take: (records: readonly R[]) => void;
  /** Called for a failed poll. The next poll starts after a pause. */
  onError: (error: unknown) => void;
  /** Returns the pause in milliseconds after successive failures, at least 1. */
  pauseMs: (failures: number) => number;
  /** Wait of a poll for its first record. @default 0 */
  waitMs?: number;
  /** @default the system's clock */
  clock?: Clock | undefined;
}

/** Number of successive polls that may return empty before half of their wait. SQS does so at times. */
const HASTY_POLLS = 10;

/**
 * Keeps as many polls in flight as return at least half full: one for an idle queue, all for a long one. A failed poll
 * does not end the polling. A queue that returns nothing without waiting is polled more slowly.
 */
export function createPoller<R>(options: PollerOptions<R>) {
  const {
    receive,
    recordsAPoll,
    maxPolls,
    hasRoom,
    take,
    onError,
    pauseMs,
    waitMs = 0,
    clock = SYSTEM_CLOCK,
  } = options;
  const allReturned = Promise.withResolvers<void>();
  let wanted = 1;
  let inFlight = 0;
  let failures = 0;
  let unanswered = 0;
  let hasty = 0;
  let cancelPause: (() => void) | undefined;
  let stopping = false;

  /** Starts polls while more are wanted and there is room. Call it whenever room is freed. */
  function poll(): void {
    if (cancelPause !== undefined) return;
    while (!stopping && inFlight < wanted && hasRoom(inFlight * recordsAPoll)) void pollOnce();
    if (stopping && inFlight === 0) allReturned.resolve();
  }

  async function pollOnce(): Promise<void> {
    inFlight += 1;
    const startedAt = clock.now();
    try {
      const records = await receive();
      failures = 0;
      hasty = records.length === 0 && clock.now() - startedAt < waitMs / 2 ? hasty + 1 : 0;
      if (hasty > HASTY_POLLS) startPause(1);
      wanted = wantedAfter(records.length);
      take(records);
    } catch (error) {
      wanted = 1;
      if (cancelPause === undefined) failures += 1;
      startPause(failures);
      onError(error);
    } finally {
      inFlight -= 1;
      poll();
    }
  }

  function wantedAfter(received: number): number {
    if (2 * received >= recordsAPoll) return Math.min(wanted + 1, maxPolls);
    return received === 0 ? Math.max(wanted - 1, 1) : wanted;
  }

  /** A poll that fails during a pause failed for the same reason. */
  function startPause(after: number): void {
    if (stopping || cancelPause !== undefined) return;
    cancelPause = clock.after(pauseMs(after), endPause);
  }

  function endPause(): void {
    cancelPause?.();
    cancelPause = undefined;
    poll();
  }

  return {
    poll,
    /** Pauses because no received record could be answered. Pauses grow until `goOn` is called. */
    pause(): void {
      wanted = 1;
      if (cancelPause === undefined) unanswered += 1;
      startPause(unanswered);
    },
    goOn(): void {
      if (unanswered === 0) return;
      unanswered = 0;
      endPause();
    },
    /** Starts no more polls. Resolves when those in flight have returned. */
    stop: (): Promise<void> => {
      stopping = true;
      endPause();
      return allReturned.promise;
    },
  };
}

type ReceivedMessage = Pick<MessageRecord, 'receiptHandle'>;

/**
 * Acts on received messages in batch requests until SQS has done it or `signal` aborts. Never throws: failures go to
 * the log, and end with the messages' visibility timeout.
 *
 * @returns messages that SQS did not act on
 */
export type ActOnMessages<M> = (messages: readonly M[], signal: AbortSignal) => Promise<M[]>;

interface ActionOptions {
  readonly sqs: SqsCaller;
  readonly queueUrl: string;
  /** Called once for each reason why SQS did not act. */
  readonly onProblem: (error: Error) => void;
  /** @default three attempts */
  readonly retry?: RetryOptions | undefined;
}

export function createAcknowledger<M extends ReceivedMessage>(options: ActionOptions): ActOnMessages<M> {
  const { sqs, queueUrl: QueueUrl } = options;
  return createMessageAction<M>(options, {
    name: 'acknowledgement',
    otherwise: 'messages that were not deleted and come back after their visibility timeout',
    send(messages, abortSignal) {
      const Entries = messages.map(({ receiptHandle }, id) => ({ Id: String(id), ReceiptHandle: receiptHandle }));
      return sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }), { abortSignal });
    },
  });
}

interface VisibilityOptions<M> extends ActionOptions {
  /** Purpose for problem messages, such as `heartbeat`. */
  readonly name: string;
  /** Returns the whole seconds until a message is visible again, 0 to 43,200. */
  readonly secondsOf: (message: M) => number;
}

/**
 * Changes when received messages become visible to others.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibilityBatch.html
 */
export function createVisibilityChange<M extends ReceivedMessage>(options: VisibilityOptions<M>): ActOnMessages<M> {
  const { sqs, queueUrl: QueueUrl, name, secondsOf } = options;
  return createMessageAction<M>(options, {
    name,
    otherwise: 'messages whose visibility was not changed and that come back after their timeout',
    send(messages, abortSignal) {
      const Entries = messages.map((message, id) => ({
        Id: String(id),
        ReceiptHandle: message.receiptHandle,
        VisibilityTimeout: secondsOf(message),
      }));
      return sqs.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries }), { abortSignal });
    },
  });
}

interface RetryDelayOptions extends ActionOptions {
  /** Number of receives after which the queue moves a record to its dead-letter queue. */
  readonly maxReceives: number;
  /** @default Math.random */
  readonly random?: () => number;
}

/** Sets when records come back: after a backoff that grows with the receive count, not after the visibility timeout. */
export function createRetryDelay(options: RetryDelayOptions): ActOnMessages<MessageRecord> {
  const { random = Math.random, maxReceives } = options;
  return createVisibilityChange<MessageRecord>({
    ...options,
    name: 'retry delay',
    secondsOf: ({ attributes }) => backoffSeconds(Number(attributes.ApproximateReceiveCount), maxReceives, random),
  });
}

/** Delay before the last receive: more than an hour, even with the most jitter. */
const LONGEST_SECONDS = 4_200;
const JITTER = 1 / 8;

/**
 * Returns the whole seconds until a record comes back: 1 after the first receive, then growing by a constant factor, so
 * that the receives of a record span more than an hour. The factor is 1.6 with 20 receives.
 */
export function backoffSeconds(receiveCount: number, maxReceives: number, random: () => number): number {
  const steps = Math.max(1, maxReceives - 2);
  const step = Math.min(steps, Math.max(0, receiveCount - 1));
  return Math.round(LONGEST_SECONDS ** (step / steps) * (1 - JITTER * random()));
}

interface MessageAction<M> {
  readonly name: string;
  /** Description of the remaining messages and their fate, such as `messages that come back`. */
  readonly otherwise: string;
  /** Makes one batch request. The ID of each entry is its position. */
  readonly send: (messages: readonly M[], signal: AbortSignal) => Promise<BatchAnswer>;
}

function createMessageAction<M>(
  { onProblem, retry = { attempts: 3 } }: ActionOptions,
  { name, otherwise, send }: MessageAction<M>,
): ActOnMessages<M> {
  const inFlight = pLimit(CALLS_IN_FLIGHT);
  return async (messages, signal) => {
    const attempt = (batch: readonly M[]) => inFlight(async () => refusalsIn(batch, await send(batch, signal)));
    const statuses = await sendBatches(messages, { store: name, pack: inTens, attempt, signal, retry });
    const reasons = Map.groupBy(statuses.filter(isFailure), ({ message }) => message);
    for (const [reason, { length }] of reasons) onProblem(new Error(`${reason}; ${otherwise}: ${length}`));
    return messages.filter((_, index) => isFailure(statuses[index]));
  };
}

function inTens<M>(messages: readonly M[]): M[][] {
  return Array.from({ length: Math.ceil(messages.length / MAX_BATCH_ENTRIES) }, (_, batch) =>
    messages.slice(batch * MAX_BATCH_ENTRIES, (batch + 1) * MAX_BATCH_ENTRIES),
  );
}

type QueuedMessage = Pick<MessageRecord, 'receiptHandle' | 'eventSourceARN'>;

interface RequestQueues<M> {
  readonly queueUrls: readonly string[];
  readonly act: (queueUrl: string) => ActOnMessages<M>;
  /** Called for records of an unknown queue. Nothing is done to them. */
  readonly onProblem: (error: Error) => void;
}

/** Acts on records at the queue that each came from, because a receipt handle is valid only there. */
export function perQueue<M extends QueuedMessage>({ queueUrls, act, onProblem }: RequestQueues<M>): ActOnMessages<M> {
  const actions = new Map(queueUrls.map((url) => [url.slice(url.lastIndexOf('/') + 1), act(url)]));
  return async (records, signal) => {
    const byQueue = Map.groupBy(records, ({ eventSourceARN }) => eventSourceARN);
    const undone = await Promise.all(
      Array.from(byQueue, async ([arn, those]) => {
        const action = actions.get(arn.slice(arn.lastIndexOf(':') + 1));
        if (action !== undefined) return await action(those, signal);
        onProblem(unknownQueue(arn, those.length, queueUrls));
        return those;
      }),
    );
    return undone.flat();
  };
}

function unknownQueue(arn: string, records: number, queueUrls: readonly string[]): Error {
  return new Error(
    `expected records of ${queueUrls.join(' or ')}, got ${records} of ${arn}, which stay until their visibility ` +
      'timeout ends; add the URL of that queue to the request queues of the configuration, or remove its event source mapping',
  );
}

export interface Extension extends QueuedMessage {
  readonly record: MessageRecord;
  readonly seconds: number;
}

interface VisibilityActions {
  readonly extend: ActOnMessages<Extension>;
  /** Makes records visible to others immediately. */
  readonly handBack: ActOnMessages<MessageRecord>;
}

interface VisibilityActionsOptions {
  readonly sqs: SqsCaller;
  readonly queueUrls: readonly string[];
  readonly onProblem: (error: Error) => void;
}

export function createVisibilityActions(options: VisibilityActionsOptions): VisibilityActions {
  return {
    extend: perQueue<Extension>({
      ...options,
      act: (queueUrl) =>
        createVisibilityChange({ ...options, queueUrl, name: 'heartbeat', secondsOf: ({ seconds }) => seconds }),
    }),
    handBack: perQueue<MessageRecord>({
      ...options,
      act: (queueUrl) => createVisibilityChange({ ...options, queueUrl, name: 'handing back', secondsOf: () => 0 }),
    }),
  };
}
