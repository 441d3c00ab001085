import { CONFIG_KEYS, CONFIG_PREFIX, JOB_CONFIG_KEYS } from '../../../lambda/configKeys.ts';
import { JOB_RANGES } from '../../../lambda/core/limits.ts';
import type { JobSettings } from './options.ts';

const MIB = 1024 * 1024;

/** Of the host's variables those that say where models are, how they run, and what is logged: jobs have no queues. */
const OF_SCORING: readonly string[] = [
  CONFIG_KEYS.modelsDirectory,
  CONFIG_KEYS.modelsUri,
  CONFIG_KEYS.defaultModel,
  CONFIG_KEYS.preload,
  CONFIG_KEYS.providers,
  CONFIG_KEYS.allowProviderFallback,
  CONFIG_KEYS.maxBatchRows,
  CONFIG_KEYS.maxBatchElements,
  CONFIG_KEYS.maxRequestRows,
  CONFIG_KEYS.maxRequestsPerMessage,
  CONFIG_KEYS.maxAnswerCharacters,
  CONFIG_KEYS.maxPayloadBytes,
  CONFIG_KEYS.checkPercent,
  CONFIG_KEYS.logLevel,
];

type Variables = Readonly<Record<string, string>>;

/** The service's name for jobs: their rows and errors are not those of messages, whose alarms and cost go by them. */
export function jobServiceName(serviceName: string): string {
  return `${serviceName}-jobs`;
}

/** The environment of the function that plans and scores. @param host that of the function that scores messages */
export function scoreEnvironment(host: Variables, serviceName: string, { partMb }: JobSettings): Variables {
  return {
    ...only(OF_SCORING, host),
    [CONFIG_KEYS.serviceName]: jobServiceName(serviceName),
    [JOB_CONFIG_KEYS.jobsPartBytes]: String(partMb * MIB),
    [JOB_CONFIG_KEYS.jobsPieceBytes]: String(JOB_RANGES.pieceBytes.default),
  };
}

/** The environment of the function that starts and ends jobs. */
export function controlEnvironment(
  host: Variables,
  serviceName: string,
  { inputPrefix, outputPrefix, concurrency }: JobSettings,
  { bucketName, stateMachineArn }: { readonly bucketName: string; readonly stateMachineArn: string },
): Variables {
  return {
    ...only([CONFIG_KEYS.logLevel], host),
    [CONFIG_KEYS.serviceName]: jobServiceName(serviceName),
    [JOB_CONFIG_KEYS.jobsBucket]: bucketName,
    [JOB_CONFIG_KEYS.jobsInputPrefix]: inputPrefix,
    [JOB_CONFIG_KEYS.jobsOutputPrefix]: outputPrefix,
    [JOB_CONFIG_KEYS.jobsStateMachine]: stateMachineArn,
    [JOB_CONFIG_KEYS.jobsConcurrency]: String(concurrency),
  };
}

/** Of the host's variables these keys, and those that the deployer adds. */
function only(keys: readonly string[], host: Variables): Variables {
  return Object.fromEntries(
    Object.entries(host).filter(([key]) => keys.includes(key) || !key.startsWith(CONFIG_PREFIX)),
  );
}
