import type { SQSClient } from '@aws-sdk/client-sqs';
import type { Telemetry } from '../../lambda/adapters/telemetry/telemetry.ts';
import { compose } from '../../lambda/compose.ts';
import { loadConfig } from '../../lambda/config.ts';
import { CONFIG_KEYS } from '../../lambda/configKeys.ts';
import { createHandler } from '../../lambda/createHandler.ts';
import { type EventSourceMapping, type InvocationReport, startEventSourceMapping } from './eventSourceMapping.ts';
import { type LocalQueues, localSqsClient, startLocalQueues } from './queues.ts';

export interface LocalStackOptions {
  /** TCP port on 127.0.0.1; 0 picks a free one. */
  readonly port: number;
  readonly modelsDirectory: string;
  /** The model of requests that name none. @default the repository's only model */
  readonly defaultModel?: string | undefined;
  /** `BATCHSCORE_…` variables that tune the scoring; everything else in it is ignored. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly telemetry: Telemetry;
  /** Told what works but not as well as it should, and what went wrong outside of the handler. */
  readonly warn: (message: string) => void;
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
  readonly sqs: SQSClient;
  readonly models: readonly { readonly name: string; readonly version: string }[];
  /** Starts handing messages to the handler. */
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
  const { telemetry, warn } = options;
  const queues = await startLocalQueues({
    port: options.port,
    visibilityTimeoutSeconds: VISIBILITY_TIMEOUT_SECONDS,
    maxReceiveCount: MAX_RECEIVE_COUNT,
  });
  const sqs = localSqsClient(queues);
  try {
    const composition = await compose(loadConfig(configure(options, queues)), { sqs, telemetry, warn });
    const handler = createHandler(composition);
    return {
      queues,
      sqs,
      models: composition.models,
      startMapping: ({ batchSize, windowSeconds, onInvocation }) =>
        startEventSourceMapping({
          sqs,
          queueUrl: queues.requestQueueUrl,
          queueArn: queues.requestQueueArn,
          region: queues.region,
          batchSize,
          windowSeconds,
          maximumConcurrency: MAXIMUM_CONCURRENCY,
          functionTimeoutSeconds: FUNCTION_TIMEOUT_SECONDS,
          invoke: handler,
          onError: (error) => warn(error.message),
          ...(onInvocation === undefined ? {} : { onInvocation }),
        }),
      stop: async () => {
        await composition.close();
        sqs.destroy();
        await queues.stop();
      },
    };
  } catch (error) {
    sqs.destroy();
    await queues.stop();
    throw error;
  }
}

function configure(
  { modelsDirectory, defaultModel, environment }: LocalStackOptions,
  queues: LocalQueues,
): Record<string, string | undefined> {
  return {
    ...environment,
    [CONFIG_KEYS.modelsDirectory]: modelsDirectory,
    [CONFIG_KEYS.defaultModel]: environment[CONFIG_KEYS.defaultModel] ?? defaultModel,
    [CONFIG_KEYS.requestQueueUrl]: queues.requestQueueUrl,
    [CONFIG_KEYS.resultQueueUrl]: queues.resultQueueUrl,
  };
}
