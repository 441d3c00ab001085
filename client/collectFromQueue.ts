import { GetQueueAttributesCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { describeError, isCallersFault } from '../lambda/aws/awsError.ts';
import {
  type ActOnMessages,
  createAcknowledger,
  createPoller,
  createReceiver,
  createVisibilityChange,
} from '../lambda/aws/requestQueue.ts';
import { MAX_BATCH_ENTRIES, pauseMs } from '../lambda/aws/sendBatches.ts';
import { MESSAGE_ID_ATTRIBUTE, type MessageRecord, RESULTS_ATTRIBUTE } from '../lambda/core/record.ts';
import type { StoreTrouble } from './clientErrors.ts';
import type { BatchscoreOptions } from './clientOptions.ts';
import type { Collector } from './collect.ts';
import type { Inbox } from './inbox.ts';
import { type ReadStored, readMessage, type StoredResult } from './readResult.ts';

interface QueueCollectorOptions {
  readonly sqs: SQSClient;
  readonly queueUrl: string;
  readonly inbox: Inbox;
  readonly read: ReadStored;
  readonly onUnclaimed: BatchscoreOptions['onUnclaimed'];
  /** Told of what the caller should know or change. */
  readonly warn: (message: string) => void;
  /** Ends the retries of acknowledgements. */
  readonly closing: AbortSignal;
}

/** A poll is never cut short, because what it received would stay hidden; so it is a short one. */
const POLL_SECONDS = 2;
/** How long a received message stays hidden unless it is deleted or returned. */
const HIDDEN_SECONDS = 30;
const MAX_POLLS = 4;
/** Bytes of bodies that are kept in memory for callers to come. */
const MAX_KEPT_BYTES = 64 * 1024 * 1024;
const MAX_WARNINGS = 10;

/** A received message of which not all results are finished. */
interface Kept {
  readonly record: MessageRecord;
  readonly results: readonly StoredResult[];
  /** Message IDs of results that only this process has: they need not stay on the queue. */
  readonly handedOver: Set<string>;
  /** When it can be received again, by `performance.now()`. Infinite if it has left the queue. */
  returnsAt: number;
}

/**
 * The one reader of a result queue. While someone waits, it receives what comes and keeps it until each result of a
 * message has reached its caller; then the message is deleted. A later caller gets what is kept at once.
 *
 * A result that nobody waits for goes to `onUnclaimed` and leaves the queue. Without that callback it stays on a standard
 * queue, hidden for 30 s at a time. On a FIFO queue it would lock its message group, so it leaves the queue and is kept in
 * memory.
 *
 * @see docs/adr/0061-one-reader-for-each-result-queue.md
 */
export class QueueCollector implements Collector {
  readonly #options: QueueCollectorOptions;
  readonly #isFifo: boolean;
  readonly #startedAt = performance.now();
  readonly #poller: ReturnType<typeof createPoller<MessageRecord>>;
  readonly #deletions: Acknowledger;
  readonly #returnNow: ActOnMessages<MessageRecord>;
  /** Oldest first. */
  readonly #kept = new Set<Kept>();
  /** By the message ID of each result. */
  readonly #keptById = new Map<string, Kept>();
  #keptBytes = 0;
  readonly #warnings = new Set<string>();
  #pollError: unknown;
  /** Why a packed message could not be read. */
  #broken: Error | undefined;

  constructor(options: QueueCollectorOptions) {
    const { sqs, queueUrl, closing, inbox } = options;
    this.#options = options;
    this.#isFifo = queueUrl.endsWith('.fifo');
    // What SQS does not do comes back when its visibility timeout ends, and is dealt with then.
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

  /** Makes one poll and takes what it brings. Of polls at the same time only the first waits for a message. */
  #receiver(): () => Promise<MessageRecord[]> {
    const { sqs, queueUrl } = this.#options;
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
    const { inbox, queueUrl } = this.#options;
    this.#pollError = error;
    if (!isCallersFault(error)) return;
    inbox.fail(new Error(`the result queue ${queueUrl} cannot be read: ${describeError(error)}`, { cause: error }));
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

  /** Delivers a result to those who wait for it, or hands it over if nobody does and it may leave the queue. */
  async #offer(stored: StoredResult, kept: Kept): Promise<void> {
    const { inbox, read } = this.#options;
    const { messageId } = stored;
    const state = inbox.stateOf(messageId);
    if (state === 'unclaimed') return await this.#handOver(stored, kept);
    if (state !== 'wanted') return;
    const { result, complete } = await stored.read(read);
    const accepted = (id: string): void => {
      // Nobody can tell how many requests the error of a whole message is for: it is kept for those who ask later.
      if ('error' in result && id !== messageId) kept.handedOver.add(messageId);
      this.#deleteIfDone(kept);
      // The result was written twice, or came again while its caller was busy.
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
          'is taken off and kept in memory alone; set onUnclaimed to store such results',
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
      `message ${messageId} of the result queue ${this.#options.queueUrl}: ${problem}; it was left there`,
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

  /** Counts the messages that are hidden though not received here: by a client that ended without `close`. */
  async #hiddenByOthers(): Promise<StoreTrouble['hidden']> {
    const seconds = Math.ceil(HIDDEN_SECONDS - (performance.now() - this.#startedAt) / 1000);
    if (seconds <= 0) return undefined;
    const { sqs, queueUrl: QueueUrl, closing: abortSignal } = this.#options;
    const AttributeNames = ['ApproximateNumberOfMessagesNotVisible' as const];
    try {
      const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames }), {
        abortSignal,
      });
      const own = [...this.#kept].filter(isHidden).length;
      const messages = Number(Attributes?.ApproximateNumberOfMessagesNotVisible ?? 0) - own;
      return messages > 0 ? { messages, seconds } : undefined;
    } catch {
      // The permission to ask is not needed to collect.
      return undefined;
    }
  }

  #warn(subject: string, message: string): void {
    if (this.#warnings.size === MAX_WARNINGS || this.#warnings.has(subject)) return;
    this.#warnings.add(subject);
    this.#options.warn(message);
  }
}

/** Returns true if a message is on the queue, hidden from everybody else. */
function isHidden({ returnsAt }: Kept): boolean {
  return Number.isFinite(returnsAt) && returnsAt > performance.now();
}

/** Deletes received messages in the background. */
interface Acknowledger {
  add(record: MessageRecord): void;
  /** Resolves when all of it so far is done or given up; what was given up comes back after its visibility timeout. */
  idle(): Promise<void>;
}

/** What is added in one turn of the event loop shares batch requests. */
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
