/** Process that only receives, sends results of a given size, and deletes, in several concurrent loops. */
import { DeleteMessageBatchCommand, ReceiveMessageCommand, SendMessageBatchCommand } from '@aws-sdk/client-sqs';
import { CLIENT_PATIENCE, createSqsCaller } from '../../lambda/aws/sqsWire.ts';

export interface BareSettings {
  readonly requestQueue: string;
  readonly resultQueue: string;
  /** Number of results for each message. */
  readonly results: number;
  readonly resultsPerMessage: number;
  readonly resultBytes: number;
}

const [settings = ''] = process.argv.slice(2);
const { requestQueue, resultQueue, ...each }: BareSettings = JSON.parse(settings);
const sqs = createSqsCaller(CLIENT_PATIENCE);
const { signal: abortSignal } = new AbortController();
const result = 'x'.repeat(each.resultBytes);
const MAX_ENTRIES = 10;
const LOOPS = 8;

async function loop(): Promise<never> {
  for (;;) {
    const { Messages = [] } = await sqs.send(
      new ReceiveMessageCommand({
        QueueUrl: requestQueue,
        MaxNumberOfMessages: MAX_ENTRIES,
        WaitTimeSeconds: 20,
        MessageSystemAttributeNames: ['ApproximateReceiveCount', 'SentTimestamp', 'MessageGroupId'],
      }),
      { abortSignal },
    );
    if (Messages.length === 0) continue;
    const bodies = resultMessages(Messages.length * each.results);
    for (let from = 0; from < bodies.length; from += MAX_ENTRIES) {
      const Entries = bodies.slice(from, from + MAX_ENTRIES).map((MessageBody, index) => ({
        Id: String(index),
        MessageBody,
        MessageAttributes: { messageId: { DataType: 'String', StringValue: Messages[index]?.MessageId ?? 'packed' } },
      }));
      await sqs.send(new SendMessageBatchCommand({ QueueUrl: resultQueue, Entries }), { abortSignal });
    }
    const Entries = Messages.map(({ ReceiptHandle }, index) => ({ Id: String(index), ReceiptHandle }));
    await sqs.send(new DeleteMessageBatchCommand({ QueueUrl: requestQueue, Entries }), { abortSignal });
  }
}

function resultMessages(count: number): string[] {
  const messages: string[] = [];
  for (let sent = 0; sent < count; sent += each.resultsPerMessage) {
    const together = Math.min(each.resultsPerMessage, count - sent);
    messages.push(`[${Array(together).fill(result).join(',')}]`);
  }
  return messages;
}

for (let started = 0; started < LOOPS; started++) void loop();
