import { CONFIG_KEYS, RUNTIME_TELEMETRY_OFF } from '../../../lambda/configKeys.ts';
import type { Batching } from '../base/batching.ts';
import { type Channels, urlsOf } from '../storage/channels.ts';
import { type ModelPlace, mountedFolder } from '../storage/models.ts';
import type { ResultStore } from '../storage/resultStores.ts';
import type { TuningNumbers } from './tuning.ts';

/** What the host must know of the deployment. */
export interface HostSettings extends Channels {
  readonly serviceName: string;
  readonly batching: Batching;
  readonly results: readonly ResultStore[];
  readonly resultsPerMessage: number | 'fill';
  readonly resultMessageBytes: number;
  readonly resultTtlSeconds: number;
  readonly models: ModelPlace;
  readonly defaultModel: string | undefined;
  readonly providers: string | undefined;
  readonly logLevel: string | undefined;
  readonly tracing: boolean;
  readonly tuning: TuningNumbers;
}

/** The environment variables of the host. What is left out keeps the runtime's own default. */
export function hostEnvironment(settings: HostSettings): Record<string, string> {
  const { batching, models, stores, tuning } = settings;
  const values: Record<string, string | number | boolean | undefined> = {
    [CONFIG_KEYS.modelsDirectory]: models.efs && mountedFolder(models.efs),
    [CONFIG_KEYS.modelsUri]: models.s3 && `s3://${models.s3.bucket}/${models.s3.folder}`,
    [CONFIG_KEYS.defaultModel]: settings.defaultModel,
    [CONFIG_KEYS.preload]: tuning.preload,
    [CONFIG_KEYS.providers]: tuning.providers ?? settings.providers,
    [CONFIG_KEYS.allowProviderFallback]: tuning.allowProviderFallback,
    [CONFIG_KEYS.maxBatchRows]: tuning.maxBatchRows,
    [CONFIG_KEYS.maxBatchElements]: tuning.maxBatchElements,
    [CONFIG_KEYS.maxRequestRows]: tuning.maxRequestRows,
    [CONFIG_KEYS.maxRequestsPerMessage]: tuning.maxRequestsPerMessage,
    [CONFIG_KEYS.maxAnswerCharacters]: tuning.maxAnswerCharacters,
    [CONFIG_KEYS.deadlineMarginMs]: tuning.deadlineMarginMs,
    [CONFIG_KEYS.checkPercent]: tuning.checkPercent,
    [CONFIG_KEYS.serviceName]: settings.serviceName,
    [CONFIG_KEYS.logLevel]: settings.logLevel,
    [CONFIG_KEYS.batchSize]: batching.batchSize,
    [CONFIG_KEYS.windowSeconds]: batching.windowSeconds,
    [CONFIG_KEYS.requestQueueUrls]: urlsOf(settings.requestQueues),
    [CONFIG_KEYS.results]: settings.results.join(','),
    [CONFIG_KEYS.resultQueueUrl]: stores.resultQueue?.queueUrl,
    [CONFIG_KEYS.resultsPerMessage]: stores.resultQueue && settings.resultsPerMessage,
    [CONFIG_KEYS.resultMessageBytes]: stores.resultQueue && settings.resultMessageBytes,
    [CONFIG_KEYS.resultTable]: stores.resultTable?.tableName,
    [CONFIG_KEYS.resultTtlSeconds]: stores.resultTable && settings.resultTtlSeconds,
    [CONFIG_KEYS.resultBucket]: stores.resultBucket?.bucketName,
    [CONFIG_KEYS.resultPrefix]: settings.resultPrefix || undefined,
    [CONFIG_KEYS.payloadBucket]: settings.payloadBucket.bucketName,
    [CONFIG_KEYS.payloadPrefix]: settings.payloadPrefix || undefined,
    [CONFIG_KEYS.maxPayloadBytes]: tuning.maxPayloadBytes,
  };
  // Here too, since a worker thread, which runs the handler on Managed Instances, cannot set it.
  const environment: Record<string, string> = { [RUNTIME_TELEMETRY_OFF]: '1' };
  for (const [key, value] of Object.entries(values)) if (value !== undefined) environment[key] = String(value);
  return environment;
}
