import { CreateQueueCommand, PurgeQueueCommand, SendMessageCommand } from '@aws-sdk/client-sqs';
import { createQueueWriter } from '../../../lambda/adapters/sqs/queueWriter.ts';
import { messageOf } from '../../../lambda/core/contract/failure.ts';
import { FILL } from '../../../lambda/limits/configuration.ts';
import { BATCH_CLOSED, MICRO_BATCH_CLOSED } from '../../closedBecause.ts';
import type { EventSourceMapping } from '../eventSourceMapping.ts';
import type { GatherLimits } from '../gather.ts';
import { localSqsClient } from '../queues.ts';
import type { LocalStack } from '../stack.ts';
import { createControls } from './controls.ts';
import { createLoad } from './load.ts';
import { lookAtModels } from './models.ts';
import type { Monitor } from './monitor.ts';
import { ownAttributes } from './ownMessages.ts';
import { createQueueWatch } from './queues.ts';
import { type PageServer, startPageServer } from './server.ts';
import { createStream } from './stream.ts';
import type { Hello, QueuesSeen, SettingsSeen } from './wire.ts';

export interface PageOptions {
  readonly stack: LocalStack;
  readonly mapping: EventSourceMapping;
  readonly monitor: Monitor;
  readonly batching: GatherLimits;
  readonly modelsDirectory: string;
  /** On 127.0.0.1. @default the one after the queues', or any where that is taken */
  readonly port?: number | undefined;
  /** Told what went wrong. */
  readonly warn: (message: string) => void;
}

const RESULT_QUEUE = 'batchscore-page-results';
const NEWS_MS = 250;
const TICK_MS = 1_000;
/** Results of the page's own messages are kept no longer: nobody receives them. */
const PURGE_MS = 10_000;

/** Serves a page that shows what a stack does, and does something with it. @throws Error when its port is taken */
export async function startPage(options: PageOptions): Promise<PageServer> {
  const { stack, mapping, monitor, warn } = options;
  const sqs = localSqsClient(stack.queues);
  const ownQueueUrl = await createOwnQueue(options);
  const models = await lookAtModels(stack, options.modelsDirectory);
  const loadModels = [...new Set(stack.models.map(({ name }) => name))].filter(
    (name) => models.samplesOf(name).length > 0,
  );
  const queueUrls = stack.queues.requestQueues.map(({ queueUrl }) => queueUrl);
  const queueWatch = createQueueWatch({ sqs, queues: stack.queues, newestSentAt: monitor.newestSentAt });

  let batching = options.batching;
  let queues: QueuesSeen | undefined;
  let timers: NodeJS.Timeout[] = [];
  const settings = (): SettingsSeen => ({ ...batching, load: load.seen() });
  const tellSettings = (): void => stream.tell('settings', settings());
  const load = createLoad({
    sqs,
    queueUrls,
    model: loadModels[0] ?? '',
    samplesOf: models.samplesOf,
    waiting: () => queues?.waiting ?? 0,
    onSent: monitor.sent,
    onChange: tellSettings,
  });
  const stream = createStream({
    onWatched(isWatched) {
      for (const timer of timers.splice(0)) clearInterval(timer);
      if (isWatched) timers = [every(NEWS_MS, tellNews), every(TICK_MS, tick), every(PURGE_MS, purge)];
      else void load.stop().then(purge);
    },
  });
  const tellNews = (): void => {
    const news = monitor.takeNews();
    if (news.invocations.length + news.results.length > 0) stream.tell('news', news);
  };
  const tick = async (): Promise<void> => {
    queues = await queueWatch.look();
    const all = models.all();
    const batchings = all.map((model) => model.batching);
    stream.tell('tick', { seconds: monitor.takeSeconds(), queues, totals: monitor.totals(), batching: batchings });
  };
  const purge = async (): Promise<void> => {
    await sqs.send(new PurgeQueueCommand({ QueueUrl: ownQueueUrl }));
  };
  const every = (ms: number, act: () => Promise<void> | void): NodeJS.Timeout =>
    setInterval(async () => {
      try {
        await act();
      } catch (error) {
        warn(`page: ${messageOf(error)}`);
      }
    }, ms);
  const hello = (): Hello => ({
    closed: { batch: BATCH_CLOSED, microBatch: MICRO_BATCH_CLOSED },
    models: models.all(),
    loadModels,
    settings: settings(),
    queues,
    ...monitor.history(),
  });

  monitor.batchSizeIs(batching.batchSize);
  monitor.onAnswer((answer) => stream.tell('answer', answer));
  const server = await startPageServer({
    port: options.port,
    preferredPort: portAfter(stack.queues.endpoint),
    openStream: (response) => stream.open(response, hello()),
    controls: createControls({
      loadModels,
      setBatching(limits) {
        mapping.update(limits);
        batching = { batchSize: limits.batchSize, windowSeconds: limits.windowSeconds };
        monitor.batchSizeIs(limits.batchSize);
        tellSettings();
      },
      setLoad(perSecond, model) {
        load.set(perSecond, model);
        tellSettings();
      },
      async send(body) {
        const [QueueUrl] = queueUrls;
        const command = new SendMessageCommand({
          QueueUrl,
          MessageBody: body,
          MessageAttributes: ownAttributes('ask'),
        });
        const { MessageId = '' } = await sqs.send(command);
        monitor.sent(1);
        return MessageId;
      },
    }),
  });
  return {
    url: server.url,
    async close() {
      stream.close();
      await load.stop();
      await server.close();
      sqs.destroy();
    },
  };
}

/** What the page sends is answered there as everybody is on the result queue, and costs the function as much. */
async function createOwnQueue({ stack, monitor }: PageOptions): Promise<string> {
  const { sqs, config, queues } = stack;
  await sqs.send(new CreateQueueCommand({ QueueName: RESULT_QUEUE }));
  const queueUrl = queues.resultQueueUrl.replace(/[^/]+$/, RESULT_QUEUE);
  const { resultsPerMessage, resultMessageBytes: bytes } = config;
  const results = resultsPerMessage === FILL ? Number.POSITIVE_INFINITY : resultsPerMessage;
  monitor.answerOwnTo(createQueueWriter({ sqs, queueUrl, packing: { results, bytes } }));
  return queueUrl;
}

function portAfter(endpoint: string): number {
  return (Number(new URL(endpoint).port) + 1) % 65_536;
}
