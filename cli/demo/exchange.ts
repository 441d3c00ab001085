import { setTimeout as sleep } from 'node:timers/promises';
import {
  DeleteMessageBatchCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  type SendMessageBatchRequest,
  type SendMessageBatchResult,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import pLimit from 'p-limit';
import { isUnreadable, unpackResults } from '../../client/readResult.ts';
import { MAX_BATCH_ENTRIES } from '../../lambda/aws/sendBatches.ts';
import { MESSAGE_ID_ATTRIBUTE, RESULTS_ATTRIBUTE } from '../../lambda/core/record.ts';

export interface Sent {
  readonly messageId: string;
  readonly index: number;
  readonly sentAtMs: number;
}

/** A result, in a message of its own or among others. */
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

interface Exchange {
  readonly requestQueueUrl: string;
  readonly bodies: readonly string[];
  /** When each is sent, in milliseconds from the start, ascending. @default as fast as the queue takes them */
  readonly times?: Float64Array | undefined;
  /** How many results were written so far. */
  readonly resultsSoFar: () => number;
  /** Told from time to time how many results there are. */
  readonly onProgress: (results: number) => void;
}

/** Sends every body to the request queue and waits until as many results are written, or no more come. */
export async function exchange(
  sqs: SQSClient,
  { requestQueueUrl, bodies, times, ...watch }: Exchange,
): Promise<Sent[]> {
  const sending = sendAll(sqs, requestQueueUrl, bodies, times);
  await allWritten(bodies.length, watch);
  return await sending;
}

async function allWritten(
  expected: number,
  { resultsSoFar, onProgress }: Pick<Exchange, 'resultsSoFar' | 'onProgress'>,
): Promise<void> {
  let results = 0;
  let lastResultAt = performance.now();
  while (results < expected && performance.now() - lastResultAt < PATIENCE_MS) {
    const soFar = resultsSoFar();
    if (soFar > results) lastResultAt = performance.now();
    results = soFar;
    onProgress(results);
    await sleep(LOOK_EVERY_MS);
  }
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

/** Those that are due go together, a few calls at a time. */
async function sendAll(
  sqs: SQSClient,
  queueUrl: string,
  bodies: readonly string[],
  times: Float64Array | undefined,
): Promise<Sent[]> {
  const atATime = pLimit(SENDERS);
  const startMs = Date.now();
  const dueIn = (index: number): number => startMs + (times?.[index] ?? 0) - Date.now();
  const calls: Promise<Sent[]>[] = [];
  for (let next = 0; next < bodies.length; ) {
    if (dueIn(next) > 0) await sleep(dueIn(next));
    const [start, latest] = [next, Math.min(bodies.length, next + MAX_BATCH_ENTRIES)];
    do next += 1;
    while (next < latest && dueIn(next) <= 0);
    const end = next;
    calls.push(atATime(() => send(sqs, queueUrl, bodies, start, end)));
  }
  return (await Promise.all(calls)).flat();
}

async function send(
  sqs: SQSClient,
  queueUrl: string,
  bodies: readonly string[],
  start: number,
  end: number,
): Promise<Sent[]> {
  const Entries = bodies.slice(start, end).map((MessageBody, offset) => ({ Id: String(start + offset), MessageBody }));
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
      MessageAttributeNames: [MESSAGE_ID_ATTRIBUTE, RESULTS_ATTRIBUTE],
      MessageSystemAttributeNames: ['SentTimestamp'],
    }),
  );
  if (Messages.length === 0) return [];
  const Entries = Messages.map(({ ReceiptHandle }, id) => ({ Id: String(id), ReceiptHandle }));
  await sqs.send(new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries }));
  return Messages.flatMap(toReceived);
}

function toReceived({ Body = '', Attributes, MessageAttributes = {} }: Message): Received[] {
  const writtenAtMs = Number(Attributes?.SentTimestamp);
  const { [MESSAGE_ID_ATTRIBUTE]: messageId, [RESULTS_ATTRIBUTE]: count } = MessageAttributes;
  if (count === undefined) return [{ messageId: messageId?.StringValue, body: Body, writtenAtMs }];
  const results = unpackResults(Body, count.StringValue ?? '');
  if (isUnreadable(results)) throw new Error(`the result queue: ${results.problem}`);
  return results.map((one) => ({ messageId: one.messageId, body: JSON.stringify(one.document), writtenAtMs }));
}

/** What was written to the result queue. */
export interface Written {
  readonly results: number;
  readonly messages: number;
  /** Calls of SendMessageBatch. */
  readonly calls: number;
}

const NAME = 'watchResults';

/** Counts what a client writes to the result queue, until it is told to stop. */
export function watchResults(sqs: SQSClient, resultQueueUrl: string): { written(): Written; stop(): void } {
  const written = { results: 0, messages: 0, calls: 0 };
  sqs.middlewareStack.add(
    (next) => async (args) => {
      const { QueueUrl, Entries = [] } = args.input as Partial<SendMessageBatchRequest>;
      const reply = await next(args);
      if (QueueUrl !== resultQueueUrl || Entries.length === 0 || !('MessageBody' in (Entries[0] ?? {}))) return reply;
      const { Successful = [] } = reply.output as SendMessageBatchResult;
      const taken = new Set(Successful.map(({ Id }) => Id));
      written.calls += 1;
      for (const { Id, MessageAttributes } of Entries) {
        if (!taken.has(Id)) continue;
        written.messages += 1;
        written.results += Number(MessageAttributes?.[RESULTS_ATTRIBUTE]?.StringValue ?? 1);
      }
      return reply;
    },
    { step: 'initialize', name: NAME },
  );
  return { written: () => written, stop: () => void sqs.middlewareStack.remove(NAME) };
}
