import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { CONFIG_KEYS } from '../../lambda/configKeys.ts';
import type { Batching } from './base/batching.ts';
import type { ResultStore, ResultStores } from './storage/resultStores.ts';

/** Settings of the scoring itself, as the README's table of environment variables has them. */
export interface Tuning {
  /** Most rows in one run. @default 512 */
  readonly maxBatchRows?: number;
  /** Most elements that the inputs of one run hold together, padding included. @default 4194304 */
  readonly maxBatchElements?: number;
  /** Most rows in one request. @default 10000 */
  readonly maxRequestRows?: number;
  /** Milliseconds before the deadline after which nothing is started. @default 2000 */
  readonly deadlineMarginMs?: number;
  /** Most bytes of an object in the payload bucket that is read. @default 104857600 */
  readonly maxPayloadBytes?: number;
  /** Whether equal requests of one call are run once and answered many times. @default false */
  readonly collapseEqualRequests?: boolean;
  /** Whether all models are loaded at start, rather than when a request names them. @default true */
  readonly preload?: boolean;
  /** ONNX Runtime execution providers, first choice first, comma-separated. @default 'cpu', and 'cuda' with a GPU */
  readonly providers?: string;
  /** Whether the next provider is taken, with a warning, when one cannot be loaded. @default false */
  readonly allowProviderFallback?: boolean;
}

export interface Surroundings {
  readonly serviceName: string;
  readonly batching: Batching;
  readonly requestQueue: IQueue;
  readonly results: readonly ResultStore[];
  readonly stores: ResultStores;
  readonly resultTtlSeconds: number;
  readonly payloadBucket: IBucket;
  readonly defaultModel: string | undefined;
  readonly providers: string | undefined;
  readonly tuning: Tuning;
}

/** The host's environment. What is not said here keeps the runtime's own default. */
export function environmentOf(surroundings: Surroundings): Record<string, string> {
  const { batching, stores, tuning } = surroundings;
  const values: Record<string, string | number | boolean | undefined> = {
    [CONFIG_KEYS.defaultModel]: surroundings.defaultModel,
    [CONFIG_KEYS.preload]: tuning.preload,
    [CONFIG_KEYS.providers]: tuning.providers ?? surroundings.providers,
    [CONFIG_KEYS.allowProviderFallback]: tuning.allowProviderFallback,
    [CONFIG_KEYS.maxBatchRows]: tuning.maxBatchRows,
    [CONFIG_KEYS.maxBatchElements]: tuning.maxBatchElements,
    [CONFIG_KEYS.maxRequestRows]: tuning.maxRequestRows,
    [CONFIG_KEYS.deadlineMarginMs]: tuning.deadlineMarginMs,
    [CONFIG_KEYS.collapseEqualRequests]: tuning.collapseEqualRequests,
    [CONFIG_KEYS.serviceName]: surroundings.serviceName,
    [CONFIG_KEYS.batchSize]: batching.batchSize,
    [CONFIG_KEYS.windowSeconds]: batching.windowSeconds,
    [CONFIG_KEYS.requestQueueUrl]: surroundings.requestQueue.queueUrl,
    [CONFIG_KEYS.results]: surroundings.results.join(','),
    [CONFIG_KEYS.resultQueueUrl]: stores.resultQueue?.queueUrl,
    [CONFIG_KEYS.resultTable]: stores.resultTable?.tableName,
    [CONFIG_KEYS.resultTtlSeconds]: stores.resultTable && surroundings.resultTtlSeconds,
    [CONFIG_KEYS.resultBucket]: stores.resultBucket?.bucketName,
    [CONFIG_KEYS.payloadBucket]: surroundings.payloadBucket.bucketName,
    [CONFIG_KEYS.maxPayloadBytes]: tuning.maxPayloadBytes,
  };
  const environment: Record<string, string> = {};
  for (const [key, value] of Object.entries(values)) if (value !== undefined) environment[key] = String(value);
  return environment;
}
