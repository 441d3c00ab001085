import type { IAlarm } from 'aws-cdk-lib/aws-cloudwatch';
import type { Connections, IVpc } from 'aws-cdk-lib/aws-ec2';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { Alias, DockerImageFunction, EventSourceMapping } from 'aws-cdk-lib/aws-lambda';
import type { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { type RemovalPolicy, Tokenization } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import type { LogLevel, MappingSettings } from '../../lambda/core/limits.ts';
import { SETTINGS } from '../../lambda/settings.ts';

import type { Queues } from '../common/created.ts';
import type { AlarmCondition, Graph } from '../common/metrics.ts';
import type { ModelPlace } from '../common/models.ts';
import type { Problem } from '../common/problems.ts';
import type { ContainerImage, ImageTarget } from '../image/containerImage.ts';

/**
 * Where records are scored: one implementation for each kind. It says what it needs before anything is created.
 *
 * @typeParam Created what it creates, which `BatchScoring.compute` is then
 */
export interface ComputeForm<Created extends Compute = Compute> {
  /** Name in messages and in the IDs of its resources. */
  readonly kind: string;
  /** What the image must be built for. */
  readonly imageTarget: ImageTarget;
  /** ONNX Runtime execution providers, first choice first. @default the runtime's own default, `cpu` */
  readonly providers?: string;
  /**
   * What takes records from the queue: an event source mapping, which hands them to a function, or a `worker`, which receives
   * and gathers them itself. The limits of mappings hold for the former alone. @default 'mapping'
   */
  readonly feed?: 'mapping' | 'worker';
  /** Seconds that one invocation, or one batch of a worker, may take. */
  readonly timeoutSeconds: number;
  /** Seconds until the first records are scored where nothing runs while there are none. @default 0 */
  readonly wakeSeconds?: number;
  /** Percent of the invocations that a new version gets first. @default 100: it takes over at once */
  readonly firstStepPercent?: number;
  /** True if its function is attached to a network, as it must be to mount a file system. @default false */
  readonly hasNetwork?: boolean;
  /** Of its function's `/tmp`, in MiB, which the function that scores jobs is given too: it fetches the same models. @default 512, which is Lambda's own */
  readonly ephemeralStorageMb?: number;
  /** What is wrong with its options, alone and with this batching. */
  problems(batching: Batching): Problem[];
  /**
   * Seconds that a received message should stay hidden, and the sum that explains them. A function with a shorter queue is
   * warned of, unless its timeout is longer still; a worker is refused.
   */
  minVisibility(batching: Batching): { readonly seconds: number; readonly sum: string };
  create(scope: Construct, wiring: Wiring): Created;
}

/** What the compute is connected to. */
export interface Wiring {
  readonly image: ContainerImage;
  /** Where the models are: those in a file system are mounted. */
  readonly models: ModelPlace;
  readonly batching: Batching;
  readonly requestQueues: Queues;
  /** How long a received message stays hidden from others. */
  readonly visibilityTimeoutSeconds: number;
  /** True if records are taken from the queue as soon as the stack is deployed. */
  readonly eventSourceEnabled: boolean;
  /** The `BATCHSCORE_…` variables that the host reads, and those that the deployer adds. */
  readonly environment: Readonly<Record<string, string>>;
  readonly encryptionKey: IKey | undefined;
  readonly logRetention: RetentionDays;
  readonly logLevel: LogLevel | undefined;
  readonly tracing: boolean;
  readonly removalPolicy: RemovalPolicy;
}

/** The compute, once created. */
export interface Compute extends IGrantable {
  readonly alarms: readonly AlarmCondition[];
  readonly graphs: readonly Graph[];
  /** True if its hosts have metrics of their GPUs. @default false */
  readonly measuresGpus?: boolean;
  /** Its network connections, to allow it to reach what a transform needs. @default it is in no network */
  readonly connections?: Connections | undefined;
  /** The network that it is in. @default none */
  readonly vpc?: IVpc | undefined;
  /** Has new versions take over in steps, undone when one of the alarms goes off. @default they take over at once */
  readonly shiftInSteps?: ((alarms: readonly IAlarm[]) => void) | undefined;
  /** Lets someone stop it taking records from the queue, and start it again. @default nobody can be allowed to */
  grantSwitch?(grantee: IGrantable): Grant;
}

/** Compute that is a Lambda function. */
export interface FunctionCompute extends Compute {
  readonly function: DockerImageFunction;
  /** What the mappings invoke; undefined if that is the function itself. */
  readonly alias: Alias | undefined;
  /** What feeds it from the request queue. */
  readonly eventSourceMappings: readonly EventSourceMapping[];
}

/** How SQS hands records over, stated once: mapping, visibility timeout and environment derive from it. */
export interface Batching extends MappingSettings {
  /** Request queues, each with its mapping. */
  readonly shards: number;
}

/** A FIFO queue hands over at most ten records and has no window. */
const DEFAULTS = { standard: { batchSize: 100, windowSeconds: 1 }, fifo: { batchSize: 10, windowSeconds: 0 } };

/** The settings that were given, and the defaults of the queue's kind for the others. */
export function withDefaults(given: Partial<Batching>): Batching {
  const { fifo = false, shards = 1 } = given;
  const { batchSize, windowSeconds } = fifo ? DEFAULTS.fifo : DEFAULTS.standard;
  return {
    fifo,
    shards,
    batchSize: given.batchSize ?? batchSize,
    windowSeconds: given.windowSeconds ?? windowSeconds,
  };
}

/** The environment variables of the settings that are given, by their names in the catalogue. */
export function environmentOf(values: Readonly<Record<string, unknown>>): Record<string, string> {
  const given = Object.entries(SETTINGS).filter(([name]) => values[name] !== undefined);
  return Object.fromEntries(given.map(([name, { variable }]) => [variable, textOf(values[name])]));
}

/** A number that is produced late would stay one, which the environment does not take. */
function textOf(value: unknown): string {
  return typeof value === 'number' ? Tokenization.stringifyNumber(value) : String(value);
}
