import { type IQueue, QueueGrants } from 'aws-cdk-lib/aws-sqs';
import { Duration } from 'aws-cdk-lib/core';
import { SETTINGS } from '../../lambda/settings.ts';
import { createQueue } from '../common/created.ts';
import { secondsOfQueue } from '../common/given.ts';
import { combine } from '../common/grants.ts';
import { AT_MOST, oldestMessageAge } from '../common/metrics.ts';
import { acknowledge } from '../common/nag.ts';
import { outside, unknownAtSynth } from '../common/problems.ts';
import { SECONDS_A_DAY } from '../common/units.ts';
import type { StoreContext, StorePlan } from './resultStore.ts';

export interface QueueStores {
  /** Queue of the same kind as the request queue, FIFO or standard. */
  readonly resultQueue?: IQueue | undefined;
}

export interface QueueStoreProps {
  /** Names of clients, at most 9. Each gets a new result queue, in addition to the first. @default none */
  readonly clientQueues?: readonly string[];
  /** Maximum results in a message of the result queue, 1 to 10,000, of at most 64 KiB together. @default 1 */
  readonly resultsPerMessage?: number;
}

/** Maximum retention of SQS. */
const RESULT_DAYS = 14;

/** Plans a store that sends results as messages of a queue, packed or one by one. */
export function queueStore(props: QueueStoreProps, context: StoreContext<QueueStores>): StorePlan {
  const { results, stores, fifo } = context;
  const { resultQueue: given } = stores;
  const { clientQueues } = props;
  const clients = clientQueues ?? [];
  const tokens = unknownAtSynth('clientQueues', clients, ...clients);
  const uncollectedSeconds = Math.min(SECONDS_A_DAY, (secondsOfQueue(given, 'messageRetentionPeriod') ?? Infinity) / 2);
  const resultsPerMessage = props.resultsPerMessage ?? SETTINGS.resultsPerMessage.default;
  const own = { clientQueues, resultsPerMessage: props.resultsPerMessage };
  const withoutQueue = Object.entries(own).map(
    ([name, value]) =>
      value !== undefined &&
      !results.includes('queue') &&
      `${name}: expected queue among the results, got ${results.join(',')}; add queue or leave it out`,
  );
  return {
    name: 'queue',
    prop: 'resultQueue',
    given,
    problems: [
      tokens,
      outside('resultsPerMessage', resultsPerMessage, SETTINGS.resultsPerMessage),
      ...withoutQueue,
      clients.length > MAX_CLIENTS &&
        `clientQueues: expected at most ${MAX_CLIENTS}, because one alarm watches them and the first with 10 metrics, got ` +
          `${clients.length}; give some a deployment of their own, or let them read results from a table`,
      !tokens &&
        (new Set(clients).size < clients.length || !clients.every((name) => CLIENT_NAME.test(name))) &&
        'clientQueues: expected names of up to 32 letters and digits that begin with a lower-case letter, each once, ' +
          `got ${clients.join(',')}; rename them`,
    ],
    create(scope, { encryptionKey, removalPolicy, visibilityTimeoutSeconds }) {
      const create = (id: string): IQueue => {
        const created = createQueue(scope, id, {
          fifo,
          encryptionKey,
          removalPolicy,
          retentionPeriod: Duration.days(RESULT_DAYS),
          // As that of the request queue, so that a function as slow as the one that scores can take results.
          visibilityTimeout: Duration.seconds(visibilityTimeoutSeconds),
        });
        acknowledge(created, 'resultQueue');
        return created;
      };
      const queue = given ?? create('Results');
      const clientQueues = clients.map((name) => [name, create(`Results${capitalized(name)}`)] as const);
      const queues = [queue, ...clientQueues.map(([, created]) => created)] as const;
      return {
        resources: { resultQueue: queue, clientQueues: Object.fromEntries(clientQueues) },
        clientOptions: { resultQueueUrl: queue.queueUrl },
        settings: {
          clientQueueUrls: clientQueues.map(([, { queueUrl }]) => queueUrl).join(',') || undefined,
          resultsPerMessage,
        },
        alarms: [
          {
            id: 'UncollectedResults',
            description: `A result has been on a result queue for ${uncollectedSeconds} s. Look for the consumer that has stopped.`,
            metric: oldestMessageAge(queues),
            threshold: uncollectedSeconds,
          },
        ],
        graphs: [
          {
            title: 'Results on the queue: messages',
            left: [
              queue.metricApproximateNumberOfMessagesVisible({ ...AT_MOST, label: 'not collected' }),
              queue.metricApproximateNumberOfMessagesNotVisible({ ...AT_MOST, label: 'being collected' }),
            ],
          },
          {
            title: 'Age of the oldest result: seconds',
            left: [oldestMessageAge([queue], { label: 'oldest' })],
            leftAnnotations: [{ value: uncollectedSeconds, label: 'alarm' }],
          },
        ],
        grantWrite(grantee) {
          for (const one of queues) QueueGrants.fromQueue(one).sendMessages(grantee);
        },
        grantCollect: (grantee) => combine(queues.map((one) => QueueGrants.fromQueue(one).consumeMessages(grantee))),
      };
    },
  };
}

/** With the first result queue as many as an alarm may watch. */
const MAX_CLIENTS = 9;
const CLIENT_NAME = /^[a-z][A-Za-z0-9]{0,31}$/;

/** Returns a name with a capital first letter, as a part of an ID. */
export function capitalized(name: string): string {
  return `${name.charAt(0).toUpperCase()}${name.slice(1)}`;
}
