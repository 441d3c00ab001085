import { type IQueue, QueueGrants } from 'aws-cdk-lib/aws-sqs';
import type { Size } from 'aws-cdk-lib/core';
import { SETTINGS } from '../../lambda/settings.ts';
import { createQueue } from '../common/created.ts';
import { retentionDaysOf, SECONDS_A_DAY } from '../common/given.ts';
import { combine } from '../common/grants.ts';
import { AT_MOST, type Graph, oldestMessageAge } from '../common/metrics.ts';
import { acknowledge } from '../common/nag.ts';
import { brokenOf, outside, type Rule } from '../common/problems.ts';
import { bytesOf } from '../common/units.ts';
import { notNamed, type StoreContext, type StorePlan } from './resultStore.ts';

export interface QueueStoreProps {
  /**
   * Names of clients that wait for results on a queue. Each gets a new result queue, in addition to the first.
   * @default none
   */
  readonly clientQueues?: readonly string[];
  /**
   * Maximum results in a message of the result queue, 1 to 10,000. They have at most `resultMessageSize` together.
   * @default 1
   */
  readonly resultsPerMessage?: number;
  /**
   * Maximum size of a message with several results, 1 KiB to 1 MiB. SQS bills each 64 KiB as one request.
   * @default 64 KiB
   */
  readonly resultMessageSize?: Size;
}

/** Maximum retention of SQS. */
const RESULT_DAYS = 14;

export interface QueueStores {
  readonly resultQueue?: IQueue | undefined;
}

/** Plans a store that sends results as messages of a queue, packed or one by one. */
export function queueStore(props: QueueStoreProps, context: StoreContext<QueueStores>): StorePlan {
  const { resultQueue: given } = context.stores;
  const { clientQueues: clients = [] } = props;
  const resultsPerMessage = props.resultsPerMessage ?? SETTINGS.resultsPerMessage.default;
  const resultMessageBytes =
    bytesOf('resultMessageSize', props.resultMessageSize) ?? SETTINGS.resultMessageBytes.default;
  const days = given === undefined ? RESULT_DAYS : retentionDaysOf(given);
  return {
    name: 'queue',
    prop: 'resultQueue',
    given,
    place: given?.env,
    // @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html
    key: { how: 'Queue.fromQueueAttributes and keyArn', actions: ['kms:Decrypt', 'kms:GenerateDataKey'] },
    pointers: { days, why: `the result queue keeps pointers to large results for ${days} days` },
    problems: [
      outside('resultsPerMessage', resultsPerMessage, SETTINGS.resultsPerMessage),
      outside('resultMessageSize', resultMessageBytes, SETTINGS.resultMessageBytes, 'bytes'),
      notNamed('queue', 'resultQueue', context),
      ...brokenOf([
        [
          new Set(clients).size < clients.length || !clients.every((name) => CLIENT_NAME.test(name)),
          'clientQueues: expected names of up to 32 letters and digits that begin with a lower-case letter, each once, ' +
            `got ${clients.join(',')}; rename them`,
        ],
        [
          clients.length > 0 && !context.results.includes('queue'),
          `clientQueues: expected queue among the results, got ${context.results.join(',')}; add queue or leave it out`,
        ],
        [
          resultsPerMessage !== 1 && !context.results.includes('queue'),
          'resultsPerMessage: expected queue among the results, whose messages they share, ' +
            `got ${context.results.join(',')}; add queue or leave it out`,
        ],
        [
          resultsPerMessage === 1 && resultMessageBytes !== SETTINGS.resultMessageBytes.default,
          'resultMessageSize: expected it with resultsPerMessage above 1, as it is the size of a message of several results, ' +
            `got ${resultMessageBytes} bytes with 1; raise resultsPerMessage or leave it out`,
        ],
        ...rolesOf(context),
      ]),
    ],
    create(scope, { encryptionKey, removalPolicy, visibilityTimeoutSeconds }) {
      // The visibility timeout equals the request queue's, so a function as slow as the one that scores can take
      // results.
      const create = (id: string): IQueue => {
        const { fifo } = context;
        const more = { visibilityTimeoutSeconds, retentionDays: RESULT_DAYS };
        const created = createQueue(scope, id, { fifo, encryptionKey, removalPolicy, ...more });
        acknowledge(created, 'resultQueue');
        return created;
      };
      const queue = given ?? create('Results');
      const clientQueues = clients.map((name) => create(`Results${capitalized(name)}`));
      const queues = [queue, ...clientQueues] as const;
      // Age in seconds at which a result counts as forgotten. The queue deletes it at no less than twice that age.
      const threshold = SECONDS_A_DAY * Math.min(1, (days ?? Number.POSITIVE_INFINITY) / 2);
      return {
        prop: 'resultQueue',
        resource: queue,
        clientQueues: Object.fromEntries(clients.map((name, index) => [name, clientQueues[index] as IQueue])),
        settings: {
          resultQueueUrl: queue.queueUrl,
          clientQueueUrls: clientQueues.map(({ queueUrl }) => queueUrl).join(',') || undefined,
          resultsPerMessage,
          resultMessageBytes,
        },
        clientOptions: { resultQueueUrl: queue.queueUrl },
        alarms: [
          {
            id: 'UncollectedResults',
            description:
              `A result has lain on a result queue for more than ${threshold / 3600} hours. Nobody collects it, and SQS deletes ` +
              'it when the retention period of the queue ends. Look for the consumer that has stopped; docs/operations.md says what to do.',
            metric: oldestMessageAge(queues),
            threshold,
            periods: 1,
          },
        ],
        graphs: graphsOf(queue, threshold),
        grantWrite(grantee) {
          for (const one of queues) QueueGrants.fromQueue(one).sendMessages(grantee);
        },
        grantCollect: (grantee) => combine(queues.map((one) => QueueGrants.fromQueue(one).consumeMessages(grantee))),
      };
    },
  };
}

const CLIENT_NAME = /^[a-z][A-Za-z0-9]{0,31}$/;

/** Returns a name with a capital first letter, as a part of an ID. */
export function capitalized(name: string): string {
  return `${name.charAt(0).toUpperCase()}${name.slice(1)}`;
}

const kindOf = (isFifo: boolean | undefined): string => (isFifo ? 'FIFO' : 'standard');

/**
 * Returns rules for the roles of queues. Queues of different kinds would lose the order of a message group, and each
 * queue has only one role.
 */
function rolesOf({ stores, fifo, requestQueue, deadLetterQueue }: StoreContext<QueueStores>): Rule[] {
  const { resultQueue } = stores;
  const same = (other: IQueue | undefined, role: string, why: string): Rule => [
    resultQueue !== undefined && resultQueue.queueArn === other?.queueArn,
    `stores.resultQueue: expected another queue than the ${role}, because ${why}, got the same; give one of its own`,
  ];
  return [
    [
      resultQueue !== undefined && resultQueue.fifo !== fifo,
      `stores.resultQueue: expected a ${kindOf(fifo)} queue, as the request queue is, got a ` +
        `${kindOf(resultQueue?.fifo)} queue; give one of the same kind`,
    ],
    same(requestQueue, 'request queue', 'results would be scored as requests'),
    same(deadLetterQueue, 'dead-letter queue', 'dead letters would be collected as results'),
  ];
}

function graphsOf(queue: IQueue, threshold: number): Graph[] {
  return [
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
      leftAnnotations: [{ value: threshold, label: 'alarm' }],
    },
  ];
}
