import { describe, expect, it } from '@jest/globals';
import { Duration, Token } from 'aws-cdk-lib';
import { type IQueue, Queue } from 'aws-cdk-lib/aws-sqs';
import { createStack, refusalOf } from '../helpers/stacks.ts';

const stack = createStack();
const visibilityTimeout = Duration.seconds(400);
const dead = new Queue(stack, 'Dead');
const orders = new Queue(stack, 'Orders', { visibilityTimeout, deadLetterQueue: { queue: dead, maxReceiveCount: 5 } });
let made = 0;

function imported(name: string, fifo = false): IQueue {
  made += 1;
  const attributes = name === '' ? { queueArn: Token.asString({ 'Fn::ImportValue': 'Arn' }), fifo } : undefined;
  const queueArn = `arn:aws:sqs:eu-central-1:123456789012:${name}`;
  return Queue.fromQueueAttributes(stack, `Imported${made}`, attributes ?? { queueArn });
}

function refusalOfDead(queue: IQueue, deadLetterQueue: IQueue): string {
  return refusalOf({ requestQueue: { queue, visibilityTimeout, deadLetterQueue } });
}

describe('dead letters of an existing request queue', () => {
  it('are refused that would be in the request queue itself', () => {
    for (const [queue, same] of [
      [imported('orders'), imported('orders')],
      [new Queue(stack, 'Own', { visibilityTimeout }), stack.node.findChild('Own') as Queue],
    ] as const) {
      expect(refusalOfDead(queue, same)).toBe(
        'requestQueue.deadLetterQueue: expected another queue than the request queue, got the same; give the one that ' +
          'its redrive policy names',
      );
    }
  });

  it.each([
    ['orders.fifo', 'FIFO', 'dead', 'standard'],
    ['orders', 'standard', 'dead.fifo', 'FIFO'],
  ])('are refused of another kind: %s is %s, %s is %s', (name, kind, deadName, deadKind) => {
    expect(refusalOfDead(imported(name), imported(deadName))).toBe(
      `requestQueue.deadLetterQueue: expected a ${kind} queue, as the request queue is, got a ${deadKind} queue; give the ` +
        'one that the redrive policy of the request queue names',
    );
  });

  it('are taken where the CDK does not know their kind', () => {
    expect(refusalOfDead(imported('orders.fifo'), imported(''))).toBe('not refused');
    expect(refusalOfDead(imported('', true), imported('dead.fifo'))).toBe('not refused');
  });

  it('are refused where the redrive policy is known to name another queue', () => {
    expect(refusalOfDead(orders, imported('dead'))).toBe(
      'requestQueue.deadLetterQueue: expected Test/Dead, where the redrive policy of the request queue sends messages, ' +
        `got Test/Imported${made}; leave it out`,
    );
    expect(refusalOfDead(orders, dead)).toBe('not refused');
  });

  it('are refused after another number of receives than the redrive policy has', () => {
    const requestQueue = { queue: orders, visibilityTimeout };
    expect(refusalOf({ requestQueue, maxReceiveCount: 7 })).toBe(
      "maxReceiveCount: expected 5, as the given request queue has it, got 7; leave it out, or change the queue's",
    );
    expect(refusalOf({ requestQueue, maxReceiveCount: 5 })).toBe('not refused');
    expect(refusalOf({ requestQueue: { queue: imported('orders'), visibilityTimeout }, maxReceiveCount: 7 })).toBe(
      'not refused',
    );
  });
});

it('an imported queue whose ARN is a token is told to be a FIFO queue where it is imported', () => {
  expect(refusalOf({ fifo: true, requestQueue: { queue: imported(''), visibilityTimeout } })).toBe(
    'fifo: expected false, as the given request queue is taken to be by its import, got true; import it with ' +
      'Queue.fromQueueAttributes and fifo',
  );
});
