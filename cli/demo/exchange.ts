import {
  DeleteMessageBatchCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';

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

export interface Exchange {
  readonly sent: readonly Sent[];
  readonly received: readonly Received[];
  /** From the first send to the last result received. */
  readonly seconds: number;
}

const ENTRIES_A_CALL = 10;
const SENDERS = 4;
const RECEIVERS = 4;
/** Results that do not come within this time after the last one are missing. */
const PATIENCE_MS = 20_000;

/**
 * Sends every body to the request queue and receives results until each is answered, or none has come for a while.
 *
 * @param onProgress told how many results there are after each that comes
 */
export async function exchange(
  sqs: SQSClient,
  { requestQueueUrl, resultQueueUrl }: { readonly requestQueueUrl: string; readonly resultQueueUrl: string },
  bodies: readonly string[],
  onProgress: (received: number) => void,
): Promise<Exchange> {
  const startedAt = performance.now();
  let lastResultAt = startedAt;
  const received: Received[] = [];

  const receiving = Array.from({ length: RECEIVERS }, async () => {
    while (received.length < bodies.length && performance.now() - lastResultAt < PATIENCE_MS) {
      const messages = await receive(sqs, resultQueueUrl);
      if (messages.length === 0) continue;
      received.push(...messages);
      lastResultAt = performance.now();
      onProgress(received.length);
    }
  });
  const [sent] = await Promise.all([sendAll(sqs, requestQueueUrl, bodies), ...receiving]);
  return { sent, received, seconds: (lastResultAt - startedAt) / 1000 };
}

async function sendAll(sqs: SQSClient, queueUrl: string, bodies: readonly string[]): Promise<Sent[]> {
  const sent: Sent[] = [];
  const starts = Array.from(
    { length: Math.ceil(bodies.length / ENTRIES_A_CALL) },
    (_, call) => call * ENTRIES_A_CALL,
  ).values();
  const sender = async (): Promise<void> => {
    for (const start of starts) sent.push(...(await send(sqs, queueUrl, bodies, start)));
  };
  await Promise.all(Array.from({ length: SENDERS }, sender));
  return sent;
}

async function send(sqs: SQSClient, queueUrl: string, bodies: readonly string[], start: number): Promise<Sent[]> {
  const Entries = bodies
    .slice(start, start + ENTRIES_A_CALL)
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
      MaxNumberOfMessages: ENTRIES_A_CALL,
      WaitTimeSeconds: 1,
      MessageAttributeNames: ['messageId'],
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
    messageId: MessageAttributes?.messageId?.StringValue,
    body: Body ?? '',
    writtenAtMs: Number(Attributes?.SentTimestamp),
  };
}
