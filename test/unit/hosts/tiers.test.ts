import { describe, expect, it } from '@jest/globals';
import type { MessageRecord } from '../../../lambda/core/record.ts';
import type { Quarantine } from '../../../lambda/hosts/quarantine.ts';
import { scoreRecords, tiersOf } from '../../../lambda/hosts/records.ts';
import {
  enoughTime,
  fifoRecords,
  lineModel,
  lineRequest,
  memoryWriter,
  repositoryOf,
  scoringDependencies,
  standardRecord,
  standardRecords,
} from '../../helpers/scoring.ts';
import { statuses } from '../core/scoreRecords/answers.ts';

/** A record that comes for the n-th time. */
function received(receives: number, messageId: string): MessageRecord {
  const record = standardRecord({});
  return { ...record, messageId, attributes: { ...record.attributes, ApproximateReceiveCount: String(receives) } };
}

/** One of a message group that comes for the n-th time. */
function fifo(receives: number, MessageGroupId: string): MessageRecord {
  const record = received(receives, 'id');
  const attributes = { ...record.attributes, MessageGroupId };
  return { ...record, attributes, eventSourceARN: `${record.eventSourceARN}.fifo` };
}

const IDS = Array.from({ length: 100 }, (_, index) => `id-${String(index).padStart(3, '0')}`);

/** The message IDs of each tier of 100 records that come for the n-th time. */
function tiersOfHundred(receives: number): string[][] {
  const records = IDS.toReversed().map((id) => received(receives, id));
  return tiersOf(records).map((tier) => tier.map((index) => (records[index] as MessageRecord).messageId));
}

describe('tiers', () => {
  it('are one of first-timers, in the order they came', () => {
    expect(tiersOfHundred(1)).toEqual([IDS.toReversed()]);
  });

  it('put redelivered records after first-timers, those with the fewest receives left before others', () => {
    const records = [received(2, 'a'), received(1, 'b'), received(3, 'c'), received(1, 'd')];
    expect(tiersOf(records)).toEqual([[1, 3], [2], [0]]);
  });

  it('hold the fewer records the more often they came, one at last', () => {
    expect(
      [2, 3, 4, 5, 9].map((receives) => Math.max(...tiersOfHundred(receives).map(({ length }) => length))),
    ).toEqual([64, 8, 1, 1, 1]);
  });

  it('stand in the order of their IDs, and in the opposite one at every other receive', () => {
    expect(tiersOfHundred(4).flat()).toEqual(IDS);
    expect(tiersOfHundred(5).flat()).toEqual(IDS.toReversed());
  });

  it('begin with what came for the third time where that can end no process but its own', () => {
    const records = [1, 2, 3, 4, 1].map((receives, index) => received(receives, `id-${index}`));
    expect(tiersOf(records, true)).toEqual([[3], [2], [0, 4], [1]]);
  });

  it('are few where they can end no process but their own: all that outlasted an outage comes back at once', () => {
    const records = IDS.map((id) => received(5, id));
    expect(tiersOf(records, true).map(({ length }) => length)).toEqual([13, 13, 13, 13, 13, 13, 13, 9]);
    expect(tiersOf(records.slice(0, 8), true).map(({ length }) => length)).toEqual(Array(8).fill(1));
  });

  it('are bounded in number, however many redelivered records there are', () => {
    const records = Array.from({ length: 10_000 }, (_, index) => received(4, `id-${index}`));
    const tiers = tiersOf(records);
    expect(tiers.length).toBeLessThanOrEqual(256);
    expect(tiers.flat().toSorted((a, b) => a - b)).toEqual(records.map((_, index) => index));
  });

  it('are one on FIFO queues, whose order is not ours', () => {
    expect(tiersOf([fifo(1, 'group'), fifo(3, 'group'), fifo(2, 'group')])).toEqual([[0, 1, 2]]);
  });

  it('begin on FIFO queues with what was redelivered of groups in which some came for the third time, in a quarantine', () => {
    const records = [fifo(1, 'a'), fifo(2, 'b'), fifo(3, 'b'), fifo(1, 'b'), fifo(2, 'c'), fifo(5, 'd')];
    expect(tiersOf(records, true)).toEqual([
      [1, 2, 5],
      [0, 3, 4],
    ]);
  });

  const UP_TO_FOUR = [1, 2, 3, 4];
  it.each(UP_TO_FOUR.flatMap((culprit) => UP_TO_FOUR.map((others) => [culprit, others])))(
    'let a culprit that takes the process with it for the %s. time reach its fifth receive alone, beside records that come for the %s. time',
    (culpritReceives, othersReceives) => {
      for (const culprit of ['id-000', 'id-042', 'id-099']) {
        let left = IDS;
        for (let crashes = 0; culpritReceives + crashes <= 5; crashes++) {
          const records = left.map((id) => received((id === culprit ? culpritReceives : othersReceives) + crashes, id));
          const scored: string[] = [];
          for (const tier of tiersOf(records)) {
            const ids = tier.map((index) => (records[index] as MessageRecord).messageId);
            if (ids.includes(culprit)) break;
            scored.push(...ids);
          }
          left = left.filter((id) => !scored.includes(id));
          expect(othersReceives + crashes < 5 || left.length === 1).toBe(true);
        }
      }
    },
  );
});

/** Records that come for the n-th time, one of `receives` each. */
function receivedRecords(receives: readonly number[]): MessageRecord[] {
  return standardRecords(receives.map((_, index) => lineRequest([index]))).map((record, index) => ({
    ...record,
    attributes: { ...record.attributes, ApproximateReceiveCount: String(receives[index]) },
  }));
}

describe('records that came before', () => {
  it('are run when what was answered before is acknowledged', async () => {
    const happened: string[] = [];
    const models = repositoryOf(
      lineModel({ before: ([x]) => void happened.push(`run ${Array.from(x?.data as Float32Array)}`) }),
    );
    const acknowledge = async (records: readonly MessageRecord[]) =>
      void happened.push(`acknowledge ${records.map(({ messageId }) => messageId.slice(-1))}`);
    const deps = scoringDependencies({ models, acknowledge });
    const records = [...receivedRecords([1, 1, 2])];
    await scoreRecords(records, deps, enoughTime());
    expect(happened).toEqual(['run 0,1', 'acknowledge 0,1', 'run 2']);
  });

  it('for the third time on a FIFO queue are answered and acknowledged before first-timers of other groups run', async () => {
    const happened: string[] = [];
    const runs = (x: { readonly data: unknown } | undefined) => Array.from(x?.data as Float32Array).join();
    const models = repositoryOf(lineModel({ before: ([x]) => void happened.push(`run ${runs(x)}`) }));
    const writer = memoryWriter({ before: (results) => void happened.push(`write ${results.length}`) });
    const acknowledge = async (records: readonly MessageRecord[]) =>
      void happened.push(`acknowledge ${records.map(({ messageId }) => messageId.slice(-1))}`);
    const quarantine: Quarantine = {
      score: async (bodies, _, sink) => {
        const replies = bodies.map((__, of) => ({ of, id: undefined, text: '{}', failures: [], requests: 1 }));
        happened.push(`quarantine ${bodies.length}`);
        await sink(replies);
      },
      isOpen: () => true,
      isBroken: () => false,
    };
    const deps = { ...scoringDependencies({ models, acknowledge, writer }), quarantine };
    const records = fifoRecords(['a', 'b', 'b'].map((group, index) => [group, lineRequest([index])])).map(
      (record, index) => ({
        ...record,
        attributes: { ...record.attributes, ApproximateReceiveCount: index === 1 ? '3' : '1' },
      }),
    );
    await scoreRecords(records, deps, enoughTime());

    expect(happened).toEqual(['quarantine 1', 'write 1', 'acknowledge 1', 'run 0,2', 'write 2']);
  });

  it('cost nothing where there are none: nothing is acknowledged early', async () => {
    const acknowledge = async () => {
      throw new Error('expected no early acknowledgement');
    };
    const deps = scoringDependencies({ acknowledge });
    expect(statuses(await scoreRecords(receivedRecords([1, 1]), deps, enoughTime()))).toEqual(['answered', 'answered']);
  });
});
