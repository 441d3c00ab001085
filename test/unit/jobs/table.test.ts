import { describe, expect, it } from '@jest/globals';
import { createRandom } from '../../../bench/workload/random.ts';
import type { Model } from '../../../lambda/core/model.ts';
import type { ScoreBodies } from '../../../lambda/core/score.ts';
import { lineReaderOf } from '../../../lambda/jobs/lineRows.ts';
import { documentVisitor, visitResults } from '../../../lambda/jobs/results.ts';
import type { Rows } from '../../../lambda/jobs/rows.ts';
import { createRowScoring, type TableModel } from '../../../lambda/jobs/scoreRows.ts';
import { lineModel, repositoryOf, scoreModels, scoringDependencies } from '../../helpers/scoring.ts';
import { DISTURBED_BY_LARGE, rowModel, SHARE_OF_LARGEST } from '../core/scoreRecords/mixingModels.ts';

const { limits } = scoringDependencies();
const INPUT = { input: 'x', datatype: 'FP32', shape: [1, 1], columns: ['x'] } as const;

/** Rows of CSV with one column, which is kept too. */
function rowsOf(cells: readonly (number | string)[]): Rows {
  const reader = lineReaderOf({ columns: ['x'], inputs: [INPUT], keep: ['x'] });
  for (const [index, cell] of cells.map(String).entries()) reader.add(index, cell, 0, cell.length);
  return reader.take();
}

async function scored(model: Model, rows: Rows, table: TableModel = { model, isMixing: false }) {
  const requests: string[][] = [];
  const inMemory = scoreModels(repositoryOf(model), limits, 100);
  const score: ScoreBodies = (bodies, ...others) => {
    requests.push(bodies.map(({ key }) => key));
    return inMemory(bodies, ...others);
  };
  const results = await createRowScoring({ score, observer: {}, table }).score(rows);
  const texts: string[] = [];
  visitResults(
    results,
    documentVisitor(results, (text) => void texts.push(text)),
  );
  return { requests, table, answers: texts.map((text) => JSON.parse(text)) };
}

describe('a cell of CSV', () => {
  const reader = lineReaderOf({
    columns: ['before', 'x'],
    inputs: [{ ...INPUT, datatype: 'FP64' }],
    keep: [],
  });
  const valueFrom = (text: string): unknown => {
    reader.add(0, `-,${text}`, 0, text.length + 2);
    const rows = reader.take();
    const failed = rows.failureOf(0)?.code;
    if (failed !== undefined) return failed;
    const request = rows.requestOf(0);
    return typeof request === 'string' ? request : request.inputs[0]?.data[0];
  };

  it('is the number that `Number` reads, of any digits, sign, point and exponent, or refused', () => {
    const random = createRandom(7);
    const pick = (from: string): string => from[Math.floor(random.next() * from.length)] ?? '';
    for (let round = 0; round < 30_000; round++) {
      const alphabet = random.next() < 0.7 ? '0123456789.' : '0123456789.-eE';
      const length = 1 + Math.floor(random.next() * 22);
      const text = (random.next() < 0.3 ? '-' : '') + Array.from({ length }, () => pick(alphabet)).join('');
      const expected = Number.isFinite(Number(text)) ? Number(text) : 'INVALID_DATA';
      expect([text, valueFrom(text)]).toEqual([text, expected]);
    }
  });

  it.each([
    ['+1.5', 1.5],
    [' 2 ', 2],
    ['+inf', Number.POSITIVE_INFINITY],
    ['++1', 'INVALID_DATA'],
    ['+-1', 'INVALID_DATA'],
    ['+ 1', 'INVALID_DATA'],
    ['0x10', 'INVALID_DATA'],
    ['1,5', 'INVALID_REQUEST'],
  ])('of %s is %s', (text, expected) => {
    expect(valueFrom(text)).toBe(expected);
  });
});

describe('rows of a table', () => {
  it('share requests, and have the answers that each would have alone', async () => {
    const rows = rowsOf([1, 2.5, '1e-3', 'inf', 5]);
    const { requests, answers } = await scored(lineModel(), rows);
    expect(requests).toEqual([['0', '1-4']]);
    const alone = await scored({ ...lineModel(), sharing: 'never' }, rows);
    expect(alone.requests).toEqual([['0', '1', '2', '3', '4']]);
    expect(answers).toEqual(alone.answers);
  });

  it('are cut into requests of as many rows as a run has at the most', async () => {
    const { requests } = await scored(lineModel({ maxBatchRows: 3 }), rowsOf([1, 2, 3, 4, 5, 6, 7]));
    expect(requests).toEqual([['0', '1-2', '3-5', '6']]);
  });

  it('are scored singly where their request fails, so that one row has the error', async () => {
    const before = ([x]: readonly { readonly data: unknown }[]): void => {
      if (Array.from(x?.data as Float32Array).includes(3)) throw new Error('three');
    };
    const { requests, answers } = await scored(lineModel({ before }), rowsOf([1, 2, 3, 4]));
    expect(requests).toEqual([
      ['0', '1-3'],
      ['1', '2', '3'],
    ]);
    expect(answers.map(({ code, outputs }) => code ?? outputs[0].data[0])).toEqual([3, 5, 'RUN_FAILED', 9]);
  });

  it('are not in the request where a cell is no value', async () => {
    const rows = rowsOf([1, 'two', 3, '', 5]);
    const { requests, answers } = await scored(lineModel(), rows);
    expect(requests).toEqual([['0', '2-4']]);
    expect(answers.map(({ code, outputs, kept }) => [code ?? outputs[0].data[0], kept])).toEqual([
      [3, { x: '1' }],
      ['INVALID_DATA', { x: 'two' }],
      [7, { x: '3' }],
      ['INVALID_DATA', { x: '' }],
      [11, { x: '5' }],
    ]);
  });

  it('are scored singly from the moment they are found to depend on each other', async () => {
    const { model } = rowModel(SHARE_OF_LARGEST, { sharing: 'compared' });
    const compared: Model = { ...model, independence: 'independent', sharing: 'compared' };
    const { requests, answers, table } = await scored(compared, rowsOf([1, 2, 4]));
    expect(requests).toEqual([
      ['0', '1-2'],
      ['0', '1', '2'],
    ]);
    expect(answers.map(({ outputs }) => outputs[0].data)).toEqual([[1], [1], [1]]);
    expect((await scored(compared, rowsOf([1, 2]), table)).requests).toEqual([['0', '1']]);
  });

  it('are requests of their own where only trials say that they are independent', async () => {
    const { model } = rowModel(DISTURBED_BY_LARGE, { sharing: 'compared' });
    expect((await scored({ ...model, independence: 'unknown', sharing: 'compared' }, rowsOf([1, 2]))).requests).toEqual(
      [['0', '1']],
    );
  });
});
