import type { IAlarm } from 'aws-cdk-lib/aws-cloudwatch';
import type { Connections, IVpc } from 'aws-cdk-lib/aws-ec2';
import type { IEventBus } from 'aws-cdk-lib/aws-events';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import type { Alias, DockerImageFunction, EventSourceMapping } from 'aws-cdk-lib/aws-lambda';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import { Tokenization } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import type { LogLevel, MappingSettings } from '../../lambda/core/limits.ts';
import { SETTINGS } from '../../lambda/settings.ts';
import type { Keeping, Queues } from '../common/created.ts';
import type { AlarmCondition, Graph } from '../common/metrics.ts';
import type { ModelPlace } from '../common/models.ts';
import type { Problem } from '../common/problems.ts';
import type { ContainerImage, ImageTarget } from '../image/containerImage.ts';

/**
 * Kind of compute that scores records. It states its requirements before any resource is created.
 *
 * @typeParam Created type of the created compute, which is then the type of `BatchScoring.compute`
 */
export interface ComputeForm<Created extends Compute = Compute> {
  /** Name in messages and in resource IDs. */
  readonly kind: string;
  readonly imageTarget: ImageTarget;
  /**
   * Receiver of records: an event source mapping, which invokes a function with them, or a `worker`, which receives and
   * batches them itself. The limits of mappings do not apply to workers.
   * @default 'mapping'
   */
  readonly feed?: 'mapping' | 'worker';
  /** Maximum seconds for one invocation, or for one batch of a worker. */
  readonly timeoutSeconds: number;
  /** Seconds from the first record to its scoring, if compute scales to zero. @default 0 */
  readonly wakeSeconds?: number;
  /** Percent of the invocations that a new version gets first. @default 100: it takes over immediately */
  readonly firstStepPercent?: number;
  /** True if its function is attached to a network, which is necessary to mount a file system. @default false */
  readonly hasNetwork?: boolean;
  /**
   * MiB of the function's `/tmp`. The function that scores jobs gets the same, because it fetches the same models.
   * @default 512, which is Lambda's own
   */
  readonly ephemeralStorageMb?: number;
  /** Returns problems with its options, by themselves and with this batching. */
  problems(batching: Batching): Problem[];
  /**
   * Returns the recommended visibility timeout in seconds, and its calculation as text. If the queue's is shorter, a
   * function gets a warning, or an error below its own timeout, and a worker gets an error.
   */
  minVisibility(batching: Batching): { readonly seconds: number; readonly sum: string };
  create(scope: Construct, wiring: Wiring): Created;
}

/** Resources and settings that the computes of a deployment share. */
export interface Wiring extends Keeping {
  /** Compute that scores messages. Functions that score jobs have its image and its room for models. */
  readonly compute: ComputeForm;
  readonly serviceName: string;
  readonly image: ContainerImage;
  /** Location of the models. Models in a file system are mounted. */
  readonly models: ModelPlace;
  readonly batching: Batching;
  /** All queues that requests come from. That of urgent requests is the last one. */
  readonly requestQueues: Queues;
  readonly visibilityTimeoutSeconds: number;
  /** True if records are taken from the queue as soon as the stack is deployed. */
  readonly eventSourceEnabled: boolean;
  /** Environment of the host: its `BATCHSCORE_…` variables, and those that the deployer adds. */
  readonly environment: Readonly<Record<string, string>>;
  readonly logLevel: LogLevel | undefined;
  readonly tracing: boolean;
  /** Bus or topic that gets events of jobs and dead letters. */
  readonly events: IEventBus | ITopic | undefined;
}

export interface Compute extends IGrantable {
  readonly alarms: readonly AlarmCondition[];
  readonly graphs: readonly Graph[];
  /** Network connections, to allow access to what a transform needs. @default it is in no network */
  readonly connections?: Connections | undefined;
  /** Network that it is in. @default none */
  readonly vpc?: IVpc | undefined;
  /** Makes new versions take over in steps. An alarm rolls them back. @default they take over immediately */
  readonly shiftInSteps?: ((alarms: readonly IAlarm[]) => void) | undefined;
  /** Lets a user stop and start the processing of records. @default nobody can be allowed to */
  grantSwitch?(grantee: IGrantable): Grant;
}

export interface FunctionCompute extends Compute {
  readonly function: DockerImageFunction;
  /** Alias that the mappings invoke. Undefined if they invoke the function itself. */
  readonly alias: Alias | undefined;
  readonly eventSourceMappings: readonly EventSourceMapping[];
}

/** Batching settings. Mapping, visibility timeout and environment all derive from them. */
export interface Batching extends MappingSettings {
  /** Number of request queues. Each has its own mapping. */
  readonly shards: number;
  /** True if there is another queue, for urgent requests. */
  readonly urgent: boolean;
}

/** Returns the number of all queues that requests come from. */
export function queueCount({ shards, urgent }: Batching): number {
  return shards + Number(urgent);
}

/** Returns the environment variables of the settings that are given, by their names in the catalogue. */
export function environmentOf(values: Readonly<Record<string, unknown>>): Record<string, string> {
  // The environment does not take a token that is a number.
  const textOf = (value: unknown) => (typeof value === 'number' ? Tokenization.stringifyNumber(value) : String(value));
  const given = Object.entries(SETTINGS).filter(([name]) => values[name] !== undefined);
  return Object.fromEntries(given.map(([name, { variable }]) => [variable, textOf(values[name])]));
}
