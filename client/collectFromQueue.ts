import { setTimeout } from 'node:timers/promises';
import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  type DeleteMessageBatchResult,
  type Message,
  ReceiveMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import pLimit from 'p-limit';
import { describeError, isCallersFault } from '../lambda/aws/awsError.ts';
import { MAX_BATCH_ENTRIES, type RetryOptions, retryRemaining } from '../lambda/aws/sendBatches.ts';
import { MESSAGE_ID_ATTRIBUTE, RESULTS_ATTRIBUTE } from '../lambda/core/record.ts';
import { type Collector, createBackoff } from './collect.ts';
import type { Inbox } from './inbox.ts';
import { decodeResult, isUnreadable, type ReadStored, type StoredResult, unpackResults } from './readResult.ts';

interface QueueCollectorOptions extends IntakeOptions {
  /** Ends the retries of acknowledgements. */
  readonly closing: AbortSignal;
}

/** A poll is never cut short, because what it received would stay hidden; so it is a short one. */
const POLL_SECONDS = 2;
const SWEEPERS = 4;
/** Well before what was set aside first comes back by itself. */
const LONGEST_ROUND_MS = 10_000;
const LONGEST_LINGER_MS = 40;
const LINGER_STEP_MS = 10;

/**
 * Collects in rounds while someone waits: a long poll until results come, then a sweep of short polls until none are
 * left. Results of others are set aside until then, so that they do not come again, and then given back; a pause of
 * about half the sweep's length is the turn of their clients.
 *
 * @see docs/adr/0014-clients-of-one-result-queue-take-turns.md
 */
export function startQueueCollector(options: QueueCollectorOptions): Collector {
  const own = createAcknowledger(options);
  const others = createAcknowledger(options);
  const intake = createIntake(options, own, others);
  const state: CollectorState = { round: undefined, lastError: undefined };
  void collectWhileWanted(options, intake, state);
  return {
    settled: () => own.idle(),
    lastError: () => state.lastError,
    othersReceived: () => intake.othersReceived(),
    async close() {
      await state.round;
      await Promise.all([own.idle(), others.idle()]);
    },
  };
}

interface CollectorState {
  /** The one under way, or the last one. */
  round: Promise<Round> | undefined;
  /** Why the last round failed; undefined after one that did not. */
  lastError: unknown;
}

async function collectWhileWanted(
  { inbox, queueUrl, closing }: QueueCollectorOptions,
  intake: Intake,
  state: CollectorState,
): Promise<void> {
  const backoff = createBackoff();
  while (!closing.aborted) {
    if (await inbox.demand()) backoff.reset();
    const joined = inbox.joined();
    state.round = collectOnce(inbox, intake);
    const { error, delivered, givenBack, broken, sweepMs } = await state.round;
    state.lastError = error ?? broken;
    if (isCallersFault(error)) inbox.fail(unreadable(queueUrl, error));
    if (delivered > 0) backoff.reset();
    if (givenBack > 0 || error !== undefined) await backoff.pause(joined, sweepMs / 2);
  }
}

interface Round extends Tally {
  /** Why a poll failed; undefined when none did. */
  readonly error: unknown;
  /** How long it took since the first results came. */
  readonly sweepMs: number;
}

/** One round, without the pause. It never rejects. */
async function collectOnce(inbox: Inbox, intake: Intake): Promise<Round> {
  let error: unknown;
  let startedAt = performance.now();
  try {
    let received = await intake.receive(POLL_SECONDS);
    startedAt = performance.now();
    const endsAt = startedAt + LONGEST_ROUND_MS;
    while (received > 0 && performance.now() < endsAt) {
      await sweep(received < MAX_BATCH_ENTRIES ? 1 : SWEEPERS, endsAt, inbox, intake);
      received = await linger(inbox, intake);
    }
  } catch (cause) {
    error = cause;
  }
  return { error, sweepMs: performance.now() - startedAt, ...intake.endRound() };
}

/** Polls until nothing comes or nothing is wanted any more. @throws what a poll threw, once all sweepers are done */
async function sweep(sweepers: number, endsAt: number, inbox: Inbox, intake: Intake): Promise<void> {
  const sweepAlone = async (): Promise<void> => {
    while (inbox.isWanting() && performance.now() < endsAt) {
      if ((await intake.receive(0)) === 0) return;
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
async function linger(inbox: Inbox, intake: Intake): Promise<number> {
  const endsAt = performance.now() + LONGEST_LINGER_MS * Math.random();
  let received = 0;
  while (received === 0 && intake.holdsOthers() && inbox.isWanting() && performance.now() < endsAt) {
    await setTimeout(LINGER_STEP_MS);
    received = await intake.receive(0);
  }
  return received;
}

function unreadable(queueUrl: string, cause: unknown): Error {
  return new Error(`the result queue ${queueUrl} cannot be read: ${describeError(cause)}`, { cause });
}

interface IntakeOptions {
  readonly sqs: SQSClient;
  readonly queueUrl: string;
  readonly inbox: Inbox;
  readonly read: ReadStored;
  /** Told, once each, of what the caller should change. */
  readonly warn: (message: string) => void;
}

/** What came in one round. */
interface Tally {
  /** Results that reached the inbox. */
  readonly delivered: number;
  /** Those that were set aside and are given back now. */
  readonly givenBack: number;
  /** Why a packed message could not be read; undefined where all could. */
  readonly broken: Error | undefined;
}

/** Receives messages from the result queue: delivers what is wanted here, deletes copies, sets the rest aside. */
interface Intake {
  /** Receives once. @returns how many messages came */
  receive(waitSeconds: number): Promise<number>;
  /** Whether anything is set aside. */
  holdsOthers(): boolean;
  /** Gives back what was set aside since the last round. */
  endRound(): Tally;
  /** How often a result of others was received so far. */
  othersReceived(): number;
}

/** How long a received result stays hidden from others unless it is given back or deleted. */
const HIDDEN_SECONDS = 30;

/**
 * @param own acknowledges what was delivered here
 * @param others gives back what was not
 */
function createIntake(options: IntakeOptions, own: Acknowledger, others: Acknowledger): Intake {
  const { inbox, queueUrl } = options;
  const warn = once(options.warn);
  const setAside = createSetAside(others);
  inbox.onWanted((messageIds) => setAside.giveBackOf(messageIds));
  let delivered = 0;
  let othersReceived = 0;
  let broken: Error | undefined;

  const takeInPacked = ({ MessageId, Body = '', ReceiptHandle: receiptHandle = '' }: Message, count: string): void => {
    const results = unpackResults(Body, count);
    if (isUnreadable(results)) {
      setAside.add(receiptHandle, []);
      broken = new Error(`message ${MessageId} of the result queue ${queueUrl}: ${results.problem}; it was left there`);
      warn(broken.message);
      return;
    }
    const taken = takePacked(results, receiptHandle, { inbox, own, setAside });
    delivered += taken.delivered;
    othersReceived += taken.others;
    if (taken.others > 0 && taken.others < results.length) warn(SHARED);
  };
  const takeIn = async (message: Message): Promise<void> => {
    const { MessageAttributes, ReceiptHandle: receiptHandle = '' } = message;
    const count = MessageAttributes?.[RESULTS_ATTRIBUTE]?.StringValue;
    if (count !== undefined) return takeInPacked(message, count);
    const messageId = MessageAttributes?.[MESSAGE_ID_ATTRIBUTE]?.StringValue;
    switch (messageId === undefined ? 'unknown' : inbox.stateOf(messageId)) {
      case 'held':
        return;
      case 'full':
        return setAside.add(receiptHandle, [String(messageId)]);
      case 'dismissed':
        return own.remove(receiptHandle);
      case 'unknown':
        othersReceived += 1;
        return setAside.add(receiptHandle, messageId === undefined ? [] : [messageId]);
      case 'wanted':
        if (await deliver(String(messageId), message, options, own)) delivered += 1;
    }
  };

  return {
    async receive(waitSeconds) {
      const messages = await receive(options, waitSeconds);
      await Promise.all(messages.map(takeIn));
      return messages.length;
    },
    holdsOthers: () => setAside.size() > 0,
    endRound() {
      const tally = { delivered, givenBack: setAside.giveBackAll(), broken };
      delivered = 0;
      broken = undefined;
      return tally;
    },
    othersReceived: () => othersReceived,
  };
}

const SHARED =
  'a message of the result queue holds results that nobody here waits for beside others that somebody does. Each client ' +
  'gets its own, but nobody can delete such a message: it stays on the queue until it expires. Give each client a result ' +
  'queue of its own, use resultTable, or set resultsPerMessage to 1';

function once(warn: (message: string) => void): (message: string) => void {
  const given = new Set<string>();
  return (message) => {
    if (given.size === MAX_WARNINGS || given.has(message)) return;
    given.add(message);
    warn(message);
  };
}

const MAX_WARNINGS = 10;

async function receive({ sqs, queueUrl }: IntakeOptions, waitSeconds: number): Promise<Message[]> {
  const command = new ReceiveMessageCommand({
    QueueUrl: queueUrl,
    MaxNumberOfMessages: MAX_BATCH_ENTRIES,
    WaitTimeSeconds: waitSeconds,
    VisibilityTimeout: HIDDEN_SECONDS,
    MessageAttributeNames: [MESSAGE_ID_ATTRIBUTE, RESULTS_ATTRIBUTE],
  });
  const { Messages = [] } = await sqs.send(command);
  return Messages;
}

/** @returns whether it was still wanted when it was read */
async function deliver(
  messageId: string,
  { Body = '', ReceiptHandle: receiptHandle = '' }: Message,
  { inbox, read }: IntakeOptions,
  own: Acknowledger,
): Promise<boolean> {
  const { result, complete } = await read(messageId, Body);
  const giveBack = (): void => own.giveBack(receiptHandle);
  const drop = (): void => {
    inbox.dismiss(messageId);
    own.remove(receiptHandle);
  };
  const delivered = inbox.deliver({ result, accept: complete ? drop : giveBack, giveBack });
  if (!delivered) giveBack();
  return delivered;
}

interface PackedReceipt {
  readonly inbox: Inbox;
  /** Acknowledges what was delivered here. */
  readonly own: Acknowledger;
  readonly setAside: SetAside;
}

/** What became of the results of one packed message. */
interface Taken {
  /** Results that reached the inbox. */
  readonly delivered: number;
  /** Results that nobody here waits for. */
  readonly others: number;
}

/**
 * Delivers the results of a packed message that are wanted here. The message is deleted once each of its results was
 * accepted here or is wanted by nobody any more; while it holds results of others, or of a caller without room, it is given
 * back as it is.
 */
export function takePacked(
  results: readonly StoredResult[],
  receiptHandle: string,
  { inbox, own, setAside }: PackedReceipt,
): Taken {
  const messageIds = results.map(({ messageId }) => messageId);
  const states = messageIds.map((messageId) => inbox.stateOf(messageId));
  const others = states.filter((state) => state === 'unknown').length;
  const wanted = results.filter((_, index) => states[index] === 'wanted');
  const comesAgain = others > 0 || states.includes('full');
  if (comesAgain) setAside.add(receiptHandle, messageIds);
  const someAreHeld = states.includes('held');
  if (wanted.length === 0 && !comesAgain && !someAreHeld) own.remove(receiptHandle);
  const settled = comesAgain ? () => {} : whenAllSettled(wanted.length, someAreHeld, receiptHandle, own);
  let delivered = 0;
  for (const { messageId, document } of wanted) {
    const giveBack = (): void => settled(false);
    const accept = (): void => {
      inbox.dismiss(messageId);
      settled(true);
    };
    if (inbox.deliver({ result: decodeResult(messageId, document), accept, giveBack })) delivered += 1;
    else giveBack();
  }
  return { delivered, others };
}

/**
 * Deletes a message once all that was delivered of it is accepted, or else gives it back. One of whose results another
 * copy is held here is given back too: it is not known yet what becomes of that one.
 */
function whenAllSettled(
  delivered: number,
  someAreHeld: boolean,
  receiptHandle: string,
  own: Acknowledger,
): (accepted: boolean) => void {
  let open = delivered;
  let keep = someAreHeld;
  return (accepted) => {
    open -= 1;
    keep ||= !accepted;
    if (open > 0) return;
    if (keep) own.giveBack(receiptHandle);
    else own.remove(receiptHandle);
  };
}

/** Messages that were received and that nobody here can take now: kept from everyone until they are given back. */
interface SetAside {
  /** @param messageIds those of its requests, as far as it carries any */
  add(receiptHandle: string, messageIds: readonly string[]): void;
  size(): number;
  /** Gives back those of these message IDs: somebody here waits for them now. */
  giveBackOf(messageIds: Iterable<string>): void;
  /** @returns how many there were */
  giveBackAll(): number;
}

export function createSetAside(acknowledger: Acknowledger): SetAside {
  const handles = new Set<string>();
  const handlesById = new Map<string, string[]>();
  return {
    add(receiptHandle, messageIds) {
      handles.add(receiptHandle);
      for (const messageId of messageIds) {
        const known = handlesById.get(messageId);
        if (known === undefined) handlesById.set(messageId, [receiptHandle]);
        else known.push(receiptHandle);
      }
    },
    size: () => handles.size,
    giveBackOf(messageIds) {
      if (handles.size === 0) return;
      for (const messageId of messageIds) {
        for (const receiptHandle of handlesById.get(messageId) ?? []) {
          if (handles.delete(receiptHandle)) acknowledger.giveBack(receiptHandle);
        }
        handlesById.delete(messageId);
      }
    },
    giveBackAll() {
      const count = handles.size;
      for (const receiptHandle of handles) acknowledger.giveBack(receiptHandle);
      handles.clear();
      handlesById.clear();
      return count;
    },
  };
}

/** Deletes received messages and gives them back, ten a batch request, in the background. */
interface Acknowledger {
  /** Deletes the message. */
  remove(receiptHandle: string): void;
  /** Makes the message visible to others at once. */
  giveBack(receiptHandle: string): void;
  /** Resolves when all of it so far is done or given up; what was given up comes back after its visibility timeout. */
  idle(): Promise<void>;
}

interface AcknowledgerOptions {
  readonly sqs: SQSClient;
  readonly queueUrl: string;
  readonly closing: AbortSignal;
  readonly retry?: RetryOptions;
}

/** Most batch requests in flight: thousands of messages may be given back at once. */
const IN_FLIGHT = 8;

function createAcknowledger({ sqs, queueUrl: QueueUrl, closing, retry }: AcknowledgerOptions): Acknowledger {
  const running = new Set<Promise<void>>();
  const inFlight = pLimit(IN_FLIGHT);
  const inBatches = (request: (handles: readonly string[]) => Promise<readonly string[]>) =>
    gatherEachTick((handles) => {
      const done = inFlight(() => retryRemaining(handles, (left) => orAllAgain(left, request), closing, retry)).then(
        () => {
          running.delete(done);
        },
      );
      running.add(done);
    });
  const removals = inBatches(async (handles) => {
    const Entries = handles.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle }));
    return worthAnotherTry(handles, await sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries })));
  });
  const returns = inBatches(async (handles) => {
    const Entries = handles.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle, VisibilityTimeout: 0 }));
    return worthAnotherTry(handles, await sqs.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries })));
  });
  return {
    remove: removals.add,
    giveBack: returns.add,
    async idle() {
      removals.flush();
      returns.flush();
      await Promise.all(running);
    },
  };
}

interface Gatherer {
  add(handle: string): void;
  flush(): void;
}

/** Hands on what was added in one turn of the event loop, ten at a time. */
function gatherEachTick(handOn: (handles: readonly string[]) => void): Gatherer {
  const gathered: string[] = [];
  const flush = (): void => {
    while (gathered.length > 0) handOn(gathered.splice(0, MAX_BATCH_ENTRIES));
  };
  return {
    add(handle) {
      if (gathered.push(handle) === 1) setImmediate(flush);
    },
    flush,
  };
}

/** Those that the answer does not report done, except those that SQS will never do. */
function worthAnotherTry(
  handles: readonly string[],
  { Successful = [], Failed = [] }: Partial<DeleteMessageBatchResult>,
): string[] {
  const refused = Failed.filter(({ SenderFault }) => SenderFault === true);
  const settled = new Set([...Successful, ...refused].map(({ Id }) => Id));
  return handles.filter((_, index) => !settled.has(String(index)));
}

async function orAllAgain(
  handles: readonly string[],
  request: (handles: readonly string[]) => Promise<readonly string[]>,
): Promise<readonly string[]> {
  try {
    return await request(handles);
  } catch (error) {
    return isCallersFault(error) ? [] : handles;
  }
}
