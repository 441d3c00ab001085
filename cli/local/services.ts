import type { SQSClient } from '@aws-sdk/client-sqs';
import { CONFIG_KEYS } from '../../lambda/configKeys.ts';
import type { Clients } from '../../lambda/hosts/compose.ts';
import { createLocalBuckets, type LocalBuckets, localBucketClient } from './buckets.ts';
import { type LocalQueues, localSqsClient, startLocalQueues } from './queues.ts';
import { type LocalTable, localTableClient, startLocalTable } from './table.ts';

export interface LocalServicesOptions {
  /** TCP port on 127.0.0.1; 0 picks a free one. */
  readonly port: number;
  /** Request queues, each with its event source mapping. @default 1 */
  readonly shards?: number | undefined;
  /** Where results go. @default the queue alone */
  readonly stores?: readonly string[] | undefined;
}

/** What AWS would be: servers in this process, in memory. */
export interface LocalServices {
  readonly queues: LocalQueues;
  readonly buckets: LocalBuckets & { readonly endpoint: string };
  /** Only where results go to a table. */
  readonly table: LocalTable | undefined;
  readonly clients: Clients & { readonly sqs: SQSClient };
  /** The `BATCHSCORE_…` variables that say where everything is. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  stop(): Promise<void>;
}

export const FUNCTION_TIMEOUT_SECONDS = 30;
/** Six function timeouts, as AWS asks for. */
const VISIBILITY_TIMEOUT_SECONDS = 6 * FUNCTION_TIMEOUT_SECONDS;
const MAX_RECEIVE_COUNT = 5;

/** @throws Error when the port is taken */
export async function startLocalServices(options: LocalServicesOptions): Promise<LocalServices> {
  const cleanups: (() => Promise<void> | void)[] = [];
  const stop = async (): Promise<void> => {
    for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
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
  { port, shards, stores = ['queue'] }: LocalServicesOptions,
  onStop: (cleanup: () => Promise<void> | void) => void,
): Promise<Omit<LocalServices, 'stop'>> {
  const queues = await startLocalQueues({
    port,
    shards,
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
  const environment = {
    [CONFIG_KEYS.results]: stores.join(','),
    [CONFIG_KEYS.requestQueueUrls]: urlsOf(queues),
    [CONFIG_KEYS.resultQueueUrl]: queues.resultQueueUrl,
    [CONFIG_KEYS.resultTable]: table?.tableName,
    [CONFIG_KEYS.resultBucket]: buckets.resultBucket,
    [CONFIG_KEYS.resultPrefix]: undefined,
    [CONFIG_KEYS.payloadBucket]: buckets.payloadBucket,
    [CONFIG_KEYS.payloadPrefix]: undefined,
  };
  return { queues, buckets, table, clients: { sqs, dynamodb: () => dynamodb, s3: () => s3 }, environment };
}

/** Of all shards, as the client and the host take them. */
export function urlsOf({ requestQueues }: LocalQueues): string {
  return requestQueues.map(({ queueUrl }) => queueUrl).join(',');
}
