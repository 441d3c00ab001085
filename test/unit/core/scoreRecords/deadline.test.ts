import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type CostEstimator, createCostEstimator } from '../../../../lambda/core/cost.ts';
import type { MessageRecord } from '../../../../lambda/core/record.ts';
import type { Tensor } from '../../../../lambda/core/tensor.ts';
import { type ScoringDependencies, scoreRecords } from '../../../../lambda/hosts/records.ts';
import { whatCanHappen } from '../../../helpers/manualClock.ts';
import {
  enoughTime,
  lineModel,
  lineRequest,
  repositoryOf,
  scoringDependencies,
  standardRecords,
} from '../../../helpers/scoring.ts';
import { answerTo, statuses, writtenRecords } from './answers.ts';

const TEN_RECORDS = standardRecords(Array.from({ length: 10 }, (_, index) => lineRequest([index])));

/** Says that every row takes 100 ms, whatever was measured. */
const HUNDRED_A_ROW: CostEstimator = { ...createCostEstimator(), predictMs: (_, rows) => 100 * rows };

function withRemaining(remainingMs: () => number) {
  return { ...enoughTime(), remainingMs };
}

/** The statuses of records that are scored with so many milliseconds left. */
async function statusesWith(
  left: number | (() => number),
  records: readonly MessageRecord[],
  deps: ScoringDependencies,
) {
  return statuses(await scoreRecords(records, deps, withRemaining(typeof left === 'number' ? () => left : left)));
}

describe('the deadline', () => {
  it.each([
    [599, 'DEADLINE'],
    [600, 'answered'],
  ])('with %d ms left, a run of 100 ms and 500 ms for writes: %s', async (left, status) => {
    const deps = scoringDependencies({ costs: HUNDRED_A_ROW, limits: { deadlineMarginMs: 500 } });
    const records = standardRecords([lineRequest([1])]);

    expect(await statusesWith(left, records, deps)).toEqual([status]);
    expect(deps.reports).toHaveLength(status === 'answered' ? 1 : 0);
  });

  it('counts the padding of a run, not only its rows', async () => {
    const models = repositoryOf(lineModel({ allowedSizes: [8] }));
    const deps = scoringDependencies({ models, costs: HUNDRED_A_ROW, limits: { deadlineMarginMs: 0 } });
    const records = standardRecords([lineRequest([1])]);
    expect(await statusesWith(799, records, deps)).toEqual(['DEADLINE']);
    expect(await statusesWith(800, records, deps)).toEqual(['answered']);
  });

  it('lets few rows go first where nothing was measured, and needs only the time for writes for them', async () => {
    const models = repositoryOf(lineModel({ measured: [], runMs: 100 }));
    const deps = scoringDependencies({ models, limits: { deadlineMarginMs: 500 } });
    expect(await statusesWith(500, TEN_RECORDS, deps)).toEqual(new Array(10).fill('answered'));
    expect(deps.reports.map(({ rows }) => rows)).toEqual([5, 5]);
  });

  it('cuts a micro-batch that does not fit to what does', async () => {
    let left = 5_500;
    const before = ([x]: readonly Tensor[]) => {
      left -= 100 * (x?.shape[0] ?? 0);
    };
    const deps = scoringDependencies({
      models: repositoryOf(lineModel({ before })),
      costs: HUNDRED_A_ROW,
      limits: { deadlineMarginMs: 500 },
    });
    const records = standardRecords(Array.from({ length: 120 }, (_, index) => lineRequest([index])));

    const outcomes = await statusesWith(() => left, records, deps);

    expect(outcomes.filter((status) => status === 'answered')).toHaveLength(50);
    expect(left).toBe(500);
  });

  it('is asked of each model alone: the runs of others are in other threads', async () => {
    const never = lineModel({ name: 'never', before: () => new Promise<void>(() => {}) });
    const deps = scoringDependencies({ models: repositoryOf(lineModel(), never), costs: HUNDRED_A_ROW });
    const records = standardRecords([{ ...lineRequest([1]), model_name: 'never' }, lineRequest([2])]);
    const deadline = new AbortController();
    const scoring = scoreRecords(records, deps, { remainingMs: () => 700, signal: deadline.signal });
    await whatCanHappen();
    deadline.abort();
    expect(statuses(await scoring)).toEqual(['DEADLINE', 'answered']);
  });

  it('answers what was started and hands back the rest, with nothing written for it', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 3000 }), async (atFirst) => {
        let left = atFirst;
        const startedWith: number[] = [];
        const before = () => {
          startedWith.push(left);
          left -= 250;
        };
        const models = repositoryOf(lineModel({ maxBatchRows: 1, before }));
        const deps = scoringDependencies({ models, costs: HUNDRED_A_ROW, limits: { deadlineMarginMs: 500 } });

        const outcomes = await statusesWith(() => left, TEN_RECORDS, deps);

        expect(startedWith.every((ms) => ms >= 600)).toBe(true);
        expect(startedWith.length > 0).toBe(atFirst >= 600);
        const answered = writtenRecords(deps.writer);
        expect(answered).toHaveLength(startedWith.length);
        expect(outcomes).toEqual(TEN_RECORDS.map((_, i) => (answered.includes(i) ? 'answered' : 'DEADLINE')));
      }),
      { numRuns: 50 },
    );
  });

  it('ends the search for a culprit: nobody is blamed for what was not run', async () => {
    let left = 10_000;
    const before = () => {
      left -= 4000;
      throw new Error('cannot score');
    };
    const deps = scoringDependencies({ models: repositoryOf(lineModel({ before })), costs: HUNDRED_A_ROW });
    const records = standardRecords([lineRequest([1]), lineRequest([2]), lineRequest([3]), lineRequest([4])]);

    const outcomes = await statusesWith(() => left, records, deps);

    expect(outcomes).toEqual(['answered', 'DEADLINE', 'DEADLINE', 'DEADLINE']);
    expect(answerTo(deps.writer, 0)).toBe('RUN_FAILED');
  });

  it('hands back a split request of which a part could not be started', async () => {
    let left = 1000;
    const before = () => {
      left -= 250;
    };
    const models = repositoryOf(lineModel({ maxBatchRows: 1, before }));
    const deps = scoringDependencies({ models, costs: HUNDRED_A_ROW, limits: { deadlineMarginMs: 500 } });
    const outcomes = await statusesWith(() => left, standardRecords([lineRequest([1, 2, 3])]), deps);
    expect(outcomes).toEqual(['DEADLINE']);
    expect(deps.writer.written).toEqual([]);
  });

  it('hands back what a run that outlasts it holds, and keeps what was answered before', async () => {
    const deadline = new AbortController();
    const before = () => {
      setTimeout(() => deadline.abort(), 0);
      return new Promise<void>(() => {});
    };
    const deps = scoringDependencies({ models: repositoryOf(lineModel({ before })) });
    const records = standardRecords(['no JSON', lineRequest([1])]);
    const outcomes = await scoreRecords(records, deps, { ...enoughTime(), signal: deadline.signal });
    expect(statuses(outcomes)).toEqual(['answered', 'DEADLINE']);
  });
});
