import { setTimeout as sleep } from 'node:timers/promises';
import {
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { MAX_BATCH_ENTRIES } from '../../lambda/adapters/sqs/limits.ts';
import { MESSAGE_ID_ATTRIBUTE } from '../../lambda/core/contract/result.ts';

export interface Sent {
  readonly messageId: string;
  readonly index: number;
  readonly sentAtMs: number;
}

export interface Received {
  readonly messageId: string | undefined;
  readonly body: string;
  readonly writtenAtMs: number;
}

const SENDERS = 4;
const RECEIVERS = 4;
/** Results that do not come within this time after the last one are missing. */
const PATIENCE_MS = 20_000;
const LOOK_EVERY_MS = 20;

/**
 * Sends every body to the request queue and waits until the result queue holds as many results, or no more come.
 *
 * @param onProgress told from time to time how many results there are
 */
export async function exchange(
  sqs: SQSClient,
  { requestQueueUrl, resultQueueUrl }: { readonly requestQueueUrl: string; readonly resultQueueUrl: string },
  bodies: readonly string[],
  onProgress: (results: number) => void,
): Promise<Sent[]> {
  const sending = sendAll(sqs, requestQueueUrl, bodies);
  await resultsOn(sqs, resultQueueUrl, bodies.length, onProgress);
  return await sending;
}

async function resultsOn(
  sqs: SQSClient,
  queueUrl: string,
  expected: number,
  onProgress: (results: number) => void,
): Promise<void> {
  let results = 0;
  let lastResultAt = performance.now();
  while (results < expected && performance.now() - lastResultAt < PATIENCE_MS) {
    const depth = await depthOf(sqs, queueUrl);
    if (depth > results) lastResultAt = performance.now();
    results = depth;
    onProgress(results);
    await sleep(LOOK_EVERY_MS);
  }
}

async function depthOf(sqs: SQSClient, queueUrl: string): Promise<number> {
  const { Attributes } = await sqs.send(
    new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ['ApproximateNumberOfMessages'] }),
  );
  return Number(Attributes?.ApproximateNumberOfMessages);
}

/** Takes every result off the result queue: more than were asked for, where some came twice. */
export async function takeResults(sqs: SQSClient, queueUrl: string): Promise<Received[]> {
  const received: Received[] = [];
  const receiver = async (): Promise<void> => {
    for (let some = await receive(sqs, queueUrl); some.length > 0; some = await receive(sqs, queueUrl)) {
      received.push(...some);
    }
  };
  await Promise.all(Array.from({ length: RECEIVERS }, receiver));
  return received;
}

async function sendAll(sqs: SQSClient, queueUrl: string, bodies: readonly string[]): Promise<Sent[]> {
  const sent: Sent[] = [];
  const starts = Array.from(
    { length: Math.ceil(bodies.length / MAX_BATCH_ENTRIES) },
    (_, call) => call * MAX_BATCH_ENTRIES,
  ).values();
  const sender = async (): Promise<void> => {
    for (const start of starts) sent.push(...(await send(sqs, queueUrl, bodies, start)));
  };
  await Promise.all(Array.from({ length: SENDERS }, sender));
  return sent;
}

async function send(sqs: SQSClient, queueUrl: string, bodies: readonly string[], start: number): Promise<Sent[]> {
  const Entries = bodies
    .slice(start, start + MAX_BATCH_ENTRIES)
    .map((MessageBody, offset) => ({ Id: String(start + offset), MessageBody }));
  const sentAtMs = Date.now();
  const { Successful = [] } = await sqs.send(new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries }));
  if (Successful.length !== Entries.length) {
    throw new Error(`expected the request queue to take ${Entries.length} messages, it took ${Successful.length}`);
  }
  return Successful.map(({ Id, MessageId }) => ({ messageId: MessageId ?? '', index: Number(Id), sentAtMs }));
}

async function receive(sqs: SQSClient, queueUrl: string): Promise<Received[]> {
  const { Messages = [] } = await sqs.send(
    new ReceiveMessageCommand({
      QueueUrl: queueUrl,
      MaxNumberOfMessages: MAX_BATCH_ENTRIES,
      MessageAttributeNames: [MESSAGE_ID_ATTRIBUTE],
      MessageSystemAttributeNames: ['SentTimestamp'],
    }),
  );
  if (Messages.length === 0) return [];
  const Entries = Messages.map(({ ReceiptHandle }, id) => ({ Id: String(id), ReceiptHandle }));
  await sqs.send(new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries }));
  return Messages.map(toReceived);
}

function toReceived({ Body, Attributes, MessageAttributes }: Message): Received {
  return {
    messageId: MessageAttributes?.[MESSAGE_ID_ATTRIBUTE]?.StringValue,
    body: Body ?? '',
    writtenAtMs: Number(Attributes?.SentTimestamp),
  };
}
