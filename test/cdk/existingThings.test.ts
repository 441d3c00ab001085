import { describe, expect, it } from '@jest/globals';
import { Duration, Token } from 'aws-cdk-lib';
import { AttributeType, Table, TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { type IQueue, Queue } from 'aws-cdk-lib/aws-sqs';
import type { BatchScoringProps } from '../../infra/index.ts';
import { createStack, refusalOf } from '../helpers/stacks.ts';

const stack = createStack();
const messageId = { name: 'messageId', type: AttributeType.STRING };
let made = 0;

/** A construct of a name of its own within one stack. */
function id(): string {
  made += 1;
  return `Thing${made}`;
}

function imported(name = 'orders'): IQueue {
  return Queue.fromQueueArn(stack, id(), `arn:aws:sqs:eu-central-1:123456789012:${name}`);
}

describe('an existing request queue', () => {
  const visibilityTimeout = Duration.seconds(400);

  it.each([
    [{ visibilityTimeout: Duration.seconds(90) }, 90],
    [{}, 30],
  ])('is refused where it is said to hide messages for longer than it does: %j', (props, seconds) => {
    const queue = new Queue(stack, id(), props);
    expect(refusalOf({ requestQueue: { queue, visibilityTimeout } })).toBe(
      `visibilityTimeoutSeconds: expected ${seconds}, as the given request queue has it, got 400; ` +
        "give the queue's own, or change the queue's",
    );
  });

  it('is taken as it is said to be where the CDK does not know', () => {
    const ofParameter = Duration.seconds(Token.asNumber({ Ref: 'Seconds' }));
    for (const queue of [imported(), new Queue(stack, id(), { visibilityTimeout: ofParameter })]) {
      expect(refusalOf({ requestQueue: { queue, visibilityTimeout } })).toBe('not refused');
    }
  });
});

describe('existing stores', () => {
  it.each<[string, BatchScoringProps['stores'], BatchScoringProps['results'], string]>([
    ['resultTable', { resultTable: new Table(stack, id(), { partitionKey: messageId }) }, ['queue'], 'table'],
    ['resultBucket', { resultBucket: new Bucket(stack, id()) }, ['queue', 'table'], 'bucket'],
    ['resultQueue', { resultQueue: new Queue(stack, id()) }, ['table'], 'queue'],
  ])('are refused that no results go to: %s', (name, stores = {}, results = [], store) => {
    expect(refusalOf({ stores, results })).toBe(
      `stores.${name}: expected ${store} among the results where one is given, got ${results.join(',')}; ` +
        `add ${store} or leave out ${name}`,
    );
  });

  it('are refused where the result queue is the request queue', () => {
    const visibilityTimeout = Duration.seconds(400);
    const own = new Queue(stack, id(), { visibilityTimeout });
    for (const [queue, resultQueue] of [
      [own, own],
      [imported(), imported()],
    ] as const) {
      expect(refusalOf({ requestQueue: { queue, visibilityTimeout }, stores: { resultQueue } })).toBe(
        'stores.resultQueue: expected another queue than the request queue, because results would be scored as requests, ' +
          'got the same; give one of its own',
      );
    }
    expect(
      refusalOf({
        requestQueue: { queue: imported(), visibilityTimeout },
        stores: { resultQueue: imported('scores') },
      }),
    ).toBe('not refused');
  });

  it('are refused where the result queue is the dead-letter queue', () => {
    const resultQueue = imported('dead');
    const requestQueue = { queue: imported(), visibilityTimeout: Duration.seconds(400), deadLetterQueue: resultQueue };
    expect(refusalOf({ requestQueue, stores: { resultQueue } })).toBe(
      'stores.resultQueue: expected another queue than the dead-letter queue, because dead letters would be collected as ' +
        'results, got the same; give one of its own',
    );
  });

  it.each([
    ['id (S)', new Table(stack, id(), { partitionKey: { name: 'id', type: AttributeType.STRING } })],
    ['messageId (N)', new TableV2(stack, id(), { partitionKey: { ...messageId, type: AttributeType.NUMBER } })],
    [
      'messageId (S) and at (N)',
      new TableV2(stack, id(), { partitionKey: messageId, sortKey: { name: 'at', type: AttributeType.NUMBER } }),
    ],
  ])('are refused where the table has another key: %s', (key, resultTable) => {
    expect(refusalOf({ results: ['table'], stores: { resultTable } })).toBe(
      `stores.resultTable: expected the partition key messageId (S) and no sort key, got ${key}; give a table with that key`,
    );
  });

  it.each([
    ['made here', new Table(stack, id(), { partitionKey: messageId })],
    ['with replicas', new TableV2(stack, id(), { partitionKey: messageId })],
    ['imported', Table.fromTableName(stack, id(), 'results')],
  ])('may be a table %s', (_, resultTable) => {
    expect(refusalOf({ results: ['table'], stores: { resultTable } })).toBe('not refused');
  });
});
