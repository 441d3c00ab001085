import { describe, expect, it } from '@jest/globals';
import type { Extension } from '../../../lambda/aws/requestQueue.ts';
import type { MessageRecord } from '../../../lambda/core/record.ts';
import { createVisibilityLeases, type VisibilityLeases } from '../../../lambda/hosts/consumer.ts';
import { closedGate, createManualClock } from '../../helpers/manualClock.ts';
import { messageIdOf, standardRecord } from '../../helpers/scoring.ts';

const VISIBILITY_SECONDS = 60;
const TWELVE_HOURS = 43_200;

/**
 * @param refuses whether SQS does not extend a record
 * @param answers when SQS does
 */
function holding({ refuses = (_: string): boolean => false, answers = Promise.resolve() } = {}) {
  const clock = createManualClock();
  const extensions: { readonly at: number; readonly seconds: Record<string, number> }[] = [];
  const lost: string[] = [];
  const held: VisibilityLeases = createVisibilityLeases({
    visibilitySeconds: VISIBILITY_SECONDS,
    async extend(due: readonly Extension[]) {
      const seconds = due.map(({ record, seconds }) => [record.body, seconds]);
      extensions.push({ at: clock.now() / 1000, seconds: Object.fromEntries(seconds) });
      await answers;
      return due.filter(({ record }) => refuses(record.body));
    },
    onExpired: (records) => void lost.push(...Array.from(records, ({ body }) => body)),
    clock,
  });
  const pass = async (seconds: number): Promise<void> => {
    for (let second = 0; second < seconds; second++) {
      clock.advance(1_000);
      await new Promise(setImmediate);
    }
  };
  return { held, extensions, lost, pass };
}

function record(body: string): MessageRecord {
  return standardRecord(body, { messageId: messageIdOf(0) });
}

describe('what is held', () => {
  it('is extended when a third of its time is over, again and again, and no more once it is let go', async () => {
    const { held, extensions, lost, pass } = holding();
    const one = record('one');

    held.add([one]);
    await pass(20);
    expect(extensions).toEqual([]);
    await pass(50);
    expect(extensions).toEqual([
      { at: 25, seconds: { one: 60 } },
      { at: 50, seconds: { one: 60 } },
    ]);
    held.remove([one]);
    await pass(60);

    expect(extensions).toHaveLength(2);
    expect(lost).toEqual([]);
    expect(held.size()).toBe(0);
  });

  it('is tried again where SQS refused, and given up when its time is over', async () => {
    const { held, extensions, lost, pass } = holding({ refuses: (body) => body === 'refused' });

    held.add([record('refused'), record('kept')]);
    await pass(59);
    expect(lost).toEqual([]);
    await pass(1);

    expect(lost).toEqual(['refused']);
    expect(held.size()).toBe(1);
    expect(extensions.filter(({ seconds }) => 'refused' in seconds).length).toBeGreaterThan(3);
  });

  it('is not extended beyond twelve hours in all, which SQS would refuse', async () => {
    const { held, extensions, lost, pass } = holding();

    held.add([record('one')]);
    await pass(TWELVE_HOURS + VISIBILITY_SECONDS);

    for (const { at, seconds } of extensions) expect(at + (seconds.one ?? 0)).toBeLessThanOrEqual(TWELVE_HOURS);
    expect(extensions.at(-1)?.seconds.one).toBeLessThan(VISIBILITY_SECONDS);
    expect(lost).toEqual(['one']);
  });

  it('is neither extended nor given up once SQS is told something else of it, after the extension under way', async () => {
    const gate = closedGate();
    const { held, extensions, lost, pass } = holding({ answers: gate.opened });
    const one = record('one');

    held.add([one]);
    await pass(25);
    let isOver = false;
    void held.endExtending([one]).then(() => {
      isOver = true;
    });
    await pass(1);
    expect([extensions.length, isOver]).toEqual([1, false]);
    gate.open();
    await pass(120);

    expect([extensions.length, isOver, lost, held.size()]).toEqual([1, true, [], 1]);
  });

  it('has no heartbeat any more once it is stopped', async () => {
    const { held, extensions, pass } = holding();

    held.add([record('one')]);
    held.stop();
    await pass(120);

    expect(extensions).toEqual([]);
  });
});
