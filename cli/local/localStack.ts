import type { Announce } from '../../lambda/aws/announce.ts';
import { createS3Client } from '../../lambda/aws/awsClients.ts';
import { fetchModels } from '../../lambda/aws/fetchModels.ts';
import { CLIENT_PATIENCE } from '../../lambda/aws/sqsWire.ts';
import type { Telemetry } from '../../lambda/aws/telemetry.ts';
import { withoutWindow } from '../../lambda/core/limits.ts';
import { isS3Uri } from '../../lambda/core/places.ts';
import type { ResultWriter } from '../../lambda/core/record.ts';
import { compose } from '../../lambda/hosts/compose.ts';
import { loadConfig } from '../../lambda/hosts/config.ts';
import { createHandler } from '../../lambda/hosts/createHandler.ts';
import type { Scorer } from '../../lambda/scorer/scorer.ts';
import { CONFIG_KEYS, JOB_CONFIG_KEYS } from '../../lambda/settings.ts';
import { type LocalJobs, startLocalJobs } from './localJobs.ts';
import { type EventSourceMapping, type EventSourceMappingOptions, startEventSourceMapping } from './localMapping.ts';
import {
  LOCAL_TIMEOUT_SECONDS,
  type LocalServices,
  type LocalServicesOptions,
  startLocalServices,
} from './localServices.ts';

export interface LocalStackOptions extends LocalServicesOptions {
  readonly modelsDirectory: string;
  /** Model for requests that name none. @default the repository's only model */
  readonly defaultModel?: string | undefined;
  /** `BATCHSCORE_…` variables that tune the scoring. All other variables are ignored. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly telemetry: Telemetry;
  /** True to score files too. @default false */
  readonly jobs?: boolean | undefined;
  /** Is called for jobs that end and for messages that move to the dead-letter queue. @default no announcements */
  readonly announce?: Announce | undefined;
  /** Takes warnings, and errors that occur outside the handler. */
  readonly warn: (message: string) => void;
  /** Takes warnings about the models. @default `warn` */
  readonly warnOfModels?: ((message: string) => void) | undefined;
  /** Wraps the writer of message results. @default the stores' own writer */
  readonly through?: ((writer: ResultWriter) => ResultWriter) | undefined;
}

export interface Batching
  extends Pick<EventSourceMappingOptions, 'batchSize' | 'windowSeconds' | 'onInvocation' | 'around'> {
  /** Maximum number of concurrent invocations. @default 2 */
  readonly maximumConcurrency?: number | undefined;
}

/**
 * Complete batchscore deployment on one machine: the queues, the real handler, and local versions of the AWS services
 * between them.
 */
export type LocalStack = Awaited<ReturnType<typeof startLocalStack>>;

/** Minimum that AWS allows. */
const MAXIMUM_CONCURRENCY = 2;

/** @throws Error if the port is taken, a setting is wrong, or a model is missing or broken */
export async function startLocalStack(options: LocalStackOptions) {
  const services = await startLocalServices(options);
  try {
    return await withFunction(services, options);
  } catch (error) {
    await services.stop();
    throw error;
  }
}

async function withFunction(services: LocalServices, options: LocalStackOptions) {
  const { clients, queues, ...places } = services;
  const { environment, telemetry, warn, warnOfModels = warn, through, announce = async () => {} } = options;
  const config = loadConfig(environmentOf(services, options));
  const serve = async (isBackground: boolean) => {
    const given = { clients, telemetry, announce, leavesOutBroken: true, isBackground };
    const open = () => compose(config, { ...given, warn: warnOfModels });
    const composition = await open();
    const { scoring } = composition;
    const { scorer, replace } = replaceable(composition.scorer);
    // The wrapper applies only to messages, because jobs write elsewhere.
    const writer = through?.(scoring.writer) ?? scoring.writer;
    const handler = createHandler({ ...composition, scoring: { ...scoring, score: scorer.score, writer } });
    return { scorer, handler, reload: async () => replace((await open()).scorer) };
  };
  const { scorer, handler, reload } = await serve(queues.urgentQueue !== undefined);
  let jobs: LocalJobs | undefined;
  let urgent: Awaited<ReturnType<typeof serve>> | undefined;
  try {
    // As in a worker, urgent requests have models of their own.
    urgent = queues.urgentQueue && (await serve(false));
    const given = { s3: clients.s3(), ...queues, scorer, telemetry, config, environment, announce, say: warn };
    jobs = options.jobs === true ? await startLocalJobs(given) : undefined;
  } catch (error) {
    await Promise.all([scorer.close(), urgent?.scorer.close()]);
    throw error;
  }
  return {
    ...places,
    queues,
    sqs: clients.sqs,
    config,
    scorer,
    /** Loads the models again, and serves them as soon as they are loaded. @throws Error if none can be served */
    reload: async () => void (await Promise.all([reload(), urgent?.reload()])),
    /** Addresses for jobs, with the names of the client's options as keys. Undefined if jobs are off. */
    jobs: jobs?.whereabouts,
    jobControl: jobs,
    /** Starts an event source mapping for each shard, and one without a window for urgent requests. */
    startMapping({ maximumConcurrency = MAXIMUM_CONCURRENCY, ...batching }: Batching): EventSourceMapping {
      const common = {
        ...batching,
        sqs: clients.sqs,
        region: queues.region,
        maximumConcurrency,
        functionTimeoutSeconds: LOCAL_TIMEOUT_SECONDS,
        onError: (error: Error) => warn(error.message),
      };
      const mappings = queues.requestQueues.map((queue) =>
        startEventSourceMapping({ ...common, ...queue, invoke: handler }),
      );
      if (queues.urgentQueue !== undefined && urgent !== undefined) {
        const own = { ...queues.urgentQueue, ...withoutWindow(batching), invoke: urgent.handler };
        mappings.push(startEventSourceMapping({ ...common, ...own }));
      }
      return { stop: async () => void (await Promise.all(mappings.map((mapping) => mapping.stop()))) };
    },
    async stop(): Promise<void> {
      await jobs?.stop();
      await Promise.all([scorer.close(), urgent?.scorer.close()]);
      await services.stop();
    },
  };
}

/** Returns a scorer whose models can be replaced. Calls that have begun end with the models that they began with. */
function replaceable(first: Scorer) {
  let current = { scorer: first, calls: new Set<Promise<unknown>>() };
  const scorer: Scorer = {
    get models() {
      return current.scorer.models;
    },
    get devices() {
      return current.scorer.devices;
    },
    score(...call) {
      const { calls, scorer } = current;
      const scored = Promise.resolve(scorer.score(...call));
      calls.add(scored);
      const ended = (): void => void calls.delete(scored);
      scored.then(ended, ended);
      return scored;
    },
    find: (name, version) => current.scorer.find(name, version),
    close: () => current.scorer.close(),
  };
  const replace = async (next: Scorer): Promise<void> => {
    const before = current;
    current = { scorer: next, calls: new Set() };
    await Promise.allSettled(before.calls);
    await before.scorer.close();
  };
  return { scorer, replace };
}

/** Returns the environment of the function that scores messages. It excludes the settings of jobs. */
function environmentOf(
  services: LocalServices,
  { modelsDirectory, defaultModel, environment }: LocalStackOptions,
): Readonly<Record<string, string | undefined>> {
  const ofJobs: readonly string[] = Object.values(JOB_CONFIG_KEYS);
  return {
    ...Object.fromEntries(Object.entries(environment).filter(([key]) => !ofJobs.includes(key))),
    [CONFIG_KEYS.modelsDirectory]: modelsDirectory,
    [CONFIG_KEYS.modelsUri]: undefined,
    [CONFIG_KEYS.defaultModel]: environment[CONFIG_KEYS.defaultModel] ?? defaultModel,
    ...services.environment,
  };
}

/** Returns the folder of a model repository. It downloads a published one from S3 with this machine's credentials. */
export async function localModels(models: string, inform: (message: string) => void): Promise<string> {
  if (!isS3Uri(models)) return models;
  const s3 = createS3Client(CLIENT_PATIENCE);
  try {
    return await fetchModels({ s3, uri: models, inform });
  } finally {
    s3.destroy();
  }
}
