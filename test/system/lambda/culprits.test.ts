import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  type Message,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { lookupRequest } from '../../helpers/handler.ts';
import { lookupModel, turningModel } from '../../helpers/onnxModels.ts';
import { modelsDirectory } from '../../helpers/openModels.ts';
import { recordOfMessage } from '../../helpers/sqsEvents.ts';
import { useSqsServer } from '../../helpers/sqsServer.ts';
import { type HandlerProcess, startHandler } from './handlerProcess.ts';

const sqs = useSqsServer();
const TIMEOUT_MS = 3_000;
const RECEIVES = 5;

function turns(count: number): string {
  const inputs = [{ name: 'turns', datatype: 'INT64', shape: [1], data: [count] }];
  return JSON.stringify({ id: `${count} turns`, model_name: 'turns', inputs });
}

const CULPRIT = turns(4e12);

/** What the event source mapping does with one invocation's messages. */
async function acknowledge(client: SQSClient, QueueUrl: string, messages: readonly Message[]): Promise<void> {
  for (let from = 0; from < messages.length; from += 10) {
    const Entries = messages.slice(from, from + 10).map(({ ReceiptHandle }, id) => ({ Id: `${id}`, ReceiptHandle }));
    await client.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
  }
}

/** Time passes: messages that are to come back do. */
async function makeVisible(client: SQSClient, QueueUrl: string, messages: readonly Message[]): Promise<void> {
  for (let from = 0; from < messages.length; from += 10) {
    const Entries = messages
      .slice(from, from + 10)
      .map(({ ReceiptHandle }, id) => ({ Id: `${id}`, ReceiptHandle, VisibilityTimeout: 0 }));
    await client.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries }));
  }
}

async function receiveAll(queueUrl: string): Promise<Message[]> {
  const received: Message[] = [];
  for (let some = await sqs.receive(queueUrl); some.length > 0; some = await sqs.receive(queueUrl)) {
    received.push(...some);
  }
  return received;
}

interface Attack {
  readonly files: Parameters<typeof modelsDirectory>[0];
  readonly culprit: string;
  readonly neighbours: readonly string[];
}

interface Aftermath {
  /** The bodies that are still on the queue. */
  readonly left: readonly (string | undefined)[];
  /** Message IDs that have a result. */
  readonly answered: number;
  /** How many messages came at each receive. */
  readonly received: readonly number[];
  readonly printed: string;
}

/** Five receives, each an invocation; a host that ends is replaced, as Lambda does. */
async function afterFiveReceives({ files, culprit, neighbours }: Attack): Promise<Aftermath> {
  const [requestQueueUrl, resultQueueUrl] = [sqs.queue(), sqs.queue()];
  const client = sqs.client();
  const variables = {
    AWS_ENDPOINT_URL_SQS: new URL(requestQueueUrl).origin,
    BATCHSCORE_MODELS_DIR: await modelsDirectory(files),
    BATCHSCORE_DEADLINE_MARGIN_MS: '500',
    BATCHSCORE_REQUEST_QUEUE_URL: `${sqs.queue()},${requestQueueUrl}`,
    BATCHSCORE_RESULT_QUEUE_URL: resultQueueUrl,
  };
  const ofOtherModel = [0, 1, 2].map((index) => JSON.stringify({ ...lookupRequest(index), model_name: 'lookup' }));
  sqs.send(requestQueueUrl, [...neighbours.slice(0, 9), culprit, ...neighbours.slice(9), ...ofOtherModel]);

  const received: number[] = [];
  let printed = '';
  let host: HandlerProcess | undefined;
  for (let receive = 1; receive <= RECEIVES; receive++) {
    const messages = await receiveAll(requestQueueUrl);
    received.push(messages.length);
    host ??= await startHandler(variables);
    const invoked = await host
      .measure(
        messages.map((message) => recordOfMessage(message, requestQueueUrl)),
        TIMEOUT_MS,
      )
      .catch(() => undefined);
    if (invoked === undefined) {
      printed += await host.end();
      host = undefined;
    } else {
      const failed = new Set(invoked.response.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
      const done = messages.filter(({ MessageId = '' }) => !failed.has(MessageId));
      await acknowledge(client, requestQueueUrl, done);
    }
    await makeVisible(client, requestQueueUrl, messages);
  }
  const left = (await receiveAll(requestQueueUrl)).map(({ Body }) => Body);
  const results = (await sqs.drain(resultQueueUrl)).map(({ Body = '' }) => JSON.parse(Body));
  return { left, answered: new Set(results.map(({ message_id }) => message_id)).size, received, printed };
}

describe('a request that makes its model hang', () => {
  it('is left alone on the queue: its neighbours are answered, those of other models at once', async () => {
    const { left, answered, received, printed } = await afterFiveReceives({
      files: { 'lookup/1/model.onnx': lookupModel(), 'turns/1/model.onnx': turningModel() },
      culprit: CULPRIT,
      neighbours: Array.from({ length: 20 }, (_, index) => turns(index)),
    });

    expect(left).toEqual([CULPRIT]);
    expect(answered).toBe(23);
    expect(received[1]).toBeLessThanOrEqual(21);
    expect(printed).toContain('"HostsEnded":1');
    expect(printed).toContain('was left behind');
  });
});

/** Ends the process for one request, as a crash in native code does. */
const KILLER = `export function decode({ index }) {
  if (index < 0) process.abort();
  return [{ name: 'index', datatype: 'INT64', shape: [1], data: [index] }];
}`;

describe('a request that ends the process', () => {
  it('is left alone on the queue: its neighbours are answered', async () => {
    const request = (index: number) => JSON.stringify({ model_name: 'killer', index });
    const { left, answered } = await afterFiveReceives({
      files: {
        'lookup/1/model.onnx': lookupModel(),
        'killer/1/model.onnx': lookupModel(),
        'killer/transform.mjs': KILLER,
        'killer/config.json': { transform: 'transform.mjs' },
      },
      culprit: request(-1),
      neighbours: Array.from({ length: 20 }, (_, index) => request(index % 3)),
    });

    expect(left).toEqual([request(-1)]);
    expect(answered).toBe(23);
  });
});
