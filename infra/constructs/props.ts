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
   * Model repository: a folder, built into the image; the URI that `batchscore publish` printed, alone or with its
   * bucket, fetched at start; or an EFS access point, mounted by the function.
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
   * Model for requests that name none. Hosts check that it exists, and synth too if the models are in a folder.
   * @default the repository's only model
   */
  readonly defaultModel?: string;
  /**
   * Compute to run on: `lambdaCompute()`, `lambdaGpuCompute()`, `ecsCompute()` or `ecsGpuCompute()`.
   * @default lambdaCompute()
   */
  readonly compute?: ComputeForm<Created>;
  /**
   * Additional environment variables of the host, such as `NODE_OPTIONS`. For `BATCHSCORE_` variables, use `tuning`.
   * @default none
   */
  readonly environment?: Readonly<Record<string, string>>;
  /**
   * False to start without scoring: a service runs no tasks, and requests wait, at most for the retention of the queue,
   * until someone enables the event source mapping.
   * @default true
   */
  readonly eventSourceEnabled?: boolean;

  /**
   * Maximum records in one batch, 1 to 10,000; with a function 1 to 10 on a FIFO queue or without a window.
   * @default 100; FIFO 10
   */
  readonly batchSize?: number;
  /**
   * Maximum wait for a batch to fill, whole seconds, 0 to 300. A function has none on a FIFO queue. Workers accept
   * fractions of a second.
   * @default 1 second; FIFO 0
   */
  readonly window?: Duration;
  /**
   * Age of a waiting message at which an alarm goes off, whole seconds, longer than the window and shorter than the
   * retention of the queue.
   * @default window + timeout, and the time to start if compute scales to zero
   */
  readonly latencyTarget?: Duration;

  /** True if the queues are FIFO queues. @default the kind of the given request queue, else false */
  readonly fifo?: boolean;
  /** Existing request queue. @default a new one, with a dead-letter queue */
  readonly requestQueue?: ExistingQueue;
  /**
   * Number of new request queues: 1 to 10 with a function, 1 to 4 with a service. Each has its own event source mapping
   * and quota of messages in flight. Clients spread messages over all of them.
   * @default 1
   */
  readonly shards?: number;
  /**
   * True to have another queue, for urgent requests, which are scored before others and do not wait for the window. A
   * function then needs `maximumConcurrency`, `reservedConcurrency` or pollers, so that others never take all
   * invocations.
   * @default false
   */
  readonly urgent?: boolean;
  /**
   * Additional options of the new request queues, such as `queueName`, which requires a single queue, and
   * `retentionPeriod`, four days by default.
   * @default the CDK's own
   */
  readonly queueProps?: MoreQueueProps & Pick<QueueProps, 'retentionPeriod'>;
  /** Additional options of the new dead-letter queue. @default the CDK's own */
  readonly deadLetterQueueProps?: MoreQueueProps;
  /**
   * Receives after which a message goes to the dead letters, 3 to 1,000. Throttles and timeouts count. For an imported
   * queue, give the value of its redrive policy.
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
   * Age at which objects of the new payload bucket are deleted, whole days, up to 3,650. They must outlast the messages
   * and results that point to them: at least 14 days, 18 with FIFO queues, and at least `resultTtl`.
   * @default 30 days
   */
  readonly payloadExpiry?: Duration;
  /** Stores a share of the messages with their answers as samples. @default none */
  readonly capture?: CaptureOptions;
  /**
   * Prefix of keys in existing buckets, such as `fraud/`, before `requests/`, `results/` and `captured/`. Permissions
   * cover only these. Deployments that share a bucket need different prefixes.
   * @default `batchscore/<account>/<region>/<service name>/`
   */
  readonly keyPrefix?: string;

  /**
   * Scores files in S3 too, with separate functions and concurrency, from the image of `lambdaCompute`. `{}` has all
   * defaults.
   * @default no jobs
   */
  readonly jobs?: JobOptions;

  /**
   * EventBridge bus, or standard SNS topic, that gets an event for each job that ends and each dead letter.
   * @default none
   */
  readonly jobEvents?: IEventBus | ITopic;

  /**
   * Your own KMS key for new queues, buckets, table, logs and environment. Import existing resources with their key.
   * @default keys that each service manages
   */
  readonly encryptionKey?: IKey;
  /**
   * Policy for table, buckets, logs, result queues and the dead-letter queue. Request queues go with the stack, but
   * stay if they are replaced, unless this is `DESTROY`.
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
  /** Percent of the messages, 0 to 100, with fractions. Message IDs decide, equally on all hosts. */
  readonly percent: number;
  /** Existing bucket. @default a new one, encrypted like the others */
  readonly bucket?: IBucket;
  /** Age at which objects of the new bucket are deleted, whole days, 1 to 3,650. @default 30 days */
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
  /** Maximum elements in all inputs of one run, including padding. @default 4194304, and 67108864 with a GPU */
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
  /** Visibility timeout of the queue, which is compared with the compute's timeout. */
  readonly visibilityTimeout: Duration;
  /**
   * Dead-letter queue that its redrive policy names.
   * @default that of the queue's own construct, if this app creates it
   */
  readonly deadLetterQueue?: IQueue;
}

/** Kind of store that results can go to. */
export type ResultStore = Store;
