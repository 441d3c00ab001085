import type { Duration, Size } from 'aws-cdk-lib';
import { RUNTIME_TELEMETRY_OFF, SETTINGS } from '../../lambda/settings.ts';
import type { Batching } from '../compute/compute.ts';
import { type Channels, type ResultStore, urlsOf } from './channels.ts';
import { type ModelPlace, mountedFolder } from './existingThings.ts';
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
  readonly tuning: TuningNumbers;
}

/** The environment variables of the host. What is left out keeps the runtime's own default. */
export function hostEnvironment(settings: HostSettings): Record<string, string> {
  const { batching, models, stores, tuning, resultsPerMessage, resultMessageBytes, resultTtlSeconds } = settings;
  const variables = environmentOf({
    ...tuning,
    ...batching,
    modelsDirectory: models.efs && mountedFolder(models.efs),
    modelsUri: models.s3 && `s3://${models.s3.bucket}/${models.s3.folder}`,
    defaultModel: settings.defaultModel,
    providers: tuning.providers ?? settings.providers,
    serviceName: settings.serviceName,
    logLevel: settings.logLevel,
    requestQueueUrls: urlsOf(settings.requestQueues),
    results: settings.results.join(','),
    resultQueueUrl: stores.resultQueue?.queueUrl,
    ...(stores.resultQueue && { resultsPerMessage, resultMessageBytes }),
    resultTable: stores.resultTable?.tableName,
    ...(stores.resultTable && { resultTtlSeconds }),
    resultBucket: stores.resultBucket?.bucketName,
    resultPrefix: settings.resultPrefix || undefined,
    payloadBucket: settings.payloadBucket.bucketName,
    payloadPrefix: settings.payloadPrefix || undefined,
  });
  // Here too, since a worker thread, which runs the handler on Managed Instances, cannot set it.
  return { [RUNTIME_TELEMETRY_OFF]: '1', ...variables };
}

/** What a worker must know besides what every host does. */
interface WorkerSettings {
  readonly timeoutSeconds: number;
  readonly visibilitySeconds: number;
  readonly stopSeconds: number;
  readonly healthPort: number;
  readonly maxPolls: number | undefined;
  readonly pipelineDepth: number | undefined;
}

/** The environment variables of a worker alone. What is left out keeps the runtime's own default. */
export function workerEnvironment(settings: WorkerSettings): Record<string, string> {
  return environmentOf({ ...settings });
}

/** The variable of each setting that the catalogue has, in its order. */
function environmentOf(values: Readonly<Record<string, unknown>>): Record<string, string> {
  const given = Object.entries(SETTINGS).filter(([name]) => values[name] !== undefined);
  return Object.fromEntries(given.map(([name, { variable }]) => [variable, String(values[name])]));
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
