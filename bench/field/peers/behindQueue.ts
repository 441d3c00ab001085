/** batchscore: its function behind an event source mapping with one environment, or its worker. Both pack results. */
import { fileURLToPath } from 'node:url';
import {
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
} from '@aws-sdk/client-sqs';
import { startEventSourceMapping } from '../../../cli/local/localMapping.ts';
import { localSqsClient, startLocalQueues } from '../../../cli/local/localServices.ts';
import { CONFIG_KEYS } from '../../../lambda/settings.ts';
import { Answered, type Contestant, environmentOf, Group, type Served, TIMEOUT_S, untilStarted } from '../serving.ts';

/** Six times the timeout, as AWS recommends. */
const VISIBILITY_S = 6 * TIMEOUT_S;
const MAX_RECEIVES = 5;
/** Time within which all 32 requests are usually answered. */
const SOON_MS = 1_000;
/** Batch size of a mapping without a window. */
const BATCH_SIZE = 10;
/**
 * Starts a function behind an SQS mapping, with one environment, or the worker. The queue server runs in this process.
 */
export function behindQueue(host: 'function' | 'worker'): Contestant['start'] {
  return async (setup) => {
    const queues = await startLocalQueues({
      port: 0,
      visibilityTimeoutSeconds: VISIBILITY_S,
      maxReceiveCount: MAX_RECEIVES,
    });
    const sqs = localSqsClient(queues);
    const script = host === 'worker' ? '../../../lambda/worker.ts' : '../../contestants/functionProcess.ts';
    const group = new Group(
      [process.execPath, fileURLToPath(new URL(script, import.meta.url))],
      environmentOf(setup, {
        AWS_ENDPOINT_URL_SQS: queues.endpoint,
        AWS_REGION: queues.region,
        AWS_ACCESS_KEY_ID: 'bench',
        AWS_SECRET_ACCESS_KEY: 'bench',
        [CONFIG_KEYS.modelsDirectory]: setup.repository,
        [CONFIG_KEYS.defaultModel]: setup.model,
        [CONFIG_KEYS.preload]: 'false',
        [CONFIG_KEYS.requestQueueUrls]: queues.requestQueueUrl,
        [CONFIG_KEYS.resultQueueUrl]: queues.resultQueueUrl,
        [CONFIG_KEYS.resultsPerMessage]: '10000',
        ...(host === 'worker' && {
          [CONFIG_KEYS.timeoutSeconds]: String(TIMEOUT_S),
          [CONFIG_KEYS.visibilitySeconds]: String(VISIBILITY_S),
        }),
      }),
    );
    if (host === 'worker') group.supervise();
    const invoke = (event: unknown): Promise<unknown> =>
      new Promise((resolve, reject) => {
        const child = group.main();
        const late = setTimeout(() => group.kill(), 1000 * TIMEOUT_S);
        const end = (act: () => void) => {
          clearTimeout(late);
          child.removeAllListeners('message').removeAllListeners('exit');
          act();
        };
        child.once('message', (answer: { error?: string }) =>
          end(() => (answer.error === undefined ? resolve(answer) : reject(new Error(answer.error)))),
        );
        child.once('exit', () => end(() => reject(new Error('the environment ended'))));
        child.send({ event, remainingMs: 1000 * TIMEOUT_S });
      });
    const mapping =
      host === 'worker'
        ? undefined
        : startEventSourceMapping({
            sqs,
            queueUrl: queues.requestQueueUrl,
            queueArn: queues.requestQueueArn,
            region: queues.region,
            batchSize: BATCH_SIZE,
            windowSeconds: 0,
            maximumConcurrency: 1,
            functionTimeoutSeconds: TIMEOUT_S,
            invoke,
            onError: () => {},
          });
    const producer = createProducer(sqs, queues);
    const close = async (): Promise<void> => {
      group.end();
      producer.stop();
      await mapping?.stop();
      await producer.stopped;
      sqs.destroy();
      await queues.stop();
    };
    return {
      keepsAnswers: true,
      startMs: await untilStarted(group, producer.ask, setup.probe).catch(async (error) => {
        await close();
        throw error;
      }),
      ask: producer.ask,
      usage: () => group.usage(),
      async holdsSome() {
        const soon = performance.now() + SOON_MS;
        const command = new GetQueueAttributesCommand({
          QueueUrl: queues.requestQueueUrl,
          AttributeNames: ['ApproximateNumberOfMessagesNotVisible'],
        });
        let held = 0;
        while (held === 0 && performance.now() < soon) {
          held = Number((await sqs.send(command)).Attributes?.ApproximateNumberOfMessagesNotVisible);
        }
      },
      kill: () => group.kill(),
      stop: close,
    };
  };
}

const POLLERS = 4;
/**
 * Duration of a poll. It is shorter than the client's timeout, because a message that is sent to a disconnected client
 * stays hidden.
 */
const POLL_S = 1;
const ENTRIES = 10;

/**
 * Creates a producer. It sends requests that are made at the same time in calls of ten, and matches results by message
 * ID.
 */
function createProducer(
  sqs: ReturnType<typeof localSqsClient>,
  queues: { requestQueueUrl: string; resultQueueUrl: string },
) {
  interface Asked {
    readonly body: string;
    readonly answers: unknown[];
    readonly requests: number;
    settle(act: 'resolve' | 'reject', value: string): void;
  }
  const waiting: Asked[] = [];
  const sent = new Map<string, Asked>();
  // Answers that arrive before the send call returns.
  const early = new Map<string, unknown[]>();
  const stopping = new AbortController();
  let isFlushing = false;

  const take = (id: string, answers: unknown[]): void => {
    const asked = sent.get(id);
    if (asked === undefined) return void early.set(id, [...(early.get(id) ?? []), ...answers]);
    asked.answers.push(...answers);
    if (asked.answers.length < asked.requests) return;
    sent.delete(id);
    const failed = asked.answers.find((one) => typeof one === 'object' && one !== null && 'error' in one);
    if (failed !== undefined) asked.settle('reject', JSON.stringify(failed));
    else asked.settle('resolve', JSON.stringify(asked.requests === 1 ? asked.answers[0] : asked.answers));
  };
  const flush = async (): Promise<void> => {
    isFlushing = false;
    while (waiting.length > 0) {
      const some = waiting.splice(0, ENTRIES);
      const Entries = some.map(({ body }, index) => ({ Id: String(index), MessageBody: body }));
      const { Successful = [] } = await sqs.send(
        new SendMessageBatchCommand({ QueueUrl: queues.requestQueueUrl, Entries }),
      );
      for (const { Id, MessageId = '' } of Successful) {
        sent.set(MessageId, some[Number(Id)] as Asked);
        take(MessageId, early.get(MessageId) ?? []);
        early.delete(MessageId);
      }
    }
  };
  const poll = async (): Promise<void> => {
    const { resultQueueUrl: QueueUrl } = queues;
    while (!stopping.signal.aborted) {
      const receive = new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: ENTRIES, WaitTimeSeconds: POLL_S });
      const { Messages = [] } = await sqs.send(receive, { abortSignal: stopping.signal }).catch((error) => {
        if (stopping.signal.aborted) return { Messages: [] };
        throw error;
      });
      if (Messages.length === 0) continue;
      for (const { Body = '' } of Messages) {
        const answers: { message_id: string }[] = [JSON.parse(Body)].flat(3);
        for (const [id, ofMessage] of Map.groupBy(answers, ({ message_id: id }) => id)) take(id, ofMessage ?? []);
      }
      const Entries = Messages.map(({ ReceiptHandle }, index) => ({ Id: String(index), ReceiptHandle }));
      await sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
    }
  };
  const ask: Served['ask'] = (body, signal) => {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const settle: Asked['settle'] = (act, value) => (act === 'resolve' ? resolve(value) : reject(new Answered(value)));
    signal?.addEventListener('abort', () => reject(signal.reason));
    waiting.push({ body, answers: [], requests: body.startsWith('[') ? JSON.parse(body).length : 1, settle });
    if (!isFlushing) setImmediate(flush);
    isFlushing = true;
    return promise;
  };
  const stopped = Promise.all(Array.from({ length: POLLERS }, poll));
  return { ask, stop: () => stopping.abort(), stopped };
}
