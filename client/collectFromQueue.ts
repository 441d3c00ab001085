import { setTimeout } from 'node:timers/promises';
import { type Message, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { describeError, isCallersFault } from '../lambda/aws/awsError.ts';
import { type ActOnMessages, createAcknowledger, createVisibilityChange } from '../lambda/aws/requestQueue.ts';
import { MAX_BATCH_ENTRIES } from '../lambda/aws/sendBatches.ts';
import { MESSAGE_ID_ATTRIBUTE, RESULTS_ATTRIBUTE } from '../lambda/core/record.ts';
import { Backoff, type Collector } from './collect.ts';
import type { Inbox } from './inbox.ts';
import { decodeResult, isUnreadable, type ReadResult, type ReadStored, unpackResults } from './readResult.ts';

interface QueueCollectorOptions {
  readonly sqs: SQSClient;
  readonly queueUrl: string;
  readonly inbox: Inbox;
  readonly read: ReadStored;
  /** Told, once each, of what the caller should change. */
  readonly warn: (message: string) => void;
  /** Ends the loop, and the retries of acknowledgements. */
  readonly closing: AbortSignal;
}

/** A poll is never cut short, because what it received would stay hidden; so it is a short one. */
const POLL_SECONDS = 2;
/** How long a received result stays hidden from others unless it is given back or deleted. */
const HIDDEN_SECONDS = 30;
const SWEEPERS = 4;
/** Well before what was set aside first comes back by itself. */
const LONGEST_ROUND_MS = 10_000;
const LONGEST_LINGER_MS = 40;
const LINGER_STEP_MS = 10;
const MAX_WARNINGS = 10;

const SHARED =
  'a message of the result queue holds results that nobody here waits for beside others that somebody does. Each client ' +
  'gets its own, but nobody can delete such a message: it stays on the queue until it expires. Give each client a result ' +
  'queue of its own, use resultTable, or set resultsPerMessage to 1';

interface Stored {
  readonly messageId: string;
  read(): Promise<ReadResult>;
}

/**
 * Collects in rounds while someone waits: a long poll until results come, then a sweep of short polls until none are
 * left. Results of others are set aside until then, so that they do not come again, and then given back; a pause of
 * about half the sweep's length is the turn of their clients.
 *
 * @see docs/adr/0014-clients-of-one-result-queue-take-turns.md
 */
export class QueueCollector implements Collector {
  lastError: unknown;
  othersReceived = 0;
  readonly #options: QueueCollectorOptions;
  readonly #deletions: Acknowledger;
  readonly #returns: Acknowledger;
  readonly #setAside: SetAside;
  readonly #warnings = new Set<string>();
  /** The round under way, or the last one. */
  #round: Promise<unknown> | undefined;
  /** Results that reached the inbox in this round. */
  #delivered = 0;
  /** Why a packed message of this round could not be read. */
  #broken: Error | undefined;

  constructor(options: QueueCollectorOptions) {
    const { sqs, queueUrl, closing, inbox } = options;
    this.#options = options;
    // What SQS does not do comes back when its visibility timeout ends, and is dealt with then.
    const reliably = { sqs, queueUrl, retry: { attempts: 6 }, onProblem: () => {} };
    const giveBack = createVisibilityChange({ ...reliably, name: 'return', secondsOf: () => 0 });
    this.#deletions = gatherEachTick(createAcknowledger(reliably), closing);
    this.#returns = gatherEachTick(giveBack, closing);
    // Callers wait for what is done to their own results, not for thousands of others.
    this.#setAside = new SetAside(gatherEachTick(giveBack, closing));
    inbox.onWanted((messageIds) => this.#setAside.giveBackOf(messageIds));
    void this.#collectWhileWanted();
  }

  async settled(): Promise<void> {
    await Promise.all([this.#deletions.idle(), this.#returns.idle()]);
  }

  async close(): Promise<void> {
    await this.#round;
    await Promise.all([this.settled(), this.#setAside.idle()]);
  }

  async #collectWhileWanted(): Promise<void> {
    const { inbox, queueUrl, closing } = this.#options;
    const backoff = new Backoff();
    while (!closing.aborted) {
      if (await inbox.demand()) backoff.reset();
      const moreWanted = inbox.moreWanted();
      const round = this.#collectOnce();
      this.#round = round;
      const { error, sweepMs, givenBack } = await round;
      this.lastError = error ?? this.#broken;
      if (isCallersFault(error)) {
        inbox.fail(new Error(`the result queue ${queueUrl} cannot be read: ${describeError(error)}`, { cause: error }));
      }
      if (this.#delivered > 0) backoff.reset();
      if (givenBack > 0 || error !== undefined) await backoff.pause(moreWanted, sweepMs / 2);
    }
  }

  /**
   * One round, without the pause. It never rejects.
   *
   * @returns why a poll failed, how long it took since the first results came, and how many messages were given back
   */
  async #collectOnce() {
    this.#delivered = 0;
    this.#broken = undefined;
    let error: unknown;
    let startedAt = performance.now();
    try {
      let received = await this.#receive(POLL_SECONDS);
      startedAt = performance.now();
      const endsAt = startedAt + LONGEST_ROUND_MS;
      while (received > 0 && performance.now() < endsAt) {
        await this.#sweep(received < MAX_BATCH_ENTRIES ? 1 : SWEEPERS, endsAt);
        received = await this.#linger();
      }
    } catch (cause) {
      error = cause;
    }
    return { error, sweepMs: performance.now() - startedAt, givenBack: this.#setAside.giveBackAll() };
  }

  /** Polls until nothing comes or nothing is wanted any more. @throws what a poll threw, once all sweepers are done */
  async #sweep(sweepers: number, endsAt: number): Promise<void> {
    const { inbox } = this.#options;
    const sweepAlone = async (): Promise<void> => {
      while (inbox.isWanting() && performance.now() < endsAt) {
        if ((await this.#receive(0)) === 0) return;
      }
    };
    const ends = await Promise.allSettled(Array.from({ length: sweepers }, sweepAlone));
    for (const end of ends) {
      if (end.status === 'rejected') throw end.reason;
    }
  }

  /**
   * Clients that sweep together come to the end together. Were all to give back what they hold at that moment, they
   * would share it out by chance again; so each waits as long as chance has it for another to give back first.
   *
   * @returns how many messages came
   */
  async #linger(): Promise<number> {
    const { inbox } = this.#options;
    const endsAt = performance.now() + LONGEST_LINGER_MS * Math.random();
    let received = 0;
    while (received === 0 && this.#setAside.size() > 0 && inbox.isWanting() && performance.now() < endsAt) {
      await setTimeout(LINGER_STEP_MS);
      received = await this.#receive(0);
    }
    return received;
  }

  /** Receives once. @returns how many messages came */
  async #receive(waitSeconds: number): Promise<number> {
    const { sqs, queueUrl } = this.#options;
    const command = new ReceiveMessageCommand({
      QueueUrl: queueUrl,
      MaxNumberOfMessages: MAX_BATCH_ENTRIES,
      WaitTimeSeconds: waitSeconds,
      VisibilityTimeout: HIDDEN_SECONDS,
      MessageAttributeNames: [MESSAGE_ID_ATTRIBUTE, RESULTS_ATTRIBUTE],
    });
    const { Messages = [] } = await sqs.send(command);
    await Promise.all(Messages.map((message) => this.#take(message)));
    return Messages.length;
  }

  /**
   * Delivers the results of a message that are wanted here. The message is deleted once each of its results was accepted
   * here or is wanted by nobody any more; while it holds results of others, or of a caller without room, it is set aside.
   */
  async #take(message: Message): Promise<void> {
    const { inbox } = this.#options;
    const { ReceiptHandle: receiptHandle = '' } = message;
    const results = this.#resultsIn(message);
    if (results === undefined) return this.#setAside.add(receiptHandle, []);
    const messageIds = results.map(({ messageId }) => messageId);
    const states = messageIds.map((messageId) => inbox.stateOf(messageId));
    const wanted = results.filter((_, index) => states[index] === 'wanted');
    const others = states.filter((state) => state === 'unknown').length;
    this.othersReceived += others;
    if (others > 0 && others < results.length) this.#warn(SHARED);
    const comesAgain = others > 0 || states.includes('full');
    const someAreHeld = states.includes('held');
    if (comesAgain) this.#setAside.add(receiptHandle, messageIds);
    else if (wanted.length === 0 && !someAreHeld) this.#deletions.add(receiptHandle);

    let open = wanted.length;
    // Of a result whose other copy is held here it is not known yet what becomes of it.
    let isKept = someAreHeld;
    const settle = (isDone: boolean): void => {
      open -= 1;
      isKept ||= !isDone;
      if (open === 0 && !comesAgain) (isKept ? this.#returns : this.#deletions).add(receiptHandle);
    };
    for (const { messageId, read } of wanted) {
      const { result, complete } = await read();
      const accept = (): void => {
        if (complete) inbox.dismiss(messageId);
        settle(complete);
      };
      if (inbox.deliver({ result, accept, giveBack: () => settle(false) })) this.#delivered += 1;
      else settle(false);
    }
  }

  /** @returns undefined for a message that cannot be read, or is no message of results */
  #resultsIn({ MessageId, MessageAttributes, Body = '' }: Message): readonly Stored[] | undefined {
    const { queueUrl, read } = this.#options;
    const count = MessageAttributes?.[RESULTS_ATTRIBUTE]?.StringValue;
    const messageId = MessageAttributes?.[MESSAGE_ID_ATTRIBUTE]?.StringValue;
    if (count === undefined) {
      if (messageId !== undefined) return [{ messageId, read: () => read(messageId, Body) }];
      this.othersReceived += 1;
      return undefined;
    }
    const results = unpackResults(Body, count);
    if (isUnreadable(results)) {
      this.#broken = new Error(
        `message ${MessageId} of the result queue ${queueUrl}: ${results.problem}; it was left there`,
      );
      this.#warn(this.#broken.message);
      return undefined;
    }
    return results.map((one) => ({
      messageId: one.messageId,
      read: async () => ({ result: decodeResult(one.messageId, one.document), complete: true }),
    }));
  }

  #warn(message: string): void {
    if (this.#warnings.size === MAX_WARNINGS || this.#warnings.has(message)) return;
    this.#warnings.add(message);
    this.#options.warn(message);
  }
}

/** Messages that were received and that nobody here can take now: kept from everyone until they are given back. */
class SetAside {
  readonly #returns: Acknowledger;
  readonly #handles = new Set<string>();
  readonly #handlesById = new Map<string, string[]>();

  constructor(returns: Acknowledger) {
    this.#returns = returns;
  }

  /** @param messageIds those of its requests, as far as it carries any */
  add(receiptHandle: string, messageIds: readonly string[]): void {
    this.#handles.add(receiptHandle);
    for (const messageId of messageIds) {
      const known = this.#handlesById.get(messageId);
      if (known === undefined) this.#handlesById.set(messageId, [receiptHandle]);
      else known.push(receiptHandle);
    }
  }

  size(): number {
    return this.#handles.size;
  }

  /** Gives back those of these message IDs: somebody here waits for them now. */
  giveBackOf(messageIds: Iterable<string>): void {
    if (this.#handles.size === 0) return;
    for (const messageId of messageIds) {
      for (const receiptHandle of this.#handlesById.get(messageId) ?? []) {
        if (this.#handles.delete(receiptHandle)) this.#returns.add(receiptHandle);
      }
      this.#handlesById.delete(messageId);
    }
  }

  /** @returns how many there were */
  giveBackAll(): number {
    const count = this.#handles.size;
    for (const receiptHandle of this.#handles) this.#returns.add(receiptHandle);
    this.#handles.clear();
    this.#handlesById.clear();
    return count;
  }

  idle(): Promise<void> {
    return this.#returns.idle();
  }
}

/** Deletes received messages, or gives them back, in the background. */
interface Acknowledger {
  add(receiptHandle: string): void;
  /** Resolves when all of it so far is done or given up; what was given up comes back after its visibility timeout. */
  idle(): Promise<void>;
}

/** What is added in one turn of the event loop shares batch requests. */
function gatherEachTick(act: ActOnMessages<{ readonly receiptHandle: string }>, closing: AbortSignal): Acknowledger {
  const running = new Set<Promise<unknown>>();
  let gathered: { readonly receiptHandle: string }[] = [];
  const flush = (): void => {
    if (gathered.length === 0) return;
    const done = act(gathered, closing).finally(() => running.delete(done));
    running.add(done);
    gathered = [];
  };
  return {
    add(receiptHandle) {
      if (gathered.push({ receiptHandle }) === 1) setImmediate(flush);
    },
    async idle() {
      flush();
      await Promise.all(running);
    },
  };
}
