import { afterEach, describe, expect, it, jest } from '@jest/globals';
import fc from 'fast-check';
import type { Tensor } from '../../../../lambda/core/tensor.ts';
import { scoreRecords } from '../../../../lambda/hosts/records.ts';
import { closedGate, whatCanHappen } from '../../../helpers/manualClock.ts';
import {
  echoModel,
  enoughTime,
  lineModel,
  lineRequest,
  memoryWriter,
  repositoryOf,
  scoringDependencies,
  standardRecords,
} from '../../../helpers/scoring.ts';
import { answerTo, statuses, writtenRecords } from './answers.ts';

/** One micro-batch of one record each. */
const SIX_RECORDS = standardRecords(Array.from({ length: 6 }, (_, index) => lineRequest([index])));

afterEach(() => void jest.useRealTimers());

describe('between stack and write', () => {
  it('there are never more than two, in whatever order runs and writes end', async () => {
    await fc.assert(
      fc.asyncProperty(fc.scheduler(), async (scheduler) => {
        let running = 0;
        let max = 0;
        const before = async () => {
          running += 1;
          max = Math.max(max, running);
          await scheduler.schedule(Promise.resolve(), 'run');
          running -= 1;
        };
        const writing = () => scheduler.schedule(Promise.resolve(), 'write');
        const deps = scoringDependencies({
          models: repositoryOf(lineModel({ maxBatchRows: 1, before })),
          writer: memoryWriter({ before: writing }),
        });

        const outcomes = await scheduler.waitFor(scoreRecords(SIX_RECORDS, deps, enoughTime()));

        expect(statuses(outcomes)).toEqual(new Array(6).fill('answered'));
        expect(writtenRecords(deps.writer).toSorted()).toEqual([0, 1, 2, 3, 4, 5]);
        expect(SIX_RECORDS.map((_, index) => answerTo(deps.writer, index))).toEqual([[1], [3], [5], [7], [9], [11]]);
        expect(max).toBeLessThanOrEqual(2);
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

describe('results', () => {
  /** Scores one row at a time, the sixth run and all writes held open; `offered` are the values of each write. */
  function scoringWithOpenWrites() {
    const [writes, lastRun] = [closedGate(), closedGate()];
    const offered: number[][] = [];
    const deps = scoringDependencies({
      models: repositoryOf(
        lineModel({ maxBatchRows: 1, before: ([x]) => (x?.data[0] === 5 ? lastRun.opened : undefined) }),
      ),
      writer: memoryWriter({
        before(results) {
          offered.push(results.map(({ body }) => (JSON.parse(body).outputs[0].data[0] - 1) / 2));
          return writes.opened;
        },
      }),
    });
    return { writes, lastRun, offered, scoring: scoreRecords(SIX_RECORDS, deps, enoughTime()) };
  }

  it('that become ready while others are written share the next write', async () => {
    const { writes, lastRun, offered, scoring } = scoringWithOpenWrites();
    await whatCanHappen();
    writes.open();
    await whatCanHappen();
    lastRun.open();
    expect(statuses(await scoring)).toEqual(new Array(6).fill('answered'));
    expect(offered).toEqual([[0], [1, 2, 3, 4], [5]]);
  });

  it('do not wait for the write before once nothing more can join them', async () => {
    const { writes, lastRun, offered, scoring } = scoringWithOpenWrites();
    lastRun.open();
    await whatCanHappen();
    expect(offered).toEqual([[0], [1, 2, 3, 4, 5]]);
    writes.open();
    await scoring;
  });

  it('wait 20 ms for a write that gets no answer, and no longer', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate'] });
    const { writes, lastRun, offered, scoring } = scoringWithOpenWrites();
    await whatCanHappen();
    await jest.advanceTimersByTimeAsync(19);
    const after19 = [...offered];
    await jest.advanceTimersByTimeAsync(1);
    expect([after19, offered]).toEqual([[[0]], [[0], [1, 2, 3, 4]]]);
    writes.open();
    lastRun.open();
    await scoring;
  });

  it('of 4 MiB that are not written hold up the runs, and no more of them are made', async () => {
    const writes = closedGate();
    let runs = 0;
    const deps = scoringDependencies({
      models: repositoryOf(echoModel('BYTES', [], { maxBatchRows: 1, before: () => void runs++ })),
      writer: memoryWriter({ before: () => writes.opened }),
    });
    const data = ['x'.repeat(200_000)];
    const request = { inputs: [{ name: 'in', datatype: 'BYTES', shape: [1], data }] };

    const scoring = scoreRecords(standardRecords(new Array(40).fill(request)), deps, enoughTime());
    for (let turn = 0; turn < 100; turn++) await whatCanHappen();
    const runsBefore = runs;
    writes.open();

    expect(statuses(await scoring)).toEqual(new Array(40).fill('answered'));
    // 200 KB each: with the 21st it is more than 4 MiB, and there is another micro-batch beside it.
    expect([runsBefore, runs]).toEqual([22, 40]);
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

  it('and 32 MiB of them wait to be scored, no more are decoded', async () => {
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
    expect(decodedBefore).toBe(33);
    expect(found.bodies).toBe(40);
  });

  it('more than 32 MiB of them are scored in parts, where they would all fit into one run', async () => {
    const deps = scoringDependencies({ models: repositoryOf(lineModel({ maxBatchRows: 512 })) });
    const bodies = Array.from({ length: 40 }, (_, index) => JSON.stringify(lineRequest([index])).padEnd(1024 * 1024));
    expect(statuses(await scoreRecords(standardRecords(bodies), deps, enoughTime()))).toEqual(
      new Array(40).fill('answered'),
    );
    expect(deps.reports.map(({ rows }) => rows)).toEqual([33, 7]);
  });
});
