import { type Message, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { describeError, isCallersFault } from '../../lambda/adapters/awsError.ts';
import { MAX_BATCH_ENTRIES } from '../../lambda/adapters/sqs/limits.ts';
import { MESSAGE_ID_ATTRIBUTE } from '../../lambda/core/contract/result.ts';
import type { ReadStored } from '../result/readResult.ts';
import { type Acknowledger, createAcknowledger } from './acknowledge.ts';
import { type Collector, createBackoff } from './collector.ts';
import type { Inbox } from './inbox.ts';

export interface QueueCollectorOptions {
  readonly sqs: SQSClient;
  readonly queueUrl: string;
  readonly inbox: Inbox;
  readonly read: ReadStored;
  /** Ends the retries of acknowledgements. */
  readonly closing: AbortSignal;
}

const POLLERS = 4;
/** A poll is never cut short, because what it received would stay hidden; so it is a short one. */
const POLL_SECONDS = 2;
/** A result of others that was received this often is hidden, not released: nobody seems to wait for it. */
const ORPHAN_RECEIVES = 3;
/** How long a result stays hidden from others while it waits for its caller here. */
const HIDDEN_SECONDS = 30;

/**
 * Polls the result queue while someone waits: one long poll for every ten results wanted, up to four. A result is
 * deleted once its caller has it. Results of others are released at once, and the poller pauses so that their own
 * client can receive them. Those that nobody takes are hidden for a while, to get at what is queued behind them.
 */
export function startQueueCollector(options: QueueCollectorOptions): Collector {
  const acknowledger = createAcknowledger(options);
  const polls = new Set<Promise<unknown>>();
  const state: PollerState = { acknowledger, polls, lastError: undefined };
  for (let poller = 0; poller < POLLERS; poller++) {
    void pollWhileWanted(poller * MAX_BATCH_ENTRIES + 1, options, state);
  }
  return {
    settled: () => acknowledger.idle(),
    lastError: () => state.lastError,
    async close() {
      await Promise.allSettled(polls);
      await acknowledger.idle();
    },
  };
}

interface PollerState {
  readonly acknowledger: Acknowledger;
  /** Those under way, until what they received is dealt with. */
  readonly polls: Set<Promise<unknown>>;
  /** Why the last poll failed; undefined after one that did not. */
  lastError: unknown;
}

async function pollWhileWanted(atLeast: number, options: QueueCollectorOptions, state: PollerState): Promise<void> {
  const { inbox, closing } = options;
  const backoff = createBackoff();
  while (!closing.aborted) {
    if (await inbox.demand(atLeast)) backoff.reset();
    const joined = inbox.joined();
    const poll = pollOnce(options, state.acknowledger);
    state.polls.add(poll);
    try {
      const { othersOnly } = await poll;
      state.lastError = undefined;
      backoff.reset();
      if (othersOnly) await backoff.pause(joined);
    } catch (error) {
      state.lastError = error;
      if (isCallersFault(error)) inbox.fail(unreadable(options.queueUrl, error));
      else await backoff.pause(joined);
    } finally {
      state.polls.delete(poll);
    }
  }
}

/** @returns whether all that came was released to others */
async function pollOnce(
  options: QueueCollectorOptions,
  acknowledger: Acknowledger,
): Promise<{ readonly othersOnly: boolean }> {
  const messages = await receive(options);
  const released = await Promise.all(messages.map((message) => route(message, options, acknowledger)));
  return { othersOnly: released.length > 0 && !released.includes(false) };
}

async function receive({ sqs, queueUrl }: QueueCollectorOptions): Promise<Message[]> {
  const command = new ReceiveMessageCommand({
    QueueUrl: queueUrl,
    MaxNumberOfMessages: MAX_BATCH_ENTRIES,
    WaitTimeSeconds: POLL_SECONDS,
    VisibilityTimeout: HIDDEN_SECONDS,
    MessageAttributeNames: [MESSAGE_ID_ATTRIBUTE],
    MessageSystemAttributeNames: ['ApproximateReceiveCount'],
  });
  const { Messages = [] } = await sqs.send(command);
  return Messages;
}

/** Delivers, deletes, releases or hides one message. @returns whether it was released to others */
async function route(
  { MessageAttributes, Attributes, Body = '', ReceiptHandle }: Message,
  { inbox, read }: QueueCollectorOptions,
  acknowledger: Acknowledger,
): Promise<boolean> {
  if (ReceiptHandle === undefined) return false;
  const release = (): void => acknowledger.release(ReceiptHandle);
  const messageId = MessageAttributes?.[MESSAGE_ID_ATTRIBUTE]?.StringValue;
  switch (messageId === undefined ? 'unknown' : inbox.standing(messageId)) {
    case 'held':
      return false;
    case 'full':
      release();
      return false;
    case 'dismissed':
      acknowledger.remove(ReceiptHandle);
      return false;
    case 'unknown': {
      const isOrphan = Number(Attributes?.ApproximateReceiveCount) >= ORPHAN_RECEIVES;
      if (isOrphan) acknowledger.hide(ReceiptHandle);
      else release();
      return !isOrphan;
    }
    case 'wanted':
      await deliver(String(messageId), Body, inbox, read, release, () => acknowledger.remove(ReceiptHandle));
      return false;
  }
}

async function deliver(
  messageId: string,
  body: string,
  inbox: Inbox,
  read: ReadStored,
  release: () => void,
  remove: () => void,
): Promise<void> {
  const { result, complete } = await read(messageId, body);
  const drop = (): void => {
    inbox.dismiss(messageId);
    remove();
  };
  if (!inbox.deliver({ result, accept: complete ? drop : release, giveBack: release })) release();
}

function unreadable(queueUrl: string, cause: unknown): Error {
  return new Error(`the result queue ${queueUrl} cannot be read: ${describeError(cause)}`, { cause });
}
