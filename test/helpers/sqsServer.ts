import {
  type ChangeMessageVisibilityBatchRequest,
  type ChangeMessageVisibilityBatchResult,
  DeleteMessageBatchCommand,
  type Message,
  ReceiveMessageCommand,
  type ReceiveMessageRequest,
  type ReceiveMessageResult,
  type SendMessageBatchCommandOutput,
  type SendMessageBatchRequest,
  type SendMessageBatchRequestEntry,
  type SendMessageBatchResult,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { afterAll, beforeAll } from '@jest/globals';
import { startFauxqs } from 'fauxqs';
import { createSqsClient, HOST_PATIENCE, type Patience } from '../../lambda/aws/awsClients.ts';
import { type FrontServer, type Step, startFront } from './frontServer.ts';
import { afterThisTest } from './openModels.ts';
import { nameOf } from './strictSqs.ts';

export interface SqsServer {
  /** A client of the server, or of another one; it is closed after the test. */
  client(other?: { readonly endpoint: string }, patience?: Patience): SQSClient;
  /** What answers requests in the server's place, one step after the other; stopped after the test. */
  front(...steps: readonly (Step | undefined)[]): Promise<FrontServer>;
  /** An empty queue of its own for the test that asks. @returns its URL */
  queue(attributes?: Record<string, string>): string;
  fifoQueue(attributes?: Readonly<Record<string, string>>): string;
  /** Puts messages on a queue, in order. @param groupOf the message group of each, on a FIFO queue */
  send(queueUrl: string, bodies: readonly string[], groupOf?: (index: number) => string): void;
  /** Receives once, at most ten messages, waits for the first as long as it is told, and leaves them in flight. */
  receive(queueUrl: string, timing?: { visibilitySeconds?: number; waitSeconds?: number }): Promise<Message[]>;
  /** Receives and deletes until the queue is empty; waits for a first message as long as it is told. */
  drain(queueUrl: string, timing?: { waitSeconds?: number }): Promise<Message[]>;
  /** How many messages nobody else can receive now, and how many are to be received. */
  counts(queueUrl: string): { readonly inFlight: number; readonly ready: number };
  /** Whole seconds until each message in flight comes back, by its body. */
  secondsInFlight(queueUrl: string): Record<string, number>;
  /** Seconds that each message was last hidden for, by its body, as clients of this server asked and SQS took: no clock is in it. */
  hiddenFor(queueUrl: string): Record<string, number>;
  deleteQueue(queueUrl: string): void;
}

/** What holds the queues of a `SqsServer`, and is called on 127.0.0.1. */
export interface SqsEngine extends Pick<SqsServer, 'counts' | 'secondsInFlight' | 'deleteQueue'> {
  readonly endpoint: string;
  createQueue(name: string, attributes: Record<string, string>): void;
  /** @param group where the queue is a FIFO queue */
  sendMessage(queueName: string, body: string, group?: string): void;
  stop(): Promise<void>;
}

/**
 * A real SQS server in this process for the tests of a file, started before the first and stopped after the last.
 *
 * @param start fauxqs, unless a test needs what only `strictSqs.ts` does
 *
 * ```ts
 * const server = useSqsServer();
 * it('reads', async () => {
 *   const url = server.queue();
 *   server.send(url, ['body']);
 *   expect(await server.drain(url)).toMatchObject([{ Body: 'body' }]);
 * });
 * ```
 */
export function useSqsServer(start: () => Promise<SqsEngine> = startFauxqsEngine): SqsServer {
  let running: SqsEngine | undefined;
  let queues = 0;
  const server = (): SqsEngine => {
    if (running === undefined) throw new Error('the SQS server runs while tests do, not while they are defined');
    return running;
  };
  const endpoint = () => server().endpoint;

  beforeAll(async () => {
    running = await start();
  });
  afterAll(() => running?.stop());

  const create = (suffix: string, attributes: Record<string, string>): string => {
    const name = `queue-${queues++}${suffix}`;
    server().createQueue(name, attributes);
    return `${endpoint()}/000000000000/${name}`;
  };
  const bodies = new Map<string, string>();
  const hidden = new Map<string, Map<string, number>>();
  const hide = (queueUrl = '', receiptHandle = '', seconds = 0): void => {
    const ofQueue = hidden.get(queueUrl) ?? new Map<string, number>();
    hidden.set(queueUrl, ofQueue.set(bodies.get(receiptHandle) ?? '', seconds));
  };
  const noteHidden = (sqs: SQSClient): void => {
    sqs.middlewareStack.add(
      (next, { commandName }) =>
        async (args) => {
          const answer = await next(args);
          if (commandName === 'ReceiveMessageCommand') {
            const { QueueUrl, VisibilityTimeout } = args.input as ReceiveMessageRequest;
            for (const { ReceiptHandle = '', Body = '' } of (answer.output as ReceiveMessageResult).Messages ?? []) {
              bodies.set(ReceiptHandle, Body);
              hide(QueueUrl, ReceiptHandle, VisibilityTimeout);
            }
          }
          if (commandName === 'ChangeMessageVisibilityBatchCommand') {
            const { QueueUrl, Entries = [] } = args.input as ChangeMessageVisibilityBatchRequest;
            const { Successful = [] } = answer.output as ChangeMessageVisibilityBatchResult;
            for (const { Id, ReceiptHandle, VisibilityTimeout } of Entries) {
              if (Successful.some((taken) => taken.Id === Id)) hide(QueueUrl, ReceiptHandle, VisibilityTimeout);
            }
          }
          return answer;
        },
      { step: 'initialize', name: 'noteHidden' },
    );
  };
  const client: SqsServer['client'] = (other, patience = HOST_PATIENCE) => {
    const sqs = createSqsClient(patience, {
      endpoint: other?.endpoint ?? endpoint(),
      region: 'us-east-1',
      credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
      useQueueUrlAsEndpoint: false,
    });
    noteHidden(sqs);
    afterThisTest(async () => sqs.destroy());
    return sqs;
  };
  const receive: SqsServer['receive'] = async (QueueUrl, { visibilitySeconds = 30, waitSeconds = 0 } = {}) => {
    const { Messages = [] } = await client().send(
      new ReceiveMessageCommand({
        QueueUrl,
        MaxNumberOfMessages: 10,
        MessageAttributeNames: ['All'],
        MessageSystemAttributeNames: ['All'],
        VisibilityTimeout: visibilitySeconds,
        WaitTimeSeconds: waitSeconds,
      }),
    );
    return Messages;
  };
  return {
    client,
    async front(...steps) {
      const front = await startFront(endpoint(), steps);
      afterThisTest(front.stop);
      return front;
    },
    queue: (attributes = {}) => create('', attributes),
    fifoQueue: (attributes = {}) => create('.fifo', { FifoQueue: 'true', ...attributes }),
    send: (queueUrl, bodies, groupOf) => {
      for (const [index, body] of bodies.entries()) server().sendMessage(nameOf(queueUrl), body, groupOf?.(index));
    },
    receive,
    drain: async (QueueUrl, timing) => {
      const drained: Message[] = [];
      for (let some = await receive(QueueUrl, timing); some.length > 0; some = await receive(QueueUrl)) {
        const Entries = some.map(({ ReceiptHandle }, index) => ({ Id: String(index), ReceiptHandle }));
        await client().send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
        drained.push(...some);
      }
      return drained;
    },
    counts: (queueUrl) => server().counts(nameOf(queueUrl)),
    secondsInFlight: (queueUrl) => server().secondsInFlight(nameOf(queueUrl)),
    hiddenFor: (queueUrl) => Object.fromEntries(hidden.get(queueUrl) ?? []),
    deleteQueue: (queueUrl) => server().deleteQueue(nameOf(queueUrl)),
  };
}

async function startFauxqsEngine(): Promise<SqsEngine> {
  const server = await startFauxqs({ port: 0, logger: false });
  let sent = 0;
  return {
    endpoint: `http://127.0.0.1:${server.port}`,
    createQueue: (name, attributes) => void server.createQueue(name, { attributes }),
    deleteQueue: (name) => server.deleteQueue(name),
    sendMessage(name, body, group) {
      const fifo = { messageGroupId: group ?? '', messageDeduplicationId: `${name} ${sent++}` };
      server.sendMessage(name, body, group === undefined ? {} : fifo);
    },
    counts(name) {
      const { inflight = [], ready = [] } = server.inspectQueue(name)?.messages ?? {};
      return { inFlight: inflight.length, ready: ready.length };
    },
    secondsInFlight(name) {
      const inFlight = server.inspectQueue(name)?.messages.inflight ?? [];
      return Object.fromEntries(
        inFlight.map(({ message, visibilityDeadline }) => [
          message.body,
          Math.ceil((visibilityDeadline - Date.now()) / 1000),
        ]),
      );
    },
    stop: () => server.stop(),
  };
}

/** The answer to a batch send; real ones always hold both lists. */
export type SendAnswer = Partial<SendMessageBatchResult>;

/** Sends the call to the server and gives the server's answer. */
export type Reach = () => Promise<SendMessageBatchResult>;

/**
 * Stands between a client's batch sends and the server: sees the entries of every call, and may rewrite the answer,
 * throw in its place, or hold it.
 */
export function interceptSends(
  sqs: SQSClient,
  between: (entries: readonly SendMessageBatchRequestEntry[], reach: Reach) => Promise<SendAnswer>,
): void {
  sqs.middlewareStack.add(
    (next) => async (args) => {
      const { Entries = [] } = args.input as SendMessageBatchRequest;
      let response: unknown;
      const answer = await between(Entries, async () => {
        const reply = await next(args);
        response = reply.response;
        return reply.output as SendMessageBatchCommandOutput;
      });
      return { response, output: { $metadata: {}, ...answer } as SendMessageBatchCommandOutput };
    },
    { step: 'initialize', name: 'betweenClientAndServer' },
  );
}

/** An error as the SDK throws it for an answer of SQS. */
export function sqsError(name: string, fault: 'client' | 'server'): Error {
  return Object.assign(new Error(`${name} from SQS`), { name, $fault: fault, $metadata: {} });
}
