import { GetQueueAttributesCommand } from '@aws-sdk/client-sqs';
import * as z from 'zod';
import { describeError, isCallersFault } from '../lambda/aws/awsError.ts';
import {
  type ActOnMessages,
  createAcknowledger,
  createPoller,
  createReceiver,
  createVisibilityChange,
} from '../lambda/aws/requestQueue.ts';
import { pauseMs } from '../lambda/aws/sendBatches.ts';
import { MAX_BATCH_ENTRIES } from '../lambda/aws/sqsMessages.ts';
import { MESSAGE_ID_ATTRIBUTE, type MessageRecord, RESULTS_ATTRIBUTE } from '../lambda/core/record.ts';
import type { StoreTrouble } from './clientErrors.ts';
import type { ResultStore, StoreContext } from './collect.ts';
import { isFifo, QUEUE_URL } from './optionKinds.ts';
import { readMessage, type ScoringResult, type StoredResult } from './readResult.ts';

export interface QueueOptions {
  /** URL of this client's result queue, for `collect` and `score`. No other client may read from it. */
  readonly resultQueueUrl?: string | undefined;
  /**
   * Callback for results on the result queue that no caller waits for when they arrive. When it returns, or its promise
   * resolves, the result is deleted from the queue.
   * @default such a result stays on a standard queue until it expires; on a FIFO queue it would lock its message group,
   * so it is kept only in memory
   */
  readonly onUnclaimed?: ((result: ScoringResult) => unknown) | undefined;
}

export const QUEUE_OPTIONS = {
  resultQueueUrl: QUEUE_URL.optional(),
  onUnclaimed: z
    .custom<(result: ScoringResult) => unknown>((value) => typeof value === 'function', {
      error: 'expected a function',
    })
    .optional(),
};

interface QueueStoreOptions extends QueueOptions, StoreContext {
  readonly resultQueueUrl: string;
}

/** Duration of a poll. Polls are short, because an aborted poll would leave received messages hidden. */
const POLL_SECONDS = 2;
/** Visibility timeout of received messages. */
const HIDDEN_SECONDS = 30;
const MAX_POLLS = 4;
/** Maximum bytes of bodies that are kept in memory for later callers. */
const MAX_KEPT_BYTES = 64 * 1024 * 1024;
const MAX_WARNINGS = 10;

/** Received message with results that are not all finished. */
interface Kept {
  readonly record: MessageRecord;
  readonly results: readonly StoredResult[];
  /** Message IDs of results that need not stay on the queue, because `onUnclaimed` or this process has them. */
  readonly handedOver: Set<string>;
  /** Time when it becomes visible again, by `performance.now()`. Infinite if it was deleted from the queue. */
  returnsAt: number;
}

/**
 * The only reader of a result queue. While a caller waits, it receives messages and keeps each of them until all its
 * results have reached their callers, and then deletes it. Later callers get kept results immediately.
 *
 * A result that no caller waits for goes to `onUnclaimed` and is deleted from the queue. Without that callback it stays
 * on a standard queue, hidden for 30 s at a time. On a FIFO queue it would lock its message group, so it is deleted
 * from the queue and kept in memory.
 *
 * @see docs/adr/0014-one-reader-for-each-result-queue.md
 */
export class QueueStore implements ResultStore {
  readonly clients = [];
  readonly replyTo: string;
  readonly #options: QueueStoreOptions;
  readonly #isFifo: boolean;
  readonly #startedAt = performance.now();
  readonly #poller: ReturnType<typeof createPoller<MessageRecord>>;
  readonly #deletions: Acknowledger;
  readonly #returnNow: ActOnMessages<MessageRecord>;
  /** Kept messages, oldest first. */
  readonly #kept = new Set<Kept>();
  /** Kept messages by the message ID of each result. */
  readonly #keptById = new Map<string, Kept>();
  #keptBytes = 0;
  readonly #warnings = new Set<string>();
  #pollError: unknown;
  /** Error of the last message that could not be read and stays on the queue. */
  #broken: Error | undefined;

  constructor(options: QueueStoreOptions) {
    const { sqs, resultQueueUrl: queueUrl, closing, inbox } = options;
    this.#options = options;
    this.replyTo = queueUrl;
    this.#isFifo = isFifo(queueUrl);
    // Failed calls need no handling: the messages become visible again and are then received once more.
    const reliably = { sqs, queueUrl, retry: { attempts: 6 }, onProblem: () => {} };
    this.#deletions = gatherEachTick(createAcknowledger(reliably), closing);
    this.#returnNow = createVisibilityChange({ ...reliably, name: 'return', secondsOf: () => 0 });
    this.#poller = createPoller<MessageRecord>({
      receive: this.#receiver(),
      recordsAPoll: MAX_BATCH_ENTRIES,
      maxPolls: MAX_POLLS,
      hasRoom: () => inbox.isWanting(),
      take: () => {},
      onError: (error) => this.#onPollError(error),
      pauseMs: (failures) => pauseMs(failures + 1, { capMs: 1_000 }),
      waitMs: 1000 * POLL_SECONDS,
    });
    inbox.onWanted((messageIds) => {
      for (const messageId of messageIds) void this.#offerKept(messageId);
      this.#poller.poll();
    });
  }

  async settled(): Promise<void> {
    await this.#deletions.idle();
  }

  async trouble(): Promise<StoreTrouble> {
    return { cause: this.#pollError ?? this.#broken, hidden: await this.#hiddenByOthers() };
  }

  async close(): Promise<void> {
    await this.#poller.stop();
    const records = [...this.#kept].filter(isHidden).map(({ record }) => record);
    await Promise.all([this.#deletions.idle(), this.#returnNow(records, this.#options.closing)]);
  }

  /**
   * Returns a function that makes one poll and handles its messages. A poll waits for a message only if no other one
   * does.
   */
  #receiver(): () => Promise<MessageRecord[]> {
    const { sqs, resultQueueUrl: queueUrl } = this.#options;
    const receiver = (waitSeconds: number) =>
      createReceiver({
        sqs,
        queueUrl,
        waitSeconds,
        visibilitySeconds: HIDDEN_SECONDS,
        attributes: [MESSAGE_ID_ATTRIBUTE, RESULTS_ATTRIBUTE],
      });
    const [longPoll, shortPoll] = [receiver(POLL_SECONDS), receiver(0)];
    const never = new AbortController().signal;
    let isWaiting = false;
    return async () => {
      const isFirst = !isWaiting;
      isWaiting = true;
      try {
        const records = await (isFirst ? longPoll : shortPoll)(never);
        this.#pollError = undefined;
        await Promise.all(records.map((record) => this.#take(record)));
        return records;
      } finally {
        if (isFirst) isWaiting = false;
      }
    };
  }

  #onPollError(error: unknown): void {
    const { inbox, resultQueueUrl } = this.#options;
    this.#pollError = error;
    if (!isCallersFault(error)) return;
    inbox.fail(
      new Error(`the result queue ${resultQueueUrl} cannot be read: ${describeError(error)}`, { cause: error }),
    );
  }

  async #take(record: MessageRecord): Promise<void> {
    const read = readMessage(record);
    const results = 'problem' in read ? [] : read;
    const kept: Kept = { record, results, handedOver: new Set(), returnsAt: performance.now() + 1000 * HIDDEN_SECONDS };
    this.#keep(kept);
    if ('problem' in read) return this.#leave(record, read.problem);
    await Promise.all(results.map((stored) => this.#offer(stored, kept)));
    this.#deleteIfDone(kept);
  }

  async #offerKept(messageId: string): Promise<void> {
    const kept = this.#keptById.get(messageId);
    const stored = kept?.results.find((result) => result.messageId === messageId);
    if (kept !== undefined && stored !== undefined && kept.returnsAt > performance.now())
      await this.#offer(stored, kept);
  }

  /** Delivers a result to the callers that wait for it. If there are none, hands it over if it may leave the queue. */
  async #offer(stored: StoredResult, kept: Kept): Promise<void> {
    const { inbox, read } = this.#options;
    const { messageId } = stored;
    const state = inbox.stateOf(messageId);
    if (state === 'unclaimed') return await this.#handOver(stored, kept);
    if (state !== 'wanted') return;
    const { result, complete } = await stored.read(read);
    // It stays on the queue. On a FIFO queue, results of its message group that are behind it do not arrive.
    if (!complete && this.#isFifo && 'error' in result) this.#broken = result.error;
    const accepted = (id: string): void => {
      // An error of a whole message does not tell the number of its requests, so it is kept for later callers.
      if ('error' in result && id !== messageId) kept.handedOver.add(messageId);
      this.#deleteIfDone(kept);
      // The result was written twice, or was received again while its caller was busy.
      const copy = this.#keptById.get(messageId);
      if (copy !== undefined && copy !== kept) this.#deleteIfDone(copy);
    };
    inbox.deliver(result, complete ? accepted : undefined);
  }

  async #handOver(stored: StoredResult, kept: Kept): Promise<void> {
    const { onUnclaimed, read } = this.#options;
    const { messageId } = stored;
    if (onUnclaimed === undefined && !this.#isFifo) {
      if (kept.record.attributes.ApproximateReceiveCount === '1') return;
      return this.#warn(
        'unclaimed',
        `the result of ${messageId}, for which nobody waits, stays on the result queue until it expires; collect it, or set onUnclaimed`,
      );
    }
    if (onUnclaimed === undefined) {
      this.#warn(
        'taken',
        `the result of ${messageId}, for which nobody waits, would lock its message group on the FIFO result queue; it ` +
          'is taken off and kept in memory alone; give each client a queue of its own, or set onUnclaimed to store such results',
      );
    } else {
      const { result, complete } = await stored.read(read);
      if (!complete) return;
      try {
        await onUnclaimed(result);
      } catch (error) {
        return this.#warn(
          'onUnclaimed',
          `onUnclaimed: ${describeError(error)}; the result of ${messageId} stays on the queue`,
        );
      }
    }
    kept.handedOver.add(messageId);
  }

  #leave({ messageId }: MessageRecord, problem: string): void {
    this.#broken = new Error(
      `message ${messageId} of the result queue ${this.#options.resultQueueUrl}: ${problem}; it was left there`,
    );
    this.#warn(messageId, this.#broken.message);
  }

  #deleteIfDone(kept: Kept): void {
    const { results, handedOver, record } = kept;
    const isFinished = ({ messageId }: StoredResult) => this.#options.inbox.stateOf(messageId) === 'finished';
    if (!results.every((result) => handedOver.has(result.messageId) || isFinished(result))) return;
    if (Number.isFinite(kept.returnsAt)) this.#deletions.add(record);
    kept.returnsAt = Number.POSITIVE_INFINITY;
    if (handedOver.size === 0 || results.every(isFinished)) this.#forget(kept);
  }

  #keep(kept: Kept): void {
    for (const { messageId } of kept.results) this.#keptById.set(messageId, kept);
    this.#kept.add(kept);
    this.#keptBytes += kept.record.body.length;
    for (const older of this.#kept) {
      if (older === kept || (this.#keptBytes <= MAX_KEPT_BYTES && older.returnsAt > performance.now())) return;
      this.#forget(older);
    }
  }

  #forget(kept: Kept): void {
    if (!this.#kept.delete(kept)) return;
    this.#keptBytes -= kept.record.body.length;
    for (const { messageId } of kept.results) {
      if (this.#keptById.get(messageId) === kept) this.#keptById.delete(messageId);
    }
  }

  /**
   * Counts the messages that are hidden but were not received here, but by a client that ended without `close`, or that
   * reads this queue too.
   */
  async #hiddenByOthers(): Promise<StoreTrouble['hidden']> {
    const seconds = Math.max(0, Math.ceil(HIDDEN_SECONDS - (performance.now() - this.#startedAt) / 1000));
    const { sqs, resultQueueUrl: QueueUrl, closing: abortSignal } = this.#options;
    const AttributeNames = ['ApproximateNumberOfMessagesNotVisible' as const];
    try {
      const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames }), {
        abortSignal,
      });
      const own = [...this.#kept].filter(isHidden).length;
      const messages = Number(Attributes?.ApproximateNumberOfMessagesNotVisible ?? 0) - own;
      return messages > 0 ? { messages, seconds } : undefined;
    } catch {
      // Collecting does not need the permission for this call.
      return undefined;
    }
  }

  #warn(subject: string, message: string): void {
    if (this.#warnings.size === MAX_WARNINGS || this.#warnings.has(subject)) return;
    this.#warnings.add(subject);
    this.#options.warn(message);
  }
}

/** Returns true if a message is on the queue, but hidden from other consumers. */
function isHidden({ returnsAt }: Kept): boolean {
  return Number.isFinite(returnsAt) && returnsAt > performance.now();
}

/** Acknowledger that deletes received messages in the background. */
interface Acknowledger {
  add(record: MessageRecord): void;
  /** Resolves when all deletions have succeeded or failed. Messages of failed ones become visible again. */
  idle(): Promise<void>;
}

/** Gathers additions of one turn of the event loop into batch requests. */
function gatherEachTick(act: ActOnMessages<MessageRecord>, closing: AbortSignal): Acknowledger {
  const running = new Set<Promise<unknown>>();
  let gathered: MessageRecord[] = [];
  const flush = (): void => {
    if (gathered.length === 0) return;
    const done = act(gathered, closing).finally(() => running.delete(done));
    running.add(done);
    gathered = [];
  };
  return {
    add(record) {
      if (gathered.push(record) === 1) setImmediate(flush);
    },
    async idle() {
      flush();
      await Promise.all(running);
    },
  };
}
