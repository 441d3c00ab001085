import type { IAlarmAction } from 'aws-cdk-lib/aws-cloudwatch';
import type { IEventBus } from 'aws-cdk-lib/aws-events';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import type { IQueue, QueueProps } from 'aws-cdk-lib/aws-sqs';
import type { Duration, RemovalPolicy, Size } from 'aws-cdk-lib/core';
import type { LogLevel, Store } from '../../lambda/core/limits.ts';
import type { Models } from '../common/models.ts';
import type { Compute, ComputeForm, FunctionCompute } from '../compute/compute.ts';
import type { ContainerImage, ImageBuild } from '../image/containerImage.ts';
import type { JobOptions } from '../jobs/jobOptions.ts';
import type { AlarmThresholds } from '../monitoring/alarms.ts';
import type { BucketStoreProps } from '../stores/bucketStore.ts';
import type { QueueStoreProps } from '../stores/queueStore.ts';
import type { ResultStores } from '../stores/resultStore.ts';
import type { TableStoreProps } from '../stores/tableStore.ts';

/**
 * Everything that a deployment can be told; each prop has a default, but models or an image are needed. Each store has its
 * own props besides.
 *
 * @typeParam Created what the compute creates
 */
export interface BatchScoringProps<Created extends Compute = FunctionCompute>
  extends QueueStoreProps,
    TableStoreProps,
    BucketStoreProps {
  /**
   * The model repository: a folder with `<name>/<version>/model.onnx`, which is built into the image; one in S3, which
   * hosts fetch when they start, as the URI that `batchscore publish` printed, or that and its bucket; or one in a file
   * system, as an EFS access point, which the function mounts.
   * @default none, if an `image` with models is given
   */
  readonly models?: Models;
  /** Your own image, with the runtime, and with the models if they lie nowhere else. @default one that is built */
  readonly image?: ContainerImage;
  /** What the image is built from besides `models`, such as a base named by its digest. @default see `ImageBuild` */
  readonly imageBuild?: ImageBuild;
  /** The model for requests that name none; outside the image it is not looked for before hosts start. @default the repository's only model */
  readonly defaultModel?: string;
  /** Where it runs: `lambdaCompute()`, `lambdaGpuCompute()`, `ecsCompute()`, or `ecsGpuCompute()`. @default lambdaCompute() */
  readonly compute?: ComputeForm<Created>;
  /**
   * More variables of the host's environment, such as `NODE_OPTIONS`. None begins with `BATCHSCORE_`: `tuning` sets those.
   * @default none
   */
  readonly environment?: Readonly<Record<string, string>>;
  /**
   * Whether requests are scored as soon as the stack is deployed. `false`: they wait until someone switches the event
   * source mapping on; a service runs no task. @default true
   */
  readonly eventSourceEnabled?: boolean;

  /**
   * Most records in one invocation, 1 to 10,000; FIFO to 10. Above 10 it needs a window. Or in one batch of a worker, 1 to
   * 10,000. @default 100; FIFO 10
   */
  readonly batchSize?: number;
  /**
   * Longest wait for a batch to fill, whole seconds, 0 to 300; on a FIFO queue 0. A worker takes fractions too, on any
   * queue. @default 1 second; FIFO 0
   */
  readonly window?: Duration;
  /** The largest message sent inline; a warning says when full batches of it exceed 6 MB, or 32 MiB of a worker. @default none */
  readonly largestMessage?: Size;
  /** The time in which a message should be answered, in whole seconds; an alarm goes off beyond it; longer than the window. @default window + timeout, and what waking takes where nothing always runs */
  readonly latencyTarget?: Duration;

  /** Whether the queues are FIFO queues. @default that of the given request queue, else false */
  readonly fifo?: boolean;
  /** An existing request queue. @default a new one, with a dead-letter queue */
  readonly requestQueue?: ExistingQueue;
  /**
   * New request queues behind one function, 1 to 10, or one service, 1 to 4, with one dead-letter queue: each has its own event source mapping and
   * its own quota of messages in flight. Clients spread over all of them. @default 1
   */
  readonly shards?: number;
  /** More of the new request queues that no guarantee depends on; a name goes with one queue alone. @default the CDK's own */
  readonly queueProps?: MoreQueueProps;
  /** More of the new dead-letter queue. @default the CDK's own */
  readonly deadLetterQueueProps?: MoreQueueProps;
  /**
   * Receives after which a message goes to the dead letters, 3 to 1,000. Of an imported queue, say what its redrive policy
   * has. @default 20
   */
  readonly maxReceiveCount?: number;

  /** Where results go, each once. @default ['queue'] */
  readonly results?: readonly ResultStore[];
  /** Existing stores; the table's partition key must be the string `messageId`. @default new ones */
  readonly stores?: ResultStores;
  /** An existing bucket for bodies and results that are too large for SQS or the table. @default a new one */
  readonly payloadBucket?: IBucket;
  /**
   * After which an object of the new payload bucket is deleted, whole days, up to 3,650. Messages and results must not
   * outlast what they point to: 14 days at least, 18 with FIFO queues, and as long as `resultTtl`.
   * @default 30 days
   */
  readonly payloadExpiry?: Duration;
  /** Keeps a share of the messages with their answers, to look at what comes. @default none is kept */
  readonly capture?: CaptureOptions;
  /**
   * What keys begin with in existing buckets, such as `fraud/`: `requests/`, `results/` and `captured/` follow, and nothing else in
   * them can be read or written. Deployments that share a bucket need different ones.
   * @default `batchscore/<account>/<region>/<service name>/`
   */
  readonly keyPrefix?: string;

  /**
   * Scores whole files of S3, besides messages, with functions and concurrency of their own: `{}` takes every default.
   * It needs the image of `lambdaCompute`. @default no jobs
   */
  readonly jobs?: JobOptions;

  /**
   * Gets an event, as JSON, for each job that ends and each message that goes to the dead letters: an EventBridge bus, or a
   * standard SNS topic. @default none
   */
  readonly jobEvents?: IEventBus | ITopic;

  /**
   * Your own key for queues, buckets, table, logs and environment. Existing ones whose key the CDK does not know are taken
   * to have it too. @default keys that each service manages
   */
  readonly encryptionKey?: IKey;
  /**
   * What `encryptionKey` was before it was changed or left out. What was encrypted with it until then can still be read,
   * by the function and by consumers, as long as it is given here. @default none
   */
  readonly formerEncryptionKey?: IKey;
  /**
   * What becomes of table, buckets, logs and the queues of results and dead letters when the stack no longer has them.
   * @default RemovalPolicy.RETAIN
   */
  readonly removalPolicy?: RemovalPolicy;
  /** Days that logs are kept. @default RetentionDays.ONE_MONTH */
  readonly logRetention?: RetentionDays;
  /**
   * How much the function logs: with `debug` also a line for each micro-batch and each call to AWS, which are many.
   * @default that of the function's logging configuration, 'info'
   */
  readonly logLevel?: LogLevel;
  /** Whether X-Ray traces invocations, with the stages as subsegments. @default false */
  readonly tracing?: boolean;

  /** What alarms do, such as `new SnsAction(topic)`; the key of an encrypted topic must let CloudWatch use it. @default they only change state */
  readonly alarmActions?: readonly IAlarmAction[];
  /** What alarms do when they are over. @default the `alarmActions` */
  readonly okActions?: readonly IAlarmAction[];
  /** When alarms go off. @default 5 % of the records retried, 50 % of the requests in error, 80 % of the quota in flight */
  readonly alarmThresholds?: Partial<AlarmThresholds>;
  /** Whether there is a dashboard. @default true */
  readonly dashboard?: boolean;
  /** Settings of the scoring itself. @default the runtime's */
  readonly tuning?: Tuning;
}

/** Messages that are kept as samples, whatever their bodies hold. */
export interface CaptureOptions {
  /** Of the messages, 0 to 100, fractions too: chosen by their IDs, the same on every host. */
  readonly percent: number;
  /** An existing bucket. @default a new one, encrypted as the others are */
  readonly bucket?: IBucket;
  /** After which an object of the new bucket is deleted, whole days, 1 to 3,650. @default 30 days */
  readonly expiry?: Duration;
}

/** What of a queue no guarantee depends on. */
export type MoreQueueProps = Pick<QueueProps, (typeof FREE_OF_QUEUE)[number]>;
export const FREE_OF_QUEUE = [
  'queueName',
  'deliveryDelay',
  'receiveMessageWaitTime',
  'redriveAllowPolicy',
  'removalPolicy',
] as const;

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
  /**
   * Time before the deadline that is kept free: no run is started that is expected to end in it, and what still runs when
   * half of it is left is given up. Whole milliseconds. @default 1 second
   */
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

/** A queue that exists already. */
export interface ExistingQueue {
  /** The queue, standard or FIFO. */
  readonly queue: IQueue;
  /** Its visibility timeout, which the CDK does not know of an imported queue; it is checked against the compute's timeout. */
  readonly visibilityTimeout: Duration;
  /** Where its redrive policy sends messages. @default that of the queue's own construct, if this app creates it */
  readonly deadLetterQueue?: IQueue;
}

/** A kind of store that results can go to. */
export type ResultStore = Store;
