import { describe, expect, it } from '@jest/globals';
import type { MessageRecord } from '../../../lambda/core/record.ts';
import { createModelQueues, type ModelQueuesOptions } from '../../../lambda/hosts/modelQueues.ts';
import { createManualClock } from '../../helpers/manualClock.ts';
import { fifoRecords, messageIdOf, standardRecord } from '../../helpers/scoring.ts';

interface Dispatched {
  readonly queue: string;
  readonly bodies: readonly string[];
  /** Makes room in the pipe. */
  end(): Promise<void>;
}

const LIMITS = { batchSize: 3, batchBytes: 1_000, windowMs: 100 };

/** Lanes by the first letter of the body. */
function gathering({
  limits = {},
  ...options
}: Partial<ModelQueuesOptions> & { limits?: Partial<typeof LIMITS> } = {}) {
  const clock = createManualClock();
  const dispatched: Dispatched[] = [];
  const modelQueues = createModelQueues({
    names: ['a', 'b'],
    queueOf: ({ body }) => body[0] as string,
    limitsOf: () => ({ ...LIMITS, ...limits }),
    depth: 1,
    keepsTogether: false,
    clock,
    dispatch: (records, queue) =>
      new Promise((resolve) => {
        const end = async (): Promise<void> => {
          resolve();
          await new Promise(setImmediate);
        };
        dispatched.push({ queue, bodies: records.map(({ body }) => body), end });
      }),
    ...options,
  });
  return { modelQueues, clock, dispatched, bodies: () => dispatched.map(({ bodies }) => bodies) };
}

function records(...bodies: readonly string[]): MessageRecord[] {
  return bodies.map((body, index) => standardRecord(body, { messageId: messageIdOf(index) }));
}

describe('queues', () => {
  it('dispatch a full batch at once, and what is left when its own window ends', () => {
    const { modelQueues, clock, bodies } = gathering({ depth: 2 });

    modelQueues.add(records('a1', 'a2'));
    clock.advance(60);
    modelQueues.add(records('a3', 'a4'));
    expect(bodies()).toEqual([['a1', 'a2', 'a3']]);
    clock.advance(99);
    expect(bodies()).toHaveLength(1);
    clock.advance(1);

    expect(bodies()[1]).toEqual(['a4']);
  });

  it('dispatch a lone record at once where there is no window', () => {
    const { modelQueues, bodies } = gathering({ limits: { windowMs: 0 } });

    modelQueues.add(records('a1'));

    expect(bodies()).toEqual([['a1']]);
  });

  it('keep what comes while the pipe is full for one batch, which goes as soon as there is room', async () => {
    const { modelQueues, dispatched, bodies } = gathering({ limits: { windowMs: 0 } });

    modelQueues.add(records('a1'));
    modelQueues.add(records('a2'));
    modelQueues.add(records('a3'));
    expect(bodies()).toEqual([['a1']]);
    await dispatched[0]?.end();

    expect(bodies()).toEqual([['a1'], ['a2', 'a3']]);
  });

  it('have as many batches of one queue under way as the pipe is deep, and those of others beside them', () => {
    const { modelQueues, dispatched } = gathering({ depth: 2, limits: { batchSize: 1 } });

    modelQueues.add(records('a1', 'a2', 'a3', 'b1'));

    expect(dispatched.map(({ queue, bodies }) => [queue, ...bodies])).toEqual([
      ['a', 'a1'],
      ['a', 'a2'],
      ['b', 'b1'],
    ]);
    expect(modelQueues.pending()).toEqual({ records: 1, bytes: 2 });
  });

  it('close a batch at the most bytes', () => {
    const { modelQueues, bodies } = gathering({
      depth: 2,
      limits: { batchSize: 9, batchBytes: 6, windowMs: 100 },
    });

    modelQueues.add(records('a-1', 'a-2', 'a-3'));

    expect(bodies()).toEqual([['a-1', 'a-2']]);
  });

  it('give a batch as many records as the pace of its queue allows', () => {
    const { modelQueues, bodies } = gathering({ depth: 3, limits: { batchSize: 2 } });

    modelQueues.add(records('a1', 'a2', 'a3', 'a4', 'a5'));

    expect(bodies()).toEqual([
      ['a1', 'a2'],
      ['a3', 'a4'],
    ]);
  });

  it('keep what one receive brought together where order matters', () => {
    const { modelQueues, bodies } = gathering({ keepsTogether: true, depth: 2 });

    modelQueues.add(records('a1', 'a2'));
    modelQueues.add(records('a3', 'a4', 'a5'));

    expect(bodies()).toEqual([['a1', 'a2', 'a3', 'a4', 'a5']]);
  });

  it('dispatch nothing of what was dropped, or taken', () => {
    const { modelQueues, clock, bodies } = gathering();
    const [lost, kept] = records('a1', 'a2') as [MessageRecord, MessageRecord];

    modelQueues.add([lost, kept]);
    modelQueues.drop(new Set([lost]));
    expect(modelQueues.pending()).toEqual({ records: 1, bytes: 2 });
    expect(modelQueues.takeAll()).toEqual([kept]);
    clock.advance(1_000);

    expect(bodies()).toEqual([]);
    expect(modelQueues.pending()).toEqual({ records: 0, bytes: 0 });
  });

  it('forget with a record all others of its message group, and say which', () => {
    const { modelQueues } = gathering({ limits: { batchSize: 4 } });
    const [first, other, second] = fifoRecords([
      ['one', 'a1'],
      ['other', 'a2'],
      ['one', 'a3'],
    ]) as [MessageRecord, MessageRecord, MessageRecord];

    modelQueues.add([first, other, second]);
    expect(modelQueues.drop(new Set([first]))).toEqual([first, second]);
    expect(modelQueues.takeAll()).toEqual([other]);
  });

  it('are idle once nothing is being scored', async () => {
    const { modelQueues, dispatched } = gathering({ limits: { windowMs: 0 } });
    let idle = 0;

    await modelQueues.idle();
    modelQueues.add(records('a1', 'b1'));
    const both = modelQueues.idle().then(() => {
      idle += 1;
    });
    await dispatched[0]?.end();
    expect(idle).toBe(0);
    await dispatched[1]?.end();
    await both;

    expect(idle).toBe(1);
  });
});
