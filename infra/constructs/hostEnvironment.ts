import type { Duration, Size } from 'aws-cdk-lib';
import { CONFIG_KEYS, RUNTIME_TELEMETRY_OFF } from '../../lambda/settings.ts';
import type { Batching } from '../compute/compute.ts';
import { type Channels, type ResultStore, urlsOf } from './channels.ts';
import { type ModelPlace, mountedFolder } from './modelPlace.ts';
import { bytesOf, millisecondsOf } from './units.ts';

/** What the host must know of the deployment. */
interface HostSettings extends Channels {
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
    [CONFIG_KEYS.tracing]: settings.tracing || undefined,
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

/** What a worker must know besides what every host does. */
interface WorkerSettings {
  readonly timeoutSeconds: number;
  readonly visibilitySeconds: number;
  readonly stopSeconds: number;
  readonly healthPort: number;
  readonly mostPolls: number | undefined;
  readonly pipelineDepth: number | undefined;
  readonly hopThreads: number | undefined;
}

/** The environment variables of a worker alone. What is left out keeps the runtime's own default. */
export function workerEnvironment(settings: WorkerSettings): Record<string, string> {
  const { mostPolls, pipelineDepth, hopThreads } = settings;
  return {
    [CONFIG_KEYS.timeoutSeconds]: String(settings.timeoutSeconds),
    [CONFIG_KEYS.visibilitySeconds]: String(settings.visibilitySeconds),
    [CONFIG_KEYS.stopSeconds]: String(settings.stopSeconds),
    [CONFIG_KEYS.healthPort]: String(settings.healthPort),
    ...(mostPolls !== undefined && { [CONFIG_KEYS.mostPolls]: String(mostPolls) }),
    ...(pipelineDepth !== undefined && { [CONFIG_KEYS.pipelineDepth]: String(pipelineDepth) }),
    ...(hopThreads !== undefined && { [CONFIG_KEYS.hopThreads]: String(hopThreads) }),
  };
}

/** Settings of the scoring itself; each is a variable of the host's environment. */
export interface Tuning {
  /** Most rows in one run. @default 512 */
  readonly maxBatchRows?: number;
  /** Most elements that the inputs of one run hold together, padding included. @default 4194304 */
  readonly maxBatchElements?: number;
  /** Most rows in one request. @default 10000 */
  readonly maxRequestRows?: number;
  /** Most requests in one packed message. @default 10000 */
  readonly maxRequestsPerMessage?: number;
  /** Most characters of the answer to one message. @default a 64th of the memory, in bytes */
  readonly maxAnswerCharacters?: number;
  /** Before the deadline, after which nothing is started; whole milliseconds. @default 1 second */
  readonly deadlineMargin?: Duration;
  /**
   * Percent of a model's run time that goes into running rows alone as well, to compare their answers. 0: nothing is
   * compared. @default 1
   */
  readonly checkPercent?: number;
  /** The largest object that is read from the payload bucket. @default a 64th of the memory */
  readonly maxPayloadSize?: Size;
  /** Whether to load all models at start, rather than when a request names them. @default true */
  readonly preload?: boolean;
  /** ONNX Runtime execution providers, first choice first, comma-separated. @default 'cpu', and 'cuda' with a GPU */
  readonly providers?: string;
  /** Whether to go on with the next provider, with a warning, when one cannot be loaded. @default false */
  readonly allowProviderFallback?: boolean;
}

/** The settings with plain numbers, as the environment has them. */
export interface TuningNumbers extends Omit<Tuning, 'deadlineMargin' | 'maxPayloadSize'> {
  readonly deadlineMarginMs?: number | undefined;
  readonly maxPayloadBytes?: number | undefined;
}

/** @throws Error when an amount is a token */
export function tuningNumbers({ deadlineMargin, maxPayloadSize, ...others }: Tuning): TuningNumbers {
  return {
    ...others,
    deadlineMarginMs: millisecondsOf('deadlineMarginMs', deadlineMargin),
    maxPayloadBytes: bytesOf('maxPayloadBytes', maxPayloadSize),
  };
}
