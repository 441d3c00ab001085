import type { IAlarmAction } from 'aws-cdk-lib/aws-cloudwatch';
import type { IEventBus } from 'aws-cdk-lib/aws-events';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import type { IQueue, QueueProps } from 'aws-cdk-lib/aws-sqs';
import type { Duration, RemovalPolicy, Size } from 'aws-cdk-lib/core';
import type { LogLevel } from '../../lambda/core/limits.ts';
import type { Store } from '../../lambda/settings.ts';
import type { Models } from '../common/models.ts';
import type { Compute, ComputeForm, FunctionCompute } from '../compute/compute.ts';
import type { ContainerImage, ImageBuild } from '../image/containerImage.ts';
import type { JobOptions } from '../jobs/jobOptions.ts';
import type { AlarmThresholds } from '../monitoring/alarms.ts';
import { type BucketStoreProps, type BucketStores, bucketStore } from '../stores/bucketStore.ts';
import { type QueueStoreProps, type QueueStores, queueStore } from '../stores/queueStore.ts';
import { type TableStoreProps, type TableStores, tableStore } from '../stores/tableStore.ts';

/** Plans of all result stores. */
export const STORE_PLANS = { queue: queueStore, table: tableStore, bucket: bucketStore } satisfies Record<
  Store,
  unknown
>;

/** Stores of a deployment. A store without results is undefined. */
export interface ResultStores extends QueueStores, TableStores, BucketStores {}

/**
 * Props of a deployment. All have defaults, but either `models` or an `image` is required. The result stores add their
 * own props.
 *
 * @typeParam Created type of the created compute
 */
export interface BatchScoringProps<Created extends Compute = FunctionCompute>
  extends QueueStoreProps,
    TableStoreProps,
    BucketStoreProps {
  /**
   * Model repository: a folder, which is built into the image; the URI that `batchscore publish` printed, or the URI
   * and its bucket, which hosts fetch when they start; or an EFS access point, which the function mounts.
   * @default none, if an `image` with models is given
   */
  readonly models?: Models;
  /** Your own image with the runtime, and with the models unless they are elsewhere. @default an image that is built */
  readonly image?: ContainerImage;
  /**
   * Options of the image's build, such as `buildArgs: { LAMBDA_BASE: 'public.ecr.aws/lambda/nodejs:24@sha256:…' }`.
   * @default the Dockerfile's bases
   */
  readonly imageBuild?: ImageBuild;
  /**
   * Model for requests that name none. If models are outside the image, only hosts check that it exists, when they
   * start.
   * @default the repository's only model
   */
  readonly defaultModel?: string;
  /**
   * Compute to run on: `lambdaCompute()`, `lambdaGpuCompute()`, `ecsCompute()` or `ecsGpuCompute()`.
   * @default lambdaCompute()
   */
  readonly compute?: ComputeForm<Created>;
  /**
   * Additional environment variables of the host, such as `NODE_OPTIONS`. For names that begin with `BATCHSCORE_`, use
   * `tuning`.
   * @default none
   */
  readonly environment?: Readonly<Record<string, string>>;
  /**
   * True if scoring starts as soon as the stack is deployed. If `false`, requests wait until someone enables the event
   * source mapping, at most for the queue's retention, and a service runs no tasks.
   * @default true
   */
  readonly eventSourceEnabled?: boolean;

  /**
   * Maximum records in one invocation: 1 to 10,000, or 1 to 10 on a FIFO queue. More than 10 require a window. On a
   * worker: maximum records in one batch, 1 to 10,000.
   * @default 100; FIFO 10
   */
  readonly batchSize?: number;
  /**
   * Maximum wait for a batch to fill, whole seconds, 0 to 300; on a FIFO queue 0. Workers accept fractions of a second,
   * and a window on FIFO queues.
   * @default 1 second; FIFO 0
   */
  readonly window?: Duration;
  /**
   * Time in which a message should be answered, whole seconds, longer than the window and shorter than the queue's
   * retention. An alarm goes off if messages wait longer.
   * @default window + timeout, and the time to start if compute scales to zero
   */
  readonly latencyTarget?: Duration;

  /** True if the queues are FIFO queues. @default the kind of the given request queue, else false */
  readonly fifo?: boolean;
  /** Existing request queue. @default a new one, with a dead-letter queue */
  readonly requestQueue?: ExistingQueue;
  /**
   * Number of new request queues: 1 to 10 with a function, 1 to 4 with a service. Each has its own event source mapping
   * and its own quota of messages in flight. Clients spread messages over all of them.
   * @default 1
   */
  readonly shards?: number;
  /**
   * True to have another queue, for urgent requests, which are scored before others and do not wait for the window.
   * With a function, set its `maximumConcurrency`, so that requests of the other queues never take all invocations.
   * @default false
   */
  readonly urgent?: boolean;
  /**
   * Additional options of the new request queues, such as `queueName`, which requires a single queue. SQS deletes a
   * request after the `retentionPeriod`, which is four days by default.
   * @default the CDK's own
   */
  readonly queueProps?: MoreQueueProps & Pick<QueueProps, 'retentionPeriod'>;
  /** Additional options of the new dead-letter queue. @default the CDK's own */
  readonly deadLetterQueueProps?: MoreQueueProps;
  /**
   * Receives after which a message goes to the dead letters, 3 to 1,000. Throttles and timeouts count as receives. For
   * an imported queue, give the value of its redrive policy.
   * @default 20
   */
  readonly maxReceiveCount?: number;

  /** Stores that results go to, without duplicates. @default ['queue'] */
  readonly results?: readonly ResultStore[];
  /**
   * Existing stores. The table's partition key must be the string `messageId`, and its TTL attribute `expiresAt`.
   * @default new ones
   */
  readonly stores?: ResultStores;
  /** Existing bucket for bodies and results that are too large for SQS or the table. @default a new one */
  readonly payloadBucket?: IBucket;
  /**
   * Time after which an object of the new payload bucket is deleted, whole days, up to 3,650. It must outlast
   * the messages and results that point to it: at least 14 days, 18 with FIFO queues, and at least `resultTtl`.
   * @default 30 days
   */
  readonly payloadExpiry?: Duration;
  /** Stores a share of the messages with their answers as samples. @default none */
  readonly capture?: CaptureOptions;
  /**
   * Prefix of keys in existing buckets, such as `fraud/`. The keys continue with `requests/`, `results/` and
   * `captured/`, and permissions cover only these. Deployments that share a bucket need different prefixes.
   * @default `batchscore/<account>/<region>/<service name>/`
   */
  readonly keyPrefix?: string;

  /**
   * Scores files in S3, in addition to messages, with separate functions and concurrency. Use `{}` for all defaults.
   * Jobs need the image of `lambdaCompute`.
   * @default no jobs
   */
  readonly jobs?: JobOptions;

  /**
   * EventBridge bus, or standard SNS topic, that gets a JSON event for each job that ends and each message that goes to
   * the dead letters.
   * @default none
   */
  readonly jobEvents?: IEventBus | ITopic;

  /**
   * Your own KMS key for new queues, buckets, table, logs and environment. Import existing resources with their key.
   * @default keys that each service manages
   */
  readonly encryptionKey?: IKey;
  /**
   * Policy for table, buckets, logs, result queues and the dead-letter queue when they are removed from the stack. The
   * request queues go with the stack, but stay if they are replaced, unless this is `DESTROY`.
   * @default RemovalPolicy.RETAIN
   */
  readonly removalPolicy?: RemovalPolicy;
  /** Days that logs are kept. @default RetentionDays.ONE_MONTH */
  readonly logRetention?: RetentionDays;
  /**
   * Log level of the function. `debug` adds a line for each micro-batch and each call to AWS.
   * @default the level of the function's logging configuration, 'info'
   */
  readonly logLevel?: LogLevel;
  /** True if X-Ray traces invocations and the state machine of jobs. @default false */
  readonly tracing?: boolean;

  /** Actions of alarms, such as `new SnsAction(topic)`. @default none: alarms only change state */
  readonly alarmActions?: readonly IAlarmAction[];
  /** Actions of alarms that return to OK. @default the `alarmActions` */
  readonly okActions?: readonly IAlarmAction[];
  /**
   * Thresholds of alarms.
   * @default 5 % of the records retried, 50 % of the requests in error
   */
  readonly alarmThresholds?: Partial<AlarmThresholds>;
  /** True to create a dashboard. @default true */
  readonly dashboard?: boolean;
  /** Scoring settings. @default the runtime's */
  readonly tuning?: Tuning;
}

/** Options for message samples. Samples are kept regardless of what the bodies contain. */
export interface CaptureOptions {
  /**
   * Percent of the messages, 0 to 100, with fractions. Message IDs determine the choice, so it is the same on all
   * hosts.
   */
  readonly percent: number;
  /** Existing bucket. @default a new one, encrypted like the others */
  readonly bucket?: IBucket;
  /** Time after which an object of the new bucket is deleted, whole days, 1 to 3,650. @default 30 days */
  readonly expiry?: Duration;
}

/** Queue options that no guarantee of the construct depends on. */
export type MoreQueueProps = Pick<
  QueueProps,
  'queueName' | 'deliveryDelay' | 'receiveMessageWaitTime' | 'removalPolicy'
>;

/** Scoring settings. Each is an environment variable of the host. */
export interface Tuning {
  /** Maximum rows in one run. @default 512 */
  readonly maxBatchRows?: number;
  /** Maximum elements in all inputs of one run, including padding. @default 4194304 */
  readonly maxBatchElements?: number;
  /** Maximum rows in one request. @default 10000 */
  readonly maxRequestRows?: number;
  /** Maximum requests in one packed message. @default 10000 */
  readonly maxRequestsPerMessage?: number;
  /** Maximum characters of the answer to one message. @default a 64th of the memory, in bytes */
  readonly maxAnswerCharacters?: number;
  /**
   * Reserve before the deadline, whole milliseconds. A run that is expected to end within it is not started. A run that
   * is not complete at half of it is abandoned.
   * @default 1 second
   */
  readonly deadlineMargin?: Duration;
  /**
   * Maximum age of a message, from the time that SQS took it. An older one is answered with `EXPIRED` instead of being
   * scored, up to 14 days. @default messages do not expire
   */
  readonly maxAge?: Duration;
  /**
   * Percent of a model's run time that is spent on running rows again by themselves, to compare the answers. 0 disables
   * the comparison.
   * @default 1
   */
  readonly checkPercent?: number;
  /** Maximum size of an object that is read from the payload bucket. @default a 64th of the memory */
  readonly maxPayloadSize?: Size;
  /** True if all models are loaded at start. If false, a model is loaded when a request names it. @default true */
  readonly preload?: boolean;
  /**
   * ONNX Runtime execution providers, comma-separated, in order of preference.
   * @default 'cpu', and 'cuda' with a GPU
   */
  readonly providers?: string;
  /** True if a host uses the next provider, with a warning, when it cannot load one. @default false */
  readonly allowProviderFallback?: boolean;
}

export interface ExistingQueue {
  /** Queue, standard or FIFO. */
  readonly queue: IQueue;
  /**
   * Visibility timeout of the queue, which is checked against the compute's timeout. The CDK does not know that of an
   * imported queue.
   */
  readonly visibilityTimeout: Duration;
  /**
   * Dead-letter queue that its redrive policy names.
   * @default that of the queue's own construct, if this app creates it
   */
  readonly deadLetterQueue?: IQueue;
}

/** Kind of store that results can go to. */
export type ResultStore = Store;
