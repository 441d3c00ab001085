import type { Announce } from '../aws/announce.ts';
import type { Capture } from '../aws/capture.ts';
import type { Payloads } from '../aws/payloads.ts';
import { createAcknowledger, createRetryDelay, perQueue } from '../aws/requestQueue.ts';
import { openQueueStore } from '../aws/resultQueue.ts';
import { type Clients, type OpenStore, writeToEvery } from '../aws/storeEntries.ts';
import type { Telemetry } from '../aws/telemetry.ts';
import { MAX_RECEIVES } from '../core/limits.ts';
import type { MessageRecord } from '../core/record.ts';
import { openScorer, type Scorer } from '../scorer/scorer.ts';
import type { Store } from '../settings.ts';
import { type Config, queuesOf } from './config.ts';
import type { HandlerDependencies } from './createHandler.ts';

interface HostDependencies {
  readonly clients: Clients;
  readonly telemetry: Telemetry;
  /** Takes a message about something that works but not well. */
  readonly warn: (message: string) => void;
  /** Takes findings about each loaded model. @default ignored */
  readonly inform?: ((message: string) => void) | undefined;
  /** Announces dead letters. @default to the configured bus or topic, if there is one */
  readonly announce?: Announce | undefined;
  /** True to warn about broken models and to serve the others. @default false: a broken model is an error */
  readonly leavesOutBroken?: boolean | undefined;
  /** True if its scorer gets only the processor time that others leave. @default false */
  readonly isBackground?: boolean;
}

export interface Composition extends HandlerDependencies {
  readonly scorer: Scorer;
  /** Deletes answered records. Never throws. */
  acknowledge(records: readonly MessageRecord[], signal: AbortSignal): Promise<unknown>;
  /** Ends the processes that hold the models. */
  close(): Promise<void>;
}

/** Opens result stores by name. The code of a store that results do not go to is not loaded. */
const STORES: Readonly<Record<Store, OpenStore>> = {
  queue: openQueueStore,
  table: async (...given) => (await import('../aws/resultTable.ts')).openTableStore(...given),
  bucket: async (...given) => (await import('../aws/resultBucket.ts')).openBucketStore(...given),
};

/** About eight minutes of attempts, up to 5 s apart. A function's deadline comes earlier. */
const DELETE_ATTEMPTS = 200;

/** Opens the models, and connects everything that a host needs to score records. */
export async function compose(
  config: Config,
  { clients, telemetry, warn, inform, announce, leavesOutBroken, isBackground }: HostDependencies,
): Promise<Composition> {
  const { observer } = telemetry;
  const payloads = await payloadsOf(config, clients);
  const requestQueues = {
    sqs: clients.sqs,
    queueUrls: queuesOf(config),
    onProblem: (error: unknown) => observer.problem(error),
  };
  const { modelsUri: uri, maxReceiveCount: maxReceives = MAX_RECEIVES } = config;
  const directory = uri === undefined ? config.modelsDirectory : await fetchPublished(uri, clients, inform);
  const opening = openScorer({
    repository: { directory, defaultModel: config.defaultModel, preload: config.preload, leavesOutBroken },
    load: config,
    limits: config,
    checkPercent: config.checkPercent,
    payloads,
    hasStages: observer.stage !== undefined,
    isBackground,
    warn,
    inform,
    assigned: telemetry.assigned,
    onLost: telemetry.scorerLost,
  });
  const [scorer, ...writers] = await Promise.all([
    opening,
    ...config.results.map((store) => STORES[store](config, { clients, payloads })),
  ]);
  return {
    scorer,
    scoring: {
      score: scorer.score,
      writer: writeToEvery(writers),
      limits: config,
      capture: await captureOf(config, clients, telemetry, warn),
      observer,
      now: () => performance.now(),
    },
    acknowledge: perQueue({
      ...requestQueues,
      // Retries through minutes of throttling: a record that is not deleted is scored again and loses a receive.
      act: (queueUrl) => createAcknowledger({ ...requestQueues, queueUrl, retry: { attempts: DELETE_ATTEMPTS } }),
    }),
    delayRetries: perQueue({
      ...requestQueues,
      act: (queueUrl) => createRetryDelay({ ...requestQueues, queueUrl, maxReceives }),
    }),
    telemetry,
    announceDeadLetters: await deadLettersOf(config, announce, warn),
    close: scorer.close,
  };
}

async function fetchPublished(uri: string, { s3 }: Clients, inform: HostDependencies['inform']): Promise<string> {
  const { fetchModels } = await import('../aws/fetchModels.ts');
  return fetchModels({ s3: await s3(), uri, inform });
}

async function payloadsOf(
  { payloadBucket, payloadPrefix, maxPayloadBytes }: Config,
  clients: Clients,
): Promise<Payloads | undefined> {
  if (payloadBucket === undefined) return undefined;
  const { createPayloads } = await import('../aws/payloads.ts');
  return createPayloads({
    s3: await clients.s3(),
    bucket: payloadBucket,
    prefix: payloadPrefix,
    maxBytes: maxPayloadBytes,
  });
}

async function deadLettersOf(
  { eventsArn: arn, maxReceiveCount }: Config,
  announce: Announce | undefined,
  warn: HostDependencies['warn'],
): Promise<HandlerDependencies['announceDeadLetters']> {
  if (maxReceiveCount === undefined || (arn === undefined && announce === undefined)) return undefined;
  const { createAnnounce, createDeadLetterWatch } = await import('../aws/announce.ts');
  return createDeadLetterWatch(announce ?? createAnnounce(arn ?? ''), maxReceiveCount, warn);
}

async function captureOf(
  { capturePercent: percent, captureBucket: bucket, capturePrefix: prefix }: Config,
  { s3 }: Clients,
  { observer }: Telemetry,
  warn: HostDependencies['warn'],
): Promise<Capture | undefined> {
  if (percent === 0 || bucket === undefined) return undefined;
  const { createCapture } = await import('../aws/capture.ts');
  return createCapture({ s3: await s3(), bucket, prefix, percent, observer, warn });
}
