import {
  CreateQueueCommand,
  DeleteMessageCommand,
  DeleteQueueCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageCommand,
} from '@aws-sdk/client-sqs';
import type { SQSEvent } from 'aws-lambda';
import { toSqsRecord } from '../../../cli/local/localMapping.ts';
import { localSqsClient, startLocalQueues } from '../../../cli/local/localServices.ts';

/** The queues around a function, on a real SQS server in this process. */
export interface ImageQueues {
  /** What tells a function where they are. */
  readonly environment: Readonly<Record<string, string>>;
  /** Sends messages. @returns their IDs */
  send(bodies: readonly string[]): Promise<string[]>;
  /** Sends messages and receives them again. @returns the event that Lambda makes of them, in their order */
  deliver(bodies: readonly string[]): Promise<SQSEvent>;
  /** Takes every result from its queue. @returns them by the message ID that each names */
  takeResults(): Promise<ReadonlyMap<string, unknown>>;
  /** Takes results from their queue until there is one of each of these messages. @returns all of them */
  resultsOf(messageIds: readonly string[]): Promise<ReadonlyMap<string, unknown>>;
  deleteResultQueue(): Promise<void>;
  createResultQueue(): Promise<void>;
  stop(): Promise<void>;
}

export async function startImageQueues(): Promise<ImageQueues> {
  const { endpoint, region, requestQueueUrl, requestQueueArn, resultQueueUrl, stop } = await startLocalQueues({
    port: 0,
    visibilityTimeoutSeconds: 60,
    maxReceiveCount: 5,
  });
  const sqs = localSqsClient({ endpoint, region });

  const receiveAll = async (QueueUrl: string, WaitTimeSeconds = 0): Promise<Message[]> => {
    const receive = new ReceiveMessageCommand({
      QueueUrl,
      MaxNumberOfMessages: 10,
      WaitTimeSeconds,
      MessageSystemAttributeNames: ['All'],
      MessageAttributeNames: ['All'],
    });
    const received: Message[] = [];
    for (;;) {
      const { Messages = [] } = await sqs.send(receive);
      if (Messages.length === 0) return received;
      received.push(...Messages);
    }
  };

  const send = async (bodies: readonly string[]): Promise<string[]> => {
    const ids: string[] = [];
    for (const MessageBody of bodies) {
      const { MessageId = '' } = await sqs.send(new SendMessageCommand({ QueueUrl: requestQueueUrl, MessageBody }));
      ids.push(MessageId);
    }
    return ids;
  };
  const takeResults = async (waitSeconds = 0): Promise<Map<string, unknown>> => {
    const results = new Map<string, unknown>();
    for (const { Body = '', ReceiptHandle, MessageAttributes } of await receiveAll(resultQueueUrl, waitSeconds)) {
      results.set(MessageAttributes?.messageId?.StringValue ?? 'no message ID', JSON.parse(Body));
      await sqs.send(new DeleteMessageCommand({ QueueUrl: resultQueueUrl, ReceiptHandle }));
    }
    return results;
  };

  return {
    environment: {
      AWS_REGION: region,
      AWS_ENDPOINT_URL_SQS: endpoint,
      BATCHSCORE_REQUEST_QUEUE_URL: requestQueueUrl,
      BATCHSCORE_RESULT_QUEUE_URL: resultQueueUrl,
      BATCHSCORE_DEFAULT_MODEL: 'digits',
    },
    send,
    deliver: async (bodies) => {
      const order: (string | undefined)[] = await send(bodies);
      const received = await receiveAll(requestQueueUrl);
      const inOrder = received.toSorted((a, b) => order.indexOf(a.MessageId) - order.indexOf(b.MessageId));
      return { Records: inOrder.map((message) => toSqsRecord(message, { queueArn: requestQueueArn, region })) };
    },
    takeResults: () => takeResults(),
    resultsOf: async (messageIds) => {
      const results = new Map<string, unknown>();
      while (!messageIds.every((id) => results.has(id))) {
        for (const [id, result] of await takeResults(1)) results.set(id, result);
      }
      return results;
    },
    deleteResultQueue: async () => {
      await sqs.send(new DeleteQueueCommand({ QueueUrl: resultQueueUrl }));
    },
    createResultQueue: async () => {
      await sqs.send(new CreateQueueCommand({ QueueName: resultQueueUrl.slice(resultQueueUrl.lastIndexOf('/') + 1) }));
    },
    stop: async () => {
      sqs.destroy();
      await stop();
    },
  };
}
