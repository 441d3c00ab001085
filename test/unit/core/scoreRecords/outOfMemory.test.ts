import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type Model, OutOfMemoryError } from '../../../../lambda/core/model.ts';
import type { Tensor } from '../../../../lambda/core/tensor.ts';
import { scoreRecords } from '../../../../lambda/hosts/records.ts';
import {
  enoughTime,
  type InMemoryModelOptions,
  lineModel,
  lineRequest,
  repositoryOf,
  scoringDependencies,
  standardRecords,
  tokensModel,
  tokensRequest,
} from '../../../helpers/scoring.ts';
import { answerTo, statuses } from './answers.ts';

/** Lets runs of so many elements pass, and remembers the elements of those that came. */
function memoryFor(max: number) {
  const runs: number[] = [];
  const before = (inputs: readonly Tensor[]): void => {
    const elements = inputs.reduce((sum, { data }) => sum + data.length, 0);
    runs.push(elements);
    if (elements > max) throw new OutOfMemoryError(`${elements} elements`);
  };
  return { runs, before };
}

/** Lines of one row, numbered. */
const lines = (count: number): unknown[] => Array.from({ length: count }, (_, index) => lineRequest([index]));

/** Calls of one process, one after the other. */
function processOf(model: Model) {
  const deps = scoringDependencies({ models: repositoryOf(model) });
  return {
    deps,
    async call(bodies: readonly unknown[]) {
      const outcomes = await scoreRecords(standardRecords(bodies), deps, enoughTime());
      return { statuses: statuses(outcomes), answers: () => bodies.map((_, record) => answerTo(deps.writer, record)) };
    },
  };
}

function lineProcess(max: number, options: InMemoryModelOptions = {}) {
  const { runs, before } = memoryFor(max);
  return { runs, ...processOf(lineModel({ ...options, before })) };
}

describe('a run that needs more memory than there is', () => {
  it('makes half of it the most that the process runs from then on, from the start of a plan', async () => {
    const { runs, deps, call } = lineProcess(6);
    await call(lines(10));
    expect(runs).toEqual([10, 5, 5]);
    runs.length = 0;

    await call(lines(12));

    expect(runs).toEqual([5, 5, 2]);
    expect(deps.reports.slice(-3).map(({ closedBecause }) => closedBecause)).toEqual(['budget', 'budget', 'end']);
  });

  it('of a request alone says nothing of how many fit together', async () => {
    const { runs, call } = lineProcess(6);
    await call([lineRequest([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])]);
    expect(runs).toEqual([10, 5, 5]);
    runs.length = 0;

    await call(lines(6));

    expect(runs).toEqual([6]);
  });

  it('does not keep a row from being tried that is larger than the process has ever run', async () => {
    let max = 20;
    const before = (inputs: readonly Tensor[]): void => memoryFor(max).before(inputs);
    const { call } = processOf(tokensModel({ before }));
    const long = tokensRequest([Array.from({ length: 50 }, (_, index) => index)]);
    expect((await call([long])).statuses).toEqual(['OUT_OF_MEMORY']);
    max = 200;
    expect((await call([long])).statuses).toEqual(['answered']);
  });

  it('is not tried again at the same size, padded to the allowed size that was too large', async () => {
    const { runs, call } = lineProcess(4, { allowedSizes: [8], maxBatchRows: 8 });
    const { statuses } = await call(lines(8));
    expect(statuses).toEqual(new Array(8).fill('OUT_OF_MEMORY'));
    expect(runs).toEqual([8]);
  });

  it('does not leave the allowed sizes of a model run for one row each when there is memory again', async () => {
    let max = 4;
    const runs: number[] = [];
    const before = (inputs: readonly Tensor[]): void => {
      runs.push(inputs[0]?.data.length ?? 0);
      memoryFor(max).before(inputs);
    };
    const { call } = processOf(lineModel({ allowedSizes: [8], maxBatchRows: 8, before }));
    await call(lines(8));
    max = 100;
    runs.length = 0;
    expect((await call(lines(16))).statuses).toEqual(new Array(16).fill('answered'));
    expect(runs).toEqual([8, 8]);
  });

  it('costs nobody an answer, whatever the memory, lengths and rows', async () => {
    const anyRow = fc.integer({ min: 1, max: 8 }).map((length) => Array.from({ length }, (_, index) => index));
    const anyBody = fc.tuple(anyRow, fc.integer({ min: 1, max: 4 })).map(([row, rows]) => new Array(rows).fill(row));
    const work = fc.tuple(fc.array(anyBody, { minLength: 1, maxLength: 8 }), fc.integer({ min: 0, max: 60 }));
    await fc.assert(
      fc.asyncProperty(work, async ([rows, max]) => {
        const { before } = memoryFor(max);
        const { call } = processOf(tokensModel({ before }));
        const bodies = rows.map((some) => tokensRequest(some));
        const elementsOfOneRow = rows.map(([row]) => 2 * row.length + 1);
        const expected = elementsOfOneRow.map((elements) => (elements <= max ? 'answered' : 'OUT_OF_MEMORY'));
        expect((await call(bodies)).statuses).toEqual(expected);
        expect((await call(bodies)).statuses).toEqual(expected);
      }),
      { numRuns: 100 },
    );
  });
});
