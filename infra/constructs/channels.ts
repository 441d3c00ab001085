import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import { CfnQueue, type IQueue, QueueGrants } from 'aws-cdk-lib/aws-sqs';
import { CfnDeletionPolicy, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { capturedKeys, requestKeys, resultKeys } from '../../lambda/core/places.ts';
import { createBucket, createQueue, type Queues, resourceOf } from '../common/created.ts';
import { deadLettersOf } from '../common/given.ts';
import { combine, grantPut, grantRead } from '../common/grants.ts';
import type { CreatedStore } from '../stores/resultStore.ts';
import type { DeploymentPlan } from './plan.ts';

/** Queues, stores and buckets of a deployment. Creates those that are not given. */
export class Channels {
  readonly requestQueues: Queues;
  readonly urgentQueue: IQueue | undefined;
  /** Request queues, with the urgent one last. */
  readonly allQueues: Queues;
  readonly deadLetterQueue: IQueue | undefined;
  readonly stores: readonly CreatedStore[];
  /** Each deployment has one, because a result may be too large for its store. */
  readonly payloadBucket: IBucket;
  readonly captureBucket: IBucket | undefined;
  /** Client library's options for this deployment, by name, which are also the names in the file for `--stack`. */
  readonly clientOptions: Readonly<Record<string, string>>;
  /** Settings of the host, by their names in the catalogue. */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly #payloadPrefix: string;
  readonly #capturePrefix: string;

  constructor(scope: Construct, plan: DeploymentPlan) {
    const { props, capture, results } = plan;
    const { keyPrefix = uniquePrefix(scope, plan.serviceName), requestQueue } = props;
    const { requestQueues, urgentQueue, deadLetterQueue } =
      requestQueue === undefined
        ? createRequestQueues(scope, plan)
        : {
            requestQueues: [requestQueue.queue] as const,
            urgentQueue: undefined,
            deadLetterQueue: deadLettersOf(requestQueue),
          };
    this.requestQueues = requestQueues;
    this.urgentQueue = urgentQueue;
    this.allQueues = urgentQueue === undefined ? requestQueues : [...requestQueues, urgentQueue];
    this.deadLetterQueue = deadLetterQueue;
    this.stores = plan.stores
      .filter(({ name }) => results.includes(name))
      .map((store) => store.create(scope, { ...plan, keyPrefix }));
    this.payloadBucket = props.payloadBucket ?? createBucket(scope, 'PayloadBucket', plan, plan.payloadExpiryDays);
    this.#payloadPrefix = props.payloadBucket === undefined ? '' : keyPrefix;
    this.captureBucket = capture && (capture.bucket ?? createBucket(scope, 'CaptureBucket', plan, capture.expiryDays));
    this.#capturePrefix = capture?.bucket === undefined ? '' : keyPrefix;
    const requestQueueUrl = requestQueues.map(({ queueUrl }) => queueUrl).join(',');
    this.clientOptions = {
      requestQueueUrl,
      ...(urgentQueue !== undefined && { urgentQueueUrl: urgentQueue.queueUrl }),
      ...(deadLetterQueue !== undefined && { deadLetterQueueUrl: deadLetterQueue.queueUrl }),
      ...Object.assign({}, ...this.stores.map(({ clientOptions }) => clientOptions)),
      payloadBucket: this.payloadBucket.bucketName,
      ...(this.#payloadPrefix !== '' && { payloadPrefix: this.#payloadPrefix }),
      region: Stack.of(scope).region,
    };
    this.settings = {
      ...this.clientOptions,
      ...Object.assign({}, ...this.stores.map(({ settings }) => settings)),
      requestQueueUrls: requestQueueUrl,
      results: results.join(','),
      maxReceiveCount: deadLetterQueue && plan.maxReceiveCount,
      capturePercent: capture?.percent,
      captureBucket: this.captureBucket?.bucketName,
      capturePrefix: this.#capturePrefix || undefined,
    };
  }

  /** Grants the permissions for scoring: take requests, delay them, read their payloads, write results and samples. */
  grantScoring(grantee: IGrantable): void {
    for (const queue of this.allQueues) QueueGrants.fromQueue(queue).consumeMessages(grantee);
    grantRead(grantee, this.payloadBucket, requestKeys(this.#payloadPrefix));
    grantPut(grantee, this.payloadBucket, resultKeys(this.#payloadPrefix));
    for (const store of this.stores) store.grantWrite(grantee);
    if (this.captureBucket !== undefined) grantPut(grantee, this.captureBucket, capturedKeys(this.#capturePrefix));
  }

  /** Grants the permissions of a producer: send requests, and upload those that are too large to send. */
  grantSubmit(grantee: IGrantable): Grant {
    return combine([
      ...this.allQueues.map((queue) => QueueGrants.fromQueue(queue).sendMessages(grantee)),
      grantPut(grantee, this.payloadBucket, requestKeys(this.#payloadPrefix)),
    ]);
  }

  /** Grants the permissions of a consumer: take results from all stores, and read those that are too large for one. */
  grantCollect(grantee: IGrantable): Grant {
    return combine([
      grantRead(grantee, this.payloadBucket, resultKeys(this.#payloadPrefix)),
      ...this.stores.map((store) => store.grantCollect(grantee)),
    ]);
  }

  /** Grants the permissions of an operator: read dead letters, send them back, empty the queues. */
  grantRepair(grantee: IGrantable): Grant {
    const { allQueues, deadLetterQueue } = this;
    const on = (queue: IQueue, actions: string[]): Grant =>
      Grant.addToPrincipalOrResource({ grantee, actions, resourceArns: [queue.queueArn], resource: queue });
    if (deadLetterQueue === undefined) return combine(allQueues.map((queue) => on(queue, EMPTY)));
    deadLetterQueue.encryptionMasterKey?.grantDecrypt(grantee);
    for (const queue of allQueues) queue.encryptionMasterKey?.grant(grantee, 'kms:Decrypt', 'kms:GenerateDataKey');
    return combine([
      ...allQueues.map((queue) => on(queue, [...EMPTY, 'sqs:SendMessage'])),
      on(deadLetterQueue, [...EMPTY, ...REDRIVE]),
    ]);
  }
}

/** Actions that count and purge waiting messages. */
const EMPTY = ['sqs:GetQueueAttributes', 'sqs:GetQueueUrl', 'sqs:PurgeQueue'];

/**
 * Actions that read dead letters, make them visible again immediately, and send them back.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html
 */
const REDRIVE = [
  'sqs:StartMessageMoveTask',
  'sqs:ListMessageMoveTasks',
  'sqs:CancelMessageMoveTask',
  'sqs:ReceiveMessage',
  'sqs:DeleteMessage',
  'sqs:ChangeMessageVisibility',
];

/** Returns a key prefix that no other deployment has. The service name is unique only in its account and region. */
function uniquePrefix(scope: Construct, serviceName: string): string {
  const { account, region } = Stack.of(scope);
  return `batchscore/${account}/${region}/${serviceName}/`;
}

/** Retention of new dead letters, the maximum of SQS. On a standard queue it counts from the first send. */
const DEAD_LETTERS = Duration.days(14);

function createRequestQueues(scope: Construct, plan: DeploymentPlan) {
  const { batching, encryptionKey, removalPolicy, maxReceiveCount, visibilityTimeoutSeconds, retentionSeconds } = plan;
  const { queueProps, deadLetterQueueProps } = plan.props;
  const { fifo, shards, urgent } = batching;
  const dead: IQueue = createQueue(scope, 'DeadLetters', {
    ...deadLetterQueueProps,
    fifo,
    encryptionKey,
    retentionPeriod: DEAD_LETTERS,
    removalPolicy: deadLetterQueueProps?.removalPolicy ?? removalPolicy,
  });
  const isKept = queueProps?.removalPolicy === undefined && removalPolicy !== RemovalPolicy.DESTROY;
  const create = (id: string): IQueue => {
    const queue = createQueue(scope, id, {
      ...queueProps,
      fifo,
      encryptionKey,
      visibilityTimeout: Duration.seconds(visibilityTimeoutSeconds),
      retentionPeriod: retentionSeconds === undefined ? undefined : Duration.seconds(retentionSeconds),
      deadLetterQueue: { queue: dead, maxReceiveCount },
    });
    // A queue goes with its stack, but a new name or kind must not delete the requests that wait.
    if (isKept) resourceOf(queue, CfnQueue).cfnOptions.updateReplacePolicy = CfnDeletionPolicy.RETAIN;
    return queue;
  };
  // The first queue has the same ID with one shard and with several, so adding shards keeps the queue and its messages.
  const first = create('Requests');
  const others = Array.from({ length: shards - 1 }, (_, index) => create(`Requests${index + 2}`));
  const urgentQueue = urgent ? create('UrgentRequests') : undefined;
  return { requestQueues: [first, ...others] as const, urgentQueue, deadLetterQueue: dead };
}
