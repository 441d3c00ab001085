import type { SQSClient } from '@aws-sdk/client-sqs';
import type { Telemetry } from '../../lambda/adapters/telemetry/telemetry.ts';
import { compose } from '../../lambda/compose.ts';
import { loadConfig } from '../../lambda/config.ts';
import { CONFIG_KEYS } from '../../lambda/configKeys.ts';
import { createHandler } from '../../lambda/createHandler.ts';
import { createLocalBuckets, type LocalBuckets, localBucketClient } from './buckets.ts';
import { type EventSourceMapping, type InvocationReport, startEventSourceMapping } from './eventSourceMapping.ts';
import { type LocalQueues, localSqsClient, startLocalQueues } from './queues.ts';
import { type LocalTable, localTableClient, startLocalTable } from './table.ts';

export interface LocalStackOptions {
  /** TCP port on 127.0.0.1; 0 picks a free one. */
  readonly port: number;
  /** Request queues, each with its event source mapping. @default 1 */
  readonly shards?: number | undefined;
  readonly modelsDirectory: string;
  /** The model of requests that name none. @default the repository's only model */
  readonly defaultModel?: string | undefined;
  /** Where results go. @default the queue alone */
  readonly stores?: readonly string[] | undefined;
  /** `BATCHSCORE_…` variables that tune the scoring; everything else in it is ignored. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly telemetry: Telemetry;
  /** Told what works but not as well as it should, and what went wrong outside the handler. */
  readonly warn: (message: string) => void;
  /** Told what was found of each model when it was loaded. @default nobody is told */
  readonly inform?: ((message: string) => void) | undefined;
}

export interface Batching {
  /** Most records of one event, 1–10,000. */
  readonly batchSize: number;
  /** Longest wait for a batch to fill, in whole seconds, 0–300. */
  readonly windowSeconds: number;
  readonly onInvocation?: (report: InvocationReport) => void;
}

/** The whole of batchscore on one machine: queues, the real handler, and what stands between them on AWS. */
export interface LocalStack {
  readonly queues: LocalQueues;
  readonly buckets: LocalBuckets & { readonly endpoint: string };
  /** Only where results go to a table. */
  readonly table: LocalTable | undefined;
  readonly sqs: SQSClient;
  readonly models: readonly { readonly name: string; readonly version: string }[];
  /** Starts handing messages to the handler, from each shard on its own. */
  startMapping(batching: Batching): EventSourceMapping;
  stop(): Promise<void>;
}

const FUNCTION_TIMEOUT_SECONDS = 30;
/** Six function timeouts, as AWS asks for. */
const VISIBILITY_TIMEOUT_SECONDS = 6 * FUNCTION_TIMEOUT_SECONDS;
const MAX_RECEIVE_COUNT = 5;
const MAXIMUM_CONCURRENCY = 2;

/** @throws Error when the port is taken, a setting is wrong, or a model is missing or broken */
export async function startLocalStack(options: LocalStackOptions): Promise<LocalStack> {
  const cleanups: (() => Promise<void> | void)[] = [];
  const stop = async (): Promise<void> => {
    for (const cleanup of cleanups.toReversed()) await cleanup();
  };
  try {
    return { ...(await start(options, (cleanup) => void cleanups.push(cleanup))), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** @param onStop remembers what undoes each step; steps are undone in reverse order */
async function start(
  options: LocalStackOptions,
  onStop: (cleanup: () => Promise<void> | void) => void,
): Promise<Omit<LocalStack, 'stop'>> {
  const { telemetry, warn, inform, stores = ['queue'] } = options;
  const queues = await startLocalQueues({
    port: options.port,
    shards: options.shards,
    visibilityTimeoutSeconds: VISIBILITY_TIMEOUT_SECONDS,
    maxReceiveCount: MAX_RECEIVE_COUNT,
  });
  onStop(queues.stop);
  const { endpoint, region } = queues;
  const sqs = localSqsClient(queues);
  onStop(() => sqs.destroy());
  const s3 = localBucketClient(endpoint, region);
  onStop(() => s3.destroy());
  const buckets = { ...(await createLocalBuckets(s3)), endpoint };
  const table = stores.includes('table') ? await startLocalTable(region) : undefined;
  if (table !== undefined) onStop(table.stop);
  const dynamodb = localTableClient(table?.endpoint ?? endpoint, region);
  onStop(() => dynamodb.destroy());

  const config = loadConfig(configure({ ...options, stores }, queues, buckets, table));
  const clients = { sqs, dynamodb: () => dynamodb, s3: () => s3 };
  const composition = await compose(config, { clients, telemetry, warn, inform });
  onStop(composition.close);
  const handler = createHandler(composition);
  return {
    queues,
    buckets,
    table,
    sqs,
    models: composition.models,
    startMapping: (batching) =>
      together(
        queues.requestQueues.map((queue) =>
          startEventSourceMapping({
            ...batching,
            ...queue,
            sqs,
            region,
            maximumConcurrency: MAXIMUM_CONCURRENCY,
            functionTimeoutSeconds: FUNCTION_TIMEOUT_SECONDS,
            invoke: handler,
            onError: (error) => warn(error.message),
          }),
        ),
      ),
  };
}

function together(mappings: readonly EventSourceMapping[]): EventSourceMapping {
  return {
    stop: async () => {
      await Promise.all(mappings.map((mapping) => mapping.stop()));
    },
  };
}

function configure(
  { modelsDirectory, defaultModel, stores, environment }: LocalStackOptions,
  queues: LocalQueues,
  buckets: LocalBuckets,
  table: LocalTable | undefined,
): Record<string, string | undefined> {
  return {
    ...environment,
    [CONFIG_KEYS.modelsDirectory]: modelsDirectory,
    [CONFIG_KEYS.defaultModel]: environment[CONFIG_KEYS.defaultModel] ?? defaultModel,
    [CONFIG_KEYS.results]: stores?.join(','),
    [CONFIG_KEYS.requestQueueUrls]: queues.requestQueues.map(({ queueUrl }) => queueUrl).join(','),
    [CONFIG_KEYS.resultQueueUrl]: queues.resultQueueUrl,
    [CONFIG_KEYS.resultTable]: table?.tableName,
    [CONFIG_KEYS.resultBucket]: buckets.resultBucket,
    [CONFIG_KEYS.payloadBucket]: buckets.payloadBucket,
  };
}
