/**
 * Runs as a process: receives, sends results of the size that it is told, and deletes, and nothing else; several such
 * loops at a time.
 */
import {
  DeleteMessageBatchCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { CLIENT_PATIENCE } from '../../lambda/aws/awsClients.ts';
import { createSqsCaller } from '../../lambda/aws/sqsWire.ts';
import { type BareSettings, requestQueueAt, resultQueueAt } from '../measure/workerCosts.ts';

const [endpoint = '', settings = ''] = process.argv.slice(2);
const { client, loops, results, resultsPerMessage, resultBytes }: BareSettings = JSON.parse(settings);
const [requestQueue, resultQueue] = [requestQueueAt(endpoint), resultQueueAt(endpoint)];
const sqs = client === 'plain' ? new SQSClient({}) : createSqsCaller(CLIENT_PATIENCE);
const { signal: abortSignal } = new AbortController();
const result = 'x'.repeat(resultBytes);
const MAX_ENTRIES = 10;

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
    const bodies = resultMessages(Messages.length * results);
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
  for (let sent = 0; sent < count; sent += resultsPerMessage) {
    const together = Math.min(resultsPerMessage, count - sent);
    messages.push(`[${Array(together).fill(result).join(',')}]`);
  }
  return messages;
}

for (let started = 0; started < loops; started++) void loop();
