import { SendMessageCommand } from '@aws-sdk/client-sqs';
import { messageOf } from '../../../lambda/core/failure.ts';
import { BATCH_CLOSED, MICRO_BATCH_CLOSED } from '../../closedBecause.ts';
import type { EventSourceMapping } from '../eventSourceMapping.ts';
import type { GatherLimits } from '../gather.ts';
import { localSqsClient } from '../queues.ts';
import { type Batching, type LocalStack, MAXIMUM_CONCURRENCY } from '../stack.ts';
import { createControls } from './controls.ts';
import { createLoad } from './load.ts';
import { lookAtModels } from './models.ts';
import type { Monitor } from './monitor.ts';
import { ownAttributes } from './ownMessages.ts';
import { createOwnResults } from './ownResults.ts';
import { createQueueWatch } from './queues.ts';
import { type PageServer, startPageServer } from './server.ts';
import { createStream } from './stream.ts';
import type { Hello, QueuesSeen, SettingsSeen } from './wire.ts';

export interface PageOptions {
  readonly stack: LocalStack;
  readonly mapping: EventSourceMapping;
  readonly monitor: Monitor;
  readonly batching: Batching;
  readonly modelsDirectory: string;
  /** On 127.0.0.1. @default the one after the queues', or any where that is taken */
  readonly port?: number | undefined;
  /** Told what went wrong. */
  readonly warn: (message: string) => void;
}

const NEWS_MS = 250;
const TICK_MS = 1_000;
const TAKE_AWAY_MS = 5_000;

/** Serves a page that shows what a stack does, and does something with it. @throws Error when its port is taken */
export async function startPage(options: PageOptions): Promise<PageServer> {
  const { stack, mapping, monitor, warn } = options;
  const sqs = localSqsClient(stack.queues);
  const ownResults = await createOwnResults(stack);
  const models = await lookAtModels(stack, options.modelsDirectory);
  const names = [...new Set(stack.models.map(({ name }) => name))];
  const loadModels = names.filter((name) => models.samplesOf(name).length > 0);
  const queueWatch = createQueueWatch({ sqs, queues: stack.queues, newestSentAt: monitor.newestSentAt });

  let batching: GatherLimits = options.batching;
  const { maximumConcurrency = MAXIMUM_CONCURRENCY } = options.batching;
  const gathered = maximumConcurrency * stack.queues.requestQueues.length;
  let queues: QueuesSeen | undefined;
  const settings = (): SettingsSeen => {
    const { batchSize, windowSeconds } = batching;
    return { batchSize, windowSeconds, gathered, load: load.seen() };
  };
  const tellSettings = (): void => stream.tell('settings', settings());
  const load = createLoad({
    sqs,
    queueUrls: stack.queues.requestQueues.map(({ queueUrl }) => queueUrl),
    model: loadModels[0] ?? '',
    samplesOf: models.samplesOf,
    waiting: () => queues?.waiting ?? 0,
    onSent: monitor.sent,
    onChange: tellSettings,
  });

  const every = (ms: number, act: () => Promise<void> | void): NodeJS.Timeout => {
    let isAtIt = false;
    return setInterval(async () => {
      if (isAtIt) return;
      isAtIt = true;
      try {
        await act();
      } catch (error) {
        warn(`page: ${messageOf(error)}`);
      }
      isAtIt = false;
    }, ms);
  };
  const tellNews = (): void => {
    const news = monitor.takeNews();
    if (news.invocations.length + news.results.length > 0) stream.tell('news', news);
  };
  const tick = async (): Promise<void> => {
    queues = await queueWatch.look();
    const batchings = models.all().map((model) => model.batching);
    stream.tell('tick', { seconds: monitor.takeSeconds(), queues, totals: monitor.totals(), batching: batchings });
  };
  const takingAway = every(TAKE_AWAY_MS, ownResults.takeAway);
  /** Only while somebody looks. */
  let watching: NodeJS.Timeout[] = [];
  const stream = createStream({
    onWatched(isWatched) {
      for (const timer of watching) clearInterval(timer);
      watching = isWatched ? [every(NEWS_MS, tellNews), every(TICK_MS, tick)] : [];
      if (!isWatched) void load.stop();
    },
  });
  const hello = (): Hello => ({
    closed: { batch: BATCH_CLOSED, microBatch: MICRO_BATCH_CLOSED },
    models: models.all(),
    loadModels,
    settings: settings(),
    queues,
    ...monitor.history(),
  });

  monitor.answerOwnTo(ownResults.writer);
  monitor.batchSizeIs(batching.batchSize);
  monitor.onAnswer((answer) => stream.tell('answer', answer));
  const controls = createControls({
    loadModels,
    setBatching(limits) {
      mapping.update(limits);
      batching = limits;
      monitor.batchSizeIs(limits.batchSize);
      tellSettings();
    },
    setLoad(perSecond, model) {
      if (!stream.isWatched()) throw new Error('load: expected a page that is open, got none; open the page first');
      load.set(perSecond, model);
      tellSettings();
    },
    async send(body) {
      const QueueUrl = stack.queues.requestQueueUrl;
      const MessageAttributes = ownAttributes('ask');
      const { MessageId = '' } = await sqs.send(
        new SendMessageCommand({ QueueUrl, MessageBody: body, MessageAttributes }),
      );
      monitor.sent(1);
      return MessageId;
    },
  });
  const close = async (): Promise<void> => {
    stream.close();
    clearInterval(takingAway);
    await load.stop();
    sqs.destroy();
  };
  try {
    const server = await startPageServer({
      port: options.port,
      preferredPort: portAfter(stack.queues.endpoint),
      openStream: (response) => stream.open(response, hello()),
      controls,
    });
    return {
      url: server.url,
      async close() {
        await close();
        await server.close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function portAfter(endpoint: string): number {
  return (Number(new URL(endpoint).port) + 1) % 65_536;
}
