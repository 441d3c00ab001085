import { GetItemCommand } from '@aws-sdk/client-dynamodb';
import {
  ChangeMessageVisibilityBatchCommand,
  GetQueueAttributesCommand,
  GetQueueUrlCommand,
  type Message,
  ReceiveMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import * as z from 'zod';
import { describeError } from '../lambda/aws/awsError.ts';
import { plural } from '../lambda/core/failure.ts';
import { parseIfJson } from '../lambda/core/json.ts';
import { BODY_ATTRIBUTE, MESSAGE_ID_ATTRIBUTE, POINTER_ATTRIBUTE } from '../lambda/core/record.ts';
import type { Settings } from './clientOptions.ts';
import { placeOf, type ReadStored, resultOf, type ScoringResult } from './readResult.ts';

/** What became of one message, as far as those that can be asked know. */
export interface MessageStatus {
  readonly messageId: string;
  /** `dead`: among the dead letters. `pending`: messages are on their way, it may be one of them. `unknown`: none of these. */
  readonly state: 'answered' | 'dead' | 'pending' | 'unknown';
  /** The result table, or the URL of the dead-letter queue. */
  readonly where?: string;
  readonly result?: ScoringResult;
  /** Of a dead letter: how often it was received, by the count of SQS, with this look; and when it was sent. */
  readonly receives?: number;
  readonly sentAt?: Date;
  /** What could not be told, and why, a sentence for each. */
  readonly notTold: readonly string[];
}

interface Dependencies extends Pick<Settings, 'sqs' | 'dynamodb' | 'requestQueueUrls' | 'resultTable'> {
  readonly read: ReadStored;
}

export async function statusOf(id: string, deps: Dependencies): Promise<MessageStatus> {
  const { sqs, requestQueueUrls, resultTable: table } = deps;
  const { messageId } = placeOf(id);
  const notTold: string[] = [];
  const ask = async <T>(whom: string, answer: Promise<T>): Promise<T | undefined> => {
    return await answer.catch((error) => void notTold.push(`${whom} could not be asked: ${describeError(error)}`));
  };
  if (table === undefined) {
    notTold.push(
      'whether it was answered: only a result table can be asked for one message; collect reads a result queue, and Athena a result bucket',
    );
  } else {
    const result = await ask(`the result table ${table}`, resultIn(table, messageId, deps));
    if (result !== undefined) {
      const own = 'results' in result ? resultOf(id, result) : result;
      return { messageId, state: 'answered', where: table, result: own, notTold };
    }
  }
  const asked = requestQueueUrls.map((url) => ask(`the request queue ${url}`, attributesOf(url, sqs)));
  const queues = (await Promise.all(asked)).filter((queue) => queue !== undefined);
  for (const arn of new Set(queues.flatMap(({ deadLetters = [] }) => deadLetters))) {
    const dead = await ask(`the dead letters ${arn}`, deadLetter(arn, messageId, sqs, notTold));
    if (dead !== undefined) return { messageId, state: 'dead', ...dead, notTold };
  }
  const onTheirWay = queues.reduce((sum, { messages }) => sum + messages, 0);
  if (onTheirWay === 0) return { messageId, state: 'unknown', notTold };
  const count = plural(onTheirWay, 'message');
  notTold.push(`which messages are on their way: SQS counts about ${count}, and cannot be asked for one`);
  return { messageId, state: 'pending', notTold };
}

async function resultIn(TableName: string, messageId: string, { dynamodb, read }: Dependencies) {
  const Key = { [MESSAGE_ID_ATTRIBUTE]: { S: messageId } };
  const { Item } = await dynamodb.send(new GetItemCommand({ TableName, Key, ConsistentRead: true }));
  return Item && (await read(messageId, Item[BODY_ATTRIBUTE]?.S ?? Item[POINTER_ATTRIBUTE]?.S ?? '')).result;
}

const REDRIVE_POLICY = z.object({ deadLetterTargetArn: z.string() });

/** How many messages a queue holds, about: ready, in flight and delayed. And the ARN of its dead letters. */
async function attributesOf(QueueUrl: string, sqs: SQSClient) {
  const { Attributes = {} } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] }));
  const counts = Object.entries(Attributes).filter(([name]) => name.startsWith('ApproximateNumberOfMessages'));
  const policy = REDRIVE_POLICY.safeParse(parseIfJson(Attributes.RedrivePolicy ?? '')).data;
  return {
    messages: counts.reduce((sum, [, count]) => sum + Number(count), 0),
    deadLetters: policy?.deadLetterTargetArn,
  };
}

const MAX_LOOKED_AT = 1_000;
/** Long enough to look at them all without seeing one twice. */
const HIDDEN_SECONDS = 60;

/** Looks through dead letters: SQS shows messages only to who receives them. All are given back. */
async function deadLetter(arn: string, messageId: string, sqs: SQSClient, notTold: string[]) {
  const [QueueOwnerAWSAccountId, QueueName] = arn.split(':').slice(-2);
  const { QueueUrl = '' } = await sqs.send(new GetQueueUrlCommand({ QueueName, QueueOwnerAWSAccountId }));
  const { messages } = await attributesOf(QueueUrl, sqs);
  const receive = new ReceiveMessageCommand({
    QueueUrl,
    MaxNumberOfMessages: 10,
    VisibilityTimeout: HIDDEN_SECONDS,
    WaitTimeSeconds: 1,
    MessageSystemAttributeNames: ['ApproximateReceiveCount', 'SentTimestamp'],
  });
  const batches: Message[][] = [];
  let looked = 0;
  let found: Message | undefined;
  try {
    while (found === undefined && looked < Math.min(messages, MAX_LOOKED_AT)) {
      const { Messages = [] } = await sqs.send(receive);
      if (Messages.length === 0) break;
      batches.push(Messages);
      looked += Messages.length;
      found = Messages.find(({ MessageId }) => MessageId === messageId);
    }
  } finally {
    for (const batch of batches) {
      const Entries = batch.map(({ ReceiptHandle }, index) => ({
        Id: `${index}`,
        ReceiptHandle,
        VisibilityTimeout: 0,
      }));
      await sqs.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries })).catch((error) => {
        const why = describeError(error);
        notTold.push(`dead letters could not be given back, and come back after ${HIDDEN_SECONDS} s: ${why}`);
      });
    }
  }
  if (found !== undefined) {
    const { ApproximateReceiveCount: receives, SentTimestamp: sent } = found.Attributes ?? {};
    return { where: QueueUrl, receives: Number(receives), sentAt: new Date(Number(sent)) };
  }
  if (looked < messages) {
    notTold.push(`whether it is among the dead letters ${QueueUrl}: ${looked} of about ${messages} were looked at`);
  }
  return undefined;
}
