import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { scoreRecords } from '../../../lambda/core/scoreRecords.ts';
import { enoughTime, lineModel, memoryWriter, repositoryOf, scoringDependencies } from '../../helpers/models.ts';
import { lineRequest, standardRecords } from '../../helpers/records.ts';
import { closedGate, whatCanHappen } from '../gate.ts';
import { answerTo, statuses } from './answers.ts';

/** One micro-batch of one record each. */
const SIX_RECORDS = standardRecords(Array.from({ length: 6 }, (_, index) => lineRequest([index])));

describe('between stack and write', () => {
  it('there are two micro-batches while their writes are open, and no third', async () => {
    const gate = closedGate();
    let runs = 0;
    const before = () => void runs++;
    const deps = scoringDependencies({
      models: repositoryOf(lineModel({ maxBatchRows: 1, before })),
      writer: memoryWriter({ before: () => gate.opened }),
    });

    const scoring = scoreRecords(SIX_RECORDS, deps, enoughTime());
    await whatCanHappen();
    const startedWhileNothingWasWritten = runs;
    gate.open();
    await scoring;

    expect([startedWhileNothingWasWritten, runs]).toEqual([2, 6]);
  });

  it('a second micro-batch runs while the first is written', async () => {
    const [firstWrite, secondRun] = [closedGate(), closedGate()];
    const order: string[] = [];
    const deps = scoringDependencies({
      models: repositoryOf(
        lineModel({
          maxBatchRows: 1,
          before: async ([x]) => {
            if (x?.data[0] === 1) await secondRun.opened;
            order.push(`run ${x?.data[0]}`);
          },
        }),
      ),
      writer: memoryWriter({ before: () => firstWrite.opened.then(() => void order.push('write')) }),
    });

    const scoring = scoreRecords(SIX_RECORDS.slice(0, 2), deps, enoughTime());
    await whatCanHappen();
    secondRun.open();
    await whatCanHappen();
    firstWrite.open();
    await scoring;

    expect(order.slice(0, 3)).toEqual(['run 0', 'run 1', 'write']);
  });

  it('there are never more than two, in whatever order runs and writes end', async () => {
    await fc.assert(
      fc.asyncProperty(fc.scheduler(), async (scheduler) => {
        let inThePipe = 0;
        let most = 0;
        const before = async () => {
          inThePipe += 1;
          most = Math.max(most, inThePipe);
          await scheduler.schedule(Promise.resolve(), 'run');
        };
        const writing = async (results: readonly unknown[]) => {
          await scheduler.schedule(Promise.resolve(), 'write');
          inThePipe -= results.length;
        };
        const deps = scoringDependencies({
          models: repositoryOf(lineModel({ maxBatchRows: 1, before })),
          writer: memoryWriter({ before: writing }),
        });

        const outcomes = await scheduler.waitFor(scoreRecords(SIX_RECORDS, deps, enoughTime()));

        expect(statuses(outcomes)).toEqual(new Array(6).fill('answered'));
        expect(SIX_RECORDS.map((_, index) => answerTo(deps.writer, index))).toEqual([[1], [3], [5], [7], [9], [11]]);
        expect(most).toBeLessThanOrEqual(2);
      }),
      { numRuns: 100 },
    );
  });

  it('errors are written at once, while the first micro-batch still runs', async () => {
    const running = closedGate();
    const deps = scoringDependencies({ models: repositoryOf(lineModel({ before: () => running.opened })) });
    const scoring = scoreRecords(standardRecords(['no JSON', lineRequest([1])]), deps, enoughTime());

    await whatCanHappen();
    expect(answerTo(deps.writer, 0)).toBe('INVALID_JSON');
    running.open();
    await scoring;
  });
});
