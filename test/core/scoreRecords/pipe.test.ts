import { afterEach, describe, expect, it, jest } from '@jest/globals';
import fc from 'fast-check';
import { scoreRecords } from '../../../lambda/core/scoreRecords.ts';
import type { Tensor } from '../../../lambda/core/tensor/tensor.ts';
import { enoughTime, lineModel, memoryWriter, repositoryOf, scoringDependencies } from '../../helpers/models.ts';
import { lineRequest, standardRecords } from '../../helpers/records.ts';
import { closedGate, whatCanHappen } from '../gate.ts';
import { answerTo, statuses } from './answers.ts';

/** One micro-batch of one record each. */
const SIX_RECORDS = standardRecords(Array.from({ length: 6 }, (_, index) => lineRequest([index])));

afterEach(() => void jest.useRealTimers());

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

describe('while later bodies are decoded', () => {
  const pointer = ['software.amazon.payloadoffloading.PayloadS3Pointer', { s3BucketName: 'b', s3Key: 'k' }];

  /** More than are decoded together, and one at the end whose payload is not there yet. */
  function scoringWithOpenPayload(records: number, maxBatchRows: number) {
    const payload = closedGate();
    const rows: number[] = [];
    const before = ([x]: readonly Tensor[]) => void rows.push(x?.shape[0] ?? 0);
    const deps = scoringDependencies({
      models: repositoryOf(lineModel({ maxBatchRows, before })),
      payloads: { read: () => payload.opened.then(() => JSON.stringify(lineRequest([records - 1]))) },
    });
    const lines = Array.from({ length: records - 1 }, (_, index) => lineRequest([index]));
    const scoring = scoreRecords(standardRecords([...lines, pointer]), deps, enoughTime());
    return { payload, rows, deps, scoring };
  }

  it('a micro-batch that is full runs and is written', async () => {
    const { payload, rows, deps, scoring } = scoringWithOpenPayload(300, 200);

    await whatCanHappen();
    await whatCanHappen();
    const [rowsBefore, writtenBefore] = [[...rows], deps.writer.written.length];
    payload.open();

    expect(statuses(await scoring)).toEqual(new Array(300).fill('answered'));
    expect([rowsBefore, writtenBefore]).toEqual([[200], 200]);
    expect(rows).toEqual([200, 100]);
    expect(answerTo(deps.writer, 299)).toEqual([599]);
  });

  it('one that is not full waits for more', async () => {
    const { payload, rows, scoring } = scoringWithOpenPayload(300, 512);

    await whatCanHappen();
    await whatCanHappen();
    expect(rows).toEqual([]);
    payload.open();
    await scoring;
    expect(rows).toEqual([300]);
  });

  it('and 16 MiB of them wait to be scored, no more are decoded', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate'] });
    const [running, found] = [closedGate(), { bodies: 0 }];
    const model = lineModel({ maxBatchRows: 1, before: () => running.opened });
    const models = {
      find: () => {
        found.bodies += 1;
        return model;
      },
    };
    const deps = scoringDependencies({ models });
    const bodies = Array.from({ length: 40 }, (_, index) => JSON.stringify(lineRequest([index])).padEnd(1024 * 1024));

    const scoring = scoreRecords(standardRecords(bodies), deps, enoughTime());
    for (let step = 0; step < 100; step++) {
      // Decoding waits for a slow model in steps of 20 ms.
      await jest.advanceTimersByTimeAsync(20);
      await whatCanHappen();
    }
    const decodedBefore = found.bodies;
    jest.useRealTimers();
    running.open();

    expect(statuses(await scoring)).toEqual(new Array(40).fill('answered'));
    expect(decodedBefore).toBe(17);
    expect(found.bodies).toBe(40);
  });

  it('a transform that decodes slowly holds up no earlier run', async () => {
    const slow = closedGate();
    const runs: number[] = [];
    const decode = async ({ x }: { readonly x?: unknown }) => {
      if (x === 'slow') await slow.opened;
      return [{ name: 'x', datatype: 'FP32' as const, shape: [1, 1], data: [1] }];
    };
    const before = ([x]: readonly Tensor[]) => void runs.push(x?.shape[0] ?? 0);
    const models = repositoryOf(lineModel({ maxBatchRows: 256, transform: { decode }, before }));
    const deps = scoringDependencies({ models });
    const bodies = Array.from({ length: 257 }, (_, index) => ({ x: index < 256 ? 'fast' : 'slow' }));

    const scoring = scoreRecords(standardRecords(bodies), deps, enoughTime());
    await whatCanHappen();
    await whatCanHappen();
    const before256 = [...runs];
    slow.open();

    expect(statuses(await scoring)).toEqual(new Array(257).fill('answered'));
    expect([before256, runs]).toEqual([[256], [256, 1]]);
  });
});
