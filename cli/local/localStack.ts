import type { SQSClient } from '@aws-sdk/client-sqs';
import type { Announce } from '../../lambda/aws/announce.ts';
import { createS3Client } from '../../lambda/aws/awsClients.ts';
import { fetchModels } from '../../lambda/aws/fetchModels.ts';
import { CLIENT_PATIENCE } from '../../lambda/aws/sqsWire.ts';
import type { Telemetry } from '../../lambda/aws/telemetry.ts';
import { isS3Uri } from '../../lambda/core/places.ts';
import type { ResultWriter } from '../../lambda/core/record.ts';
import { compose } from '../../lambda/hosts/compose.ts';
import { type Config, loadConfig } from '../../lambda/hosts/config.ts';
import { createHandler } from '../../lambda/hosts/createHandler.ts';
import type { Scorer } from '../../lambda/scorer/scorer.ts';
import { CONFIG_KEYS, JOB_CONFIG_KEYS } from '../../lambda/settings.ts';
import { type LocalJobs, startLocalJobs } from './localJobs.ts';
import {
  type Around,
  type EventSourceMapping,
  type InvocationReport,
  startEventSourceMapping,
} from './localMapping.ts';
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

export interface Batching {
  /** Maximum number of records in an event, 1–10,000. */
  readonly batchSize: number;
  /** Maximum wait for a batch to fill, in whole seconds, 0–300. */
  readonly windowSeconds: number;
  /** Maximum number of concurrent invocations. @default 2 */
  readonly maximumConcurrency?: number | undefined;
  readonly onInvocation?: (report: InvocationReport) => void;
  /** Wraps the invocation of a batch. @default no wrapper */
  readonly around?: Around | undefined;
}

/**
 * Complete batchscore deployment on one machine: the queues, the real handler, and local versions of the AWS services
 * between them.
 */
export interface LocalStack extends Omit<LocalServices, 'clients'> {
  readonly sqs: SQSClient;
  readonly config: Config;
  readonly scorer: Scorer;
  /** Addresses for jobs, with the names of the client's options as keys. Undefined if jobs are off. */
  readonly jobs: Readonly<Record<string, string>> | undefined;
  readonly jobControl: Pick<LocalJobs, 'newest'> | undefined;
  /** Starts an event source mapping for each shard. */
  startMapping(batching: Batching): EventSourceMapping;
}

/** Minimum that AWS allows. */
export const MAXIMUM_CONCURRENCY = 2;

/** @throws Error if the port is taken, a setting is wrong, or a model is missing or broken */
export async function startLocalStack(options: LocalStackOptions): Promise<LocalStack> {
  const services = await startLocalServices(options);
  try {
    return await withFunction(services, options);
  } catch (error) {
    await services.stop();
    throw error;
  }
}

async function withFunction(services: LocalServices, options: LocalStackOptions): Promise<LocalStack> {
  const { clients, queues, ...places } = services;
  const { environment, telemetry, warn, warnOfModels = warn, through, announce = async () => {} } = options;
  const config = loadConfig(environmentOf(services, options));
  const composition = await compose(config, {
    clients,
    telemetry,
    warn: warnOfModels,
    announce,
    leavesOutBroken: true,
  });
  const { scorer, scoring } = composition;
  let jobs: LocalJobs | undefined;
  try {
    const given = { s3: clients.s3(), ...queues, scorer, telemetry, config, environment, announce, say: warn };
    jobs = options.jobs === true ? await startLocalJobs(given) : undefined;
  } catch (error) {
    await scorer.close();
    throw error;
  }
  // The wrapper applies only to messages, because jobs write elsewhere.
  const writer = through?.(scoring.writer) ?? scoring.writer;
  const handler = createHandler({ ...composition, scoring: { ...scoring, writer } });
  return {
    ...places,
    queues,
    sqs: clients.sqs,
    config,
    scorer,
    jobs: jobs?.whereabouts,
    jobControl: jobs,
    startMapping({ maximumConcurrency = MAXIMUM_CONCURRENCY, ...batching }) {
      const mappings = queues.requestQueues.map((queue) =>
        startEventSourceMapping({
          ...batching,
          ...queue,
          sqs: clients.sqs,
          region: queues.region,
          maximumConcurrency,
          functionTimeoutSeconds: LOCAL_TIMEOUT_SECONDS,
          invoke: handler,
          onError: (error) => warn(error.message),
        }),
      );
      return { stop: async () => void (await Promise.all(mappings.map((mapping) => mapping.stop()))) };
    },
    async stop() {
      await jobs?.stop();
      await scorer.close();
      await services.stop();
    },
  };
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
