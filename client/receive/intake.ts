import { type Message, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { MAX_BATCH_ENTRIES } from '../../lambda/aws/sqsCalls.ts';
import { MESSAGE_ID_ATTRIBUTE, RESULTS_ATTRIBUTE } from '../../lambda/core/contract/result.ts';
import type { ReadStored } from '../result/readResult.ts';
import { isUnreadable, unpackResults } from '../result/unpackResults.ts';
import type { Acknowledger } from './acknowledge.ts';
import type { Inbox } from './inbox.ts';
import { createSetAside } from './setAside.ts';
import { takePacked } from './takePacked.ts';

export interface IntakeOptions {
  readonly sqs: SQSClient;
  readonly queueUrl: string;
  readonly inbox: Inbox;
  readonly read: ReadStored;
  /** Told, once each, of what the caller should change. */
  readonly warn: (message: string) => void;
}

/** What came in one round. */
export interface Tally {
  /** Results that reached the inbox. */
  readonly delivered: number;
  /** Those that were set aside and are given back now. */
  readonly givenBack: number;
  /** Why a packed message could not be read; undefined where all could. */
  readonly broken: Error | undefined;
}

/** Receives messages from the result queue: delivers what is wanted here, deletes copies, sets the rest aside. */
export interface Intake {
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
export function createIntake(options: IntakeOptions, own: Acknowledger, others: Acknowledger): Intake {
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
    switch (messageId === undefined ? 'unknown' : inbox.standing(messageId)) {
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
    if (given.size === MOST_WARNINGS || given.has(message)) return;
    given.add(message);
    warn(message);
  };
}

const MOST_WARNINGS = 10;

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
