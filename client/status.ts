import { GetQueueAttributesCommand, GetQueueUrlCommand, type SQSClient } from '@aws-sdk/client-sqs';
import * as z from 'zod';
import { describeError } from '../lambda/aws/awsError.ts';
import { createReceiver, createVisibilityChange } from '../lambda/aws/requestQueue.ts';
import { plural } from '../lambda/core/failure.ts';
import { parseIfJson } from '../lambda/core/json.ts';
import type { MessageRecord } from '../lambda/core/record.ts';
import type { Settings } from './clientOptions.ts';
import type { ResultStore } from './collect.ts';
import { placeOf, resultOf, type ScoringResult } from './readResult.ts';

/** Status of one message, from the stores that can be read. */
export interface MessageStatus {
  readonly messageId: string;
  /**
   * `dead`: in the dead-letter queue. `pending`: messages are in progress, and it may be one of them. `unknown`: none
   * of these.
   */
  readonly state: 'answered' | 'dead' | 'pending' | 'unknown';
  /** Name of the result table, or URL of the dead-letter queue. */
  readonly where?: string;
  readonly result?: ScoringResult;
  /**
   * Number of receives of a dead letter, including this one, as SQS counts them. `sentAt` is the time when it was sent.
   */
  readonly receives?: number;
  readonly sentAt?: Date;
  /** Sentences about information that is missing, with the reason. */
  readonly notTold: readonly string[];
}

interface Dependencies extends Pick<Settings, 'sqs' | 'requestQueueUrls' | 'urgentQueueUrl'> {
  readonly store: ResultStore | undefined;
}

export async function statusOf(id: string, deps: Dependencies): Promise<MessageStatus> {
  const { sqs, requestQueueUrls, urgentQueueUrl = [], store } = deps;
  const { messageId } = placeOf(id);
  const notTold: string[] = [];
  const ask = async <T>(whom: string, answer: Promise<T>): Promise<T | undefined> => {
    return await answer.catch((error) => void notTold.push(`${whom} could not be asked: ${describeError(error)}`));
  };
  const lookUp = store?.lookUp;
  if (lookUp === undefined) {
    notTold.push(
      'whether it was answered: only a result table can be asked for one message; collect reads a result queue, and Athena a result bucket',
    );
  } else {
    const { where } = lookUp;
    const result = await ask(`the result table ${where}`, lookUp.find(messageId));
    if (result !== undefined) {
      const own = 'results' in result ? resultOf(id, result) : result;
      return { messageId, state: 'answered', where, result: own, notTold };
    }
  }
  const asked = [requestQueueUrls, urgentQueueUrl]
    .flat()
    .map((url) => ask(`the request queue ${url}`, attributesOf(url, sqs)));
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

const REDRIVE_POLICY = z.object({ deadLetterTargetArn: z.string() });

/**
 * Returns the approximate number of messages in a queue, waiting, in flight and delayed, and the ARN of its dead-letter
 * queue.
 */
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
/** Visibility timeout. It is long enough to read all messages without receiving one twice. */
const HIDDEN_SECONDS = 60;

/** Searches dead letters by receiving them, because SQS has no other way. All of them are made visible again. */
async function deadLetter(arn: string, messageId: string, sqs: SQSClient, notTold: string[]) {
  const [QueueOwnerAWSAccountId, QueueName] = arn.split(':').slice(-2);
  const { QueueUrl: queueUrl = '' } = await sqs.send(new GetQueueUrlCommand({ QueueName, QueueOwnerAWSAccountId }));
  const { messages } = await attributesOf(queueUrl, sqs);
  const receive = createReceiver({
    sqs,
    queueUrl,
    waitSeconds: 1,
    visibilitySeconds: HIDDEN_SECONDS,
    attributes: [],
  });
  const giveBack = createVisibilityChange<MessageRecord>({
    sqs,
    queueUrl,
    name: 'giving back',
    secondsOf: () => 0,
    onProblem: ({ message }) => void notTold.push(`dead letters stay hidden for ${HIDDEN_SECONDS} s: ${message}`),
  });
  const { signal } = new AbortController();
  const looked: MessageRecord[] = [];
  let found: MessageRecord | undefined;
  try {
    while (found === undefined && looked.length < Math.min(messages, MAX_LOOKED_AT)) {
      const records = await receive(signal);
      if (records.length === 0) break;
      looked.push(...records);
      found = records.find((record) => record.messageId === messageId);
    }
  } finally {
    await giveBack(looked, signal);
  }
  if (found !== undefined) {
    const { ApproximateReceiveCount: receives, SentTimestamp: sent } = found.attributes;
    return { where: queueUrl, receives: Number(receives), sentAt: new Date(Number(sent)) };
  }
  if (looked.length < messages) {
    const seen = `${looked.length} of about ${messages}`;
    notTold.push(`whether it is among the dead letters ${queueUrl}: ${seen} were looked at`);
  }
  return undefined;
}
