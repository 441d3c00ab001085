import type { SQSClient } from '@aws-sdk/client-sqs';
import type { Telemetry } from '../../lambda/adapters/telemetry/telemetry.ts';
import { type Composition, compose } from '../../lambda/compose.ts';
import { loadConfig } from '../../lambda/config.ts';
import { CONFIG_KEYS } from '../../lambda/configKeys.ts';
import { createHandler } from '../../lambda/createHandler.ts';
import { type EventSourceMapping, type InvocationReport, startEventSourceMapping } from './eventSourceMapping.ts';
import {
  FUNCTION_TIMEOUT_SECONDS,
  type LocalServices,
  type LocalServicesOptions,
  startLocalServices,
} from './services.ts';

export interface LocalStackOptions extends LocalServicesOptions {
  readonly modelsDirectory: string;
  /** The model of requests that name none. @default the repository's only model */
  readonly defaultModel?: string | undefined;
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
  /** Invocations that may run at once. @default 2 */
  readonly maximumConcurrency?: number | undefined;
  readonly onInvocation?: (report: InvocationReport) => void;
}

/** The whole of batchscore on one machine: queues, the real handler, and what stands between them on AWS. */
export interface LocalStack extends Omit<LocalServices, 'clients'> {
  readonly sqs: SQSClient;
  readonly models: readonly { readonly name: string; readonly version: string }[];
  /** Starts handing messages to the handler, from each shard on its own. */
  startMapping(batching: Batching): EventSourceMapping;
}

/** The least that AWS offers. */
export const MAXIMUM_CONCURRENCY = 2;

/** @throws Error when the port is taken, a setting is wrong, or a model is missing or broken */
export async function startLocalStack(options: LocalStackOptions): Promise<LocalStack> {
  const services = await startLocalServices(options);
  try {
    return withFunction(services, await composeFunction(services, options), options);
  } catch (error) {
    await services.stop();
    throw error;
  }
}

async function composeFunction(services: LocalServices, options: LocalStackOptions): Promise<Composition> {
  const { modelsDirectory, defaultModel, environment } = options;
  const config = loadConfig({
    ...environment,
    [CONFIG_KEYS.modelsDirectory]: modelsDirectory,
    [CONFIG_KEYS.modelsUri]: undefined,
    [CONFIG_KEYS.defaultModel]: environment[CONFIG_KEYS.defaultModel] ?? defaultModel,
    ...services.environment,
  });
  return await compose(config, { ...options, clients: services.clients });
}

function withFunction(services: LocalServices, composition: Composition, { warn }: LocalStackOptions): LocalStack {
  const { queues, buckets, table, environment, clients } = services;
  const handler = createHandler(composition);
  return {
    queues,
    buckets,
    table,
    environment,
    sqs: clients.sqs,
    models: composition.models,
    startMapping: ({ maximumConcurrency = MAXIMUM_CONCURRENCY, ...batching }) =>
      together(
        queues.requestQueues.map((queue) =>
          startEventSourceMapping({
            ...batching,
            ...queue,
            sqs: clients.sqs,
            region: queues.region,
            maximumConcurrency,
            functionTimeoutSeconds: FUNCTION_TIMEOUT_SECONDS,
            invoke: handler,
            onError: (error) => warn(error.message),
          }),
        ),
      ),
    async stop() {
      await composition.close();
      await services.stop();
    },
  };
}

function together(mappings: readonly EventSourceMapping[]): EventSourceMapping {
  return {
    stop: async () => {
      await Promise.all(mappings.map((mapping) => mapping.stop()));
    },
  };
}
