import { type Message, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { MAX_BATCH_ENTRIES } from '../../lambda/adapters/sqs/limits.ts';
import { MESSAGE_ID_ATTRIBUTE } from '../../lambda/core/contract/result.ts';
import type { ReadStored } from '../result/readResult.ts';
import type { Acknowledger } from './acknowledge.ts';
import type { Inbox } from './inbox.ts';
import { createSetAside } from './setAside.ts';

export interface IntakeOptions {
  readonly sqs: SQSClient;
  readonly queueUrl: string;
  readonly inbox: Inbox;
  readonly read: ReadStored;
}

/** What came in one round. */
export interface Tally {
  /** Results that reached the inbox. */
  readonly delivered: number;
  /** Those that were set aside and are given back now. */
  readonly givenBack: number;
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
  const { inbox } = options;
  const setAside = createSetAside(others);
  inbox.onWanted((messageIds) => setAside.giveBackOf(messageIds));
  let delivered = 0;
  let othersReceived = 0;

  const takeIn = async (message: Message): Promise<void> => {
    const { MessageAttributes, ReceiptHandle: receiptHandle = '' } = message;
    const messageId = MessageAttributes?.[MESSAGE_ID_ATTRIBUTE]?.StringValue;
    switch (messageId === undefined ? 'unknown' : inbox.standing(messageId)) {
      case 'held':
        return;
      case 'full':
        return setAside.add(receiptHandle, messageId);
      case 'dismissed':
        return own.remove(receiptHandle);
      case 'unknown':
        othersReceived += 1;
        return setAside.add(receiptHandle, messageId);
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
      const tally = { delivered, givenBack: setAside.giveBackAll() };
      delivered = 0;
      return tally;
    },
    othersReceived: () => othersReceived,
  };
}

async function receive({ sqs, queueUrl }: IntakeOptions, waitSeconds: number): Promise<Message[]> {
  const command = new ReceiveMessageCommand({
    QueueUrl: queueUrl,
    MaxNumberOfMessages: MAX_BATCH_ENTRIES,
    WaitTimeSeconds: waitSeconds,
    VisibilityTimeout: HIDDEN_SECONDS,
    MessageAttributeNames: [MESSAGE_ID_ATTRIBUTE],
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
