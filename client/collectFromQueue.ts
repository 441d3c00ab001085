import { type Message, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { MAX_BATCH_ENTRIES } from '../lambda/adapters/sqs/limits.ts';
import { type Acknowledger, createAcknowledger } from './acknowledge.ts';
import { type Collector, createBackoff } from './collector.ts';
import { isCallersFault, reasonOf } from './faults.ts';
import type { Inbox } from './inbox.ts';
import type { ReadStored } from './readResult.ts';

export interface QueueCollectorOptions {
  readonly sqs: SQSClient;
  readonly queueUrl: string;
  readonly inbox: Inbox;
  readonly read: ReadStored;
  /** Ends the polls at once. */
  readonly closing: AbortSignal;
}

/** Name of the message attribute that carries the request's message ID beside a result. */
const MESSAGE_ID_ATTRIBUTE = 'messageId';
const POLLERS = 4;
/** A poll is not cut short when nobody waits any more, because what reached it would stay hidden: so it is not long. */
const POLL_SECONDS = 5;
/** How long a result stays hidden from others while it waits for its caller here. */
const HIDDEN_SECONDS = 30;

/**
 * Polls the result queue while someone waits: one long poll for each ten results wanted, up to four. A result is
 * deleted when its caller has it. Results of others are made visible again at once; a poller that received nothing
 * but those pauses, so that whom they are for can receive them.
 */
export function startQueueCollector(options: QueueCollectorOptions): Collector {
  const acknowledger = createAcknowledger(options);
  for (let poller = 0; poller < POLLERS; poller++) {
    void pollWhileWanted(poller * MAX_BATCH_ENTRIES + 1, options, acknowledger);
  }
  return { settled: () => acknowledger.idle() };
}

async function pollWhileWanted(
  atLeast: number,
  options: QueueCollectorOptions,
  acknowledger: Acknowledger,
): Promise<void> {
  const { inbox, closing } = options;
  const backoff = createBackoff();
  while (!closing.aborted) {
    if (await inbox.demand(atLeast)) backoff.reset();
    const joined = inbox.joined();
    try {
      const messages = await receive(options);
      const ours = await Promise.all(messages.map((message) => sort(message, options, acknowledger)));
      if (messages.length > 0 && !ours.includes(true)) await backoff.pause(joined);
      else backoff.reset();
    } catch (error) {
      if (closing.aborted) return;
      if (isCallersFault(error)) inbox.fail(unreadable(options.queueUrl, error));
      else await backoff.pause(joined);
    }
  }
}

async function receive({ sqs, queueUrl, closing }: QueueCollectorOptions): Promise<Message[]> {
  const command = new ReceiveMessageCommand({
    QueueUrl: queueUrl,
    MaxNumberOfMessages: MAX_BATCH_ENTRIES,
    WaitTimeSeconds: POLL_SECONDS,
    VisibilityTimeout: HIDDEN_SECONDS,
    MessageAttributeNames: [MESSAGE_ID_ATTRIBUTE],
  });
  const { Messages = [] } = await sqs.send(command, { abortSignal: closing });
  return Messages;
}

/** Delivers, deletes or releases one message. @returns whether it was one of ours */
async function sort(
  { MessageAttributes, Body = '', ReceiptHandle }: Message,
  { inbox, read }: QueueCollectorOptions,
  acknowledger: Acknowledger,
): Promise<boolean> {
  const messageId = MessageAttributes?.[MESSAGE_ID_ATTRIBUTE]?.StringValue;
  if (ReceiptHandle === undefined) return false;
  const release = (): void => acknowledger.release(ReceiptHandle);
  if (messageId === undefined) {
    release();
    return false;
  }
  switch (inbox.standing(messageId)) {
    case 'held':
      return true;
    case 'dismissed':
      acknowledger.remove(ReceiptHandle);
      return true;
    case 'unknown':
      release();
      return false;
    case 'wanted': {
      const { result, complete } = await read(messageId, Body);
      const drop = (): void => {
        inbox.dismiss(messageId);
        acknowledger.remove(ReceiptHandle);
      };
      const delivered = inbox.deliver({ result, accept: complete ? drop : release, giveBack: release });
      if (!delivered) release();
      return delivered;
    }
  }
}

function unreadable(queueUrl: string, cause: unknown): Error {
  return new Error(`the result queue ${queueUrl} cannot be read: ${reasonOf(cause)}`, { cause });
}
