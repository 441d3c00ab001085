import { describe, expect, it } from '@jest/globals';
import type { MessageRecord } from '../../../lambda/core/record.ts';
import { createLanes, type Lanes, type LanesOptions } from '../../../lambda/hosts/modelQueues.ts';
import { createManualClock, type ManualClock } from '../../helpers/manualClock.ts';
import { messageIdOf, standardRecord } from '../../helpers/scoring.ts';

interface Dispatched {
  readonly lane: string;
  readonly bodies: readonly string[];
  /** Makes room in the pipe. */
  end(): Promise<void>;
}

interface Gathering {
  readonly lanes: Lanes;
  readonly clock: ManualClock;
  readonly dispatched: Dispatched[];
  bodies(): (readonly string[])[];
}

const LIMITS = { batchSize: 3, batchBytes: 1_000, windowMs: 100 };

/** Lanes by the first letter of the body. */
function gathering(options: Partial<LanesOptions> = {}): Gathering {
  const clock = createManualClock();
  const dispatched: Dispatched[] = [];
  const { limits = LIMITS } = options;
  const lanes = createLanes({
    names: ['a', 'b'],
    laneOf: ({ body }) => body[0] as string,
    limits,
    mostOf: () => limits.batchSize,
    depth: 1,
    keepsTogether: false,
    clock,
    dispatch: (records, lane) =>
      new Promise((resolve) => {
        const end = async (): Promise<void> => {
          resolve();
          await new Promise(setImmediate);
        };
        dispatched.push({ lane, bodies: records.map(({ body }) => body), end });
      }),
    ...options,
  });
  return { lanes, clock, dispatched, bodies: () => dispatched.map(({ bodies }) => bodies) };
}

function records(...bodies: readonly string[]): MessageRecord[] {
  return bodies.map((body, index) => standardRecord(body, { messageId: messageIdOf(index) }));
}

describe('lanes', () => {
  it('dispatch a full batch at once, and what is left when its own window ends', () => {
    const { lanes, clock, bodies } = gathering({ depth: 2 });

    lanes.add(records('a1', 'a2'));
    clock.advance(60);
    lanes.add(records('a3', 'a4'));
    expect(bodies()).toEqual([['a1', 'a2', 'a3']]);
    clock.advance(99);
    expect(bodies()).toHaveLength(1);
    clock.advance(1);

    expect(bodies()[1]).toEqual(['a4']);
  });

  it('dispatch a lone record at once where there is no window', () => {
    const { lanes, bodies } = gathering({ limits: { ...LIMITS, windowMs: 0 } });

    lanes.add(records('a1'));

    expect(bodies()).toEqual([['a1']]);
  });

  it('keep what comes while the pipe is full for one batch, which goes as soon as there is room', async () => {
    const { lanes, dispatched, bodies } = gathering({ limits: { ...LIMITS, windowMs: 0 } });

    lanes.add(records('a1'));
    lanes.add(records('a2'));
    lanes.add(records('a3'));
    expect(bodies()).toEqual([['a1']]);
    await dispatched[0]?.end();

    expect(bodies()).toEqual([['a1'], ['a2', 'a3']]);
  });

  it('have as many batches of one lane under way as the pipe is deep, and those of others beside them', () => {
    const { lanes, dispatched } = gathering({ depth: 2, limits: { ...LIMITS, batchSize: 1 } });

    lanes.add(records('a1', 'a2', 'a3', 'b1'));

    expect(dispatched.map(({ lane, bodies }) => [lane, ...bodies])).toEqual([
      ['a', 'a1'],
      ['a', 'a2'],
      ['b', 'b1'],
    ]);
    expect(lanes.pending()).toEqual({ records: 1, bytes: 2 });
  });

  it('close a batch at the most bytes', () => {
    const { lanes, bodies } = gathering({ depth: 2, limits: { batchSize: 9, batchBytes: 6, windowMs: 100 } });

    lanes.add(records('a-1', 'a-2', 'a-3'));

    expect(bodies()).toEqual([['a-1', 'a-2']]);
  });

  it('give a batch as many records as the pace of its lane allows', () => {
    const { lanes, bodies } = gathering({ depth: 3, mostOf: () => 2 });

    lanes.add(records('a1', 'a2', 'a3', 'a4', 'a5'));

    expect(bodies()).toEqual([
      ['a1', 'a2'],
      ['a3', 'a4'],
    ]);
  });

  it('keep what one receive brought together where order matters', () => {
    const { lanes, bodies } = gathering({ keepsTogether: true, depth: 2 });

    lanes.add(records('a1', 'a2'));
    lanes.add(records('a3', 'a4', 'a5'));

    expect(bodies()).toEqual([['a1', 'a2', 'a3', 'a4', 'a5']]);
  });

  it('dispatch nothing of what was dropped, or taken', () => {
    const { lanes, clock, bodies } = gathering();
    const [lost, kept] = records('a1', 'a2') as [MessageRecord, MessageRecord];

    lanes.add([lost, kept]);
    lanes.drop(new Set([lost]));
    expect(lanes.pending()).toEqual({ records: 1, bytes: 2 });
    expect(lanes.takeAll()).toEqual([kept]);
    clock.advance(1_000);

    expect(bodies()).toEqual([]);
    expect(lanes.pending()).toEqual({ records: 0, bytes: 0 });
  });

  it('are idle once nothing is being scored', async () => {
    const { lanes, dispatched } = gathering({ limits: { ...LIMITS, windowMs: 0 } });
    let idle = 0;

    await lanes.idle();
    lanes.add(records('a1', 'b1'));
    const both = lanes.idle().then(() => {
      idle += 1;
    });
    await dispatched[0]?.end();
    expect(idle).toBe(0);
    await dispatched[1]?.end();
    await both;

    expect(idle).toBe(1);
  });
});
