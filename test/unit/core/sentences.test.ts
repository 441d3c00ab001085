import { describe, expect, it } from '@jest/globals';
import type { MicroBatch } from '../../../lambda/core/microBatch.ts';
import { echoModel } from '../../helpers/scoring.ts';
import { type Piece, type SentenceOptions, sentenceModel } from './plan/runCosts.ts';
import { planAll, requestOf, zeros } from './requests.ts';

describe('a micro-batch of sentences', () => {
  const plan = (pieces: readonly Piece[], options: SentenceOptions, maxBatchElements = 10_000): MicroBatch[] => {
    const model = sentenceModel(options);
    const requests = pieces.map(({ rows, length }) => zeros(model, rows, length));
    return planAll(requests, { maxBatchElements });
  };
  const lengths = (...sizes: readonly number[]): Piece[] => sizes.map((length) => ({ rows: 1, length }));

  const three = { rows: 3, length: 5 };
  it.each<[title: string, Piece[], SentenceOptions, number, expected: string]>([
    ['full at the most rows', lengths(5, 5, 5), { maxBatchRows: 2 }, 1000, '2x5 full, 1x5 end'],
    ['full before too many', [three, { rows: 2, length: 6 }], { maxBatchRows: 4 }, 1000, '3x5 full, 2x6 end'],
    ['budget at the most elements', lengths(4, 4, 4), {}, 8, '2x4 budget, 1x4 end'],
    ['budget before one too long for all', lengths(10, 1), { maxBatchRows: 4 }, 12, '1x1 budget, 1x10 budget'],
    ['budget for what was cut by elements', [{ rows: 3, length: 4 }], {}, 8, '2x4 budget, 1x4 end'],
    ['budget at a lower allowed size', lengths(5, 5, 5), { allowedSizes: [1, 2, 8] }, 20, '2x5 budget, 1x5 end'],
    ['padding where another run costs less', lengths(1000, 1), {}, 10_000, '1x1 padding, 1x1000 end'],
    ['end where nothing is left', lengths(30, 1), {}, 1000, '2x30 end'],
    ['full at the top allowed size', lengths(5, 5), { allowedSizes: [2], maxBatchRows: 2 }, 1000, '2x5 full'],
  ])('says why it was closed: %s', (_, pieces, options, maxBatchElements, expected) => {
    const batches = plan(pieces, options, maxBatchElements);
    expect(batches.map((one) => `${one.rows}x${one.paddedLength} ${one.closedBecause}`).join(', ')).toBe(expected);
  });

  it('holds the rest of a request that was cut, with others', () => {
    const pieces = [
      { rows: 7, length: 5 },
      { rows: 2, length: 5 },
    ];
    const batches = plan(pieces, { maxBatchRows: 3 });
    const cuts = batches.map(({ parts }) => parts.map(({ fromRow, toRow }) => [fromRow, toRow]));
    expect(JSON.stringify(cuts)).toBe('[[[0,3]],[[3,6]],[[6,7],[0,2]]]');
    expect(batches.map(({ closedBecause }) => closedBecause)).toEqual(['full', 'full', 'full']);
  });

  it('holds sentences of one signature: what is not ragged must agree', () => {
    const ragged = { name: 'length', inputs: [{ axis: 1, pad: 0 }], outputs: [1], allowedSizes: [] };
    const model = echoModel('FP32', ['length', 'width'], { ragged });
    const sized = (length: number, width: number) =>
      requestOf(model, [{ datatype: 'FP32', shape: [1, length, width], data: new Float32Array(length * width) }]);
    const batches = planAll([sized(2, 3), sized(3, 2), sized(5, 3)], { maxBatchElements: 1000 });
    expect(batches.map(({ rows, paddedLength }) => [rows, paddedLength])).toEqual([
      [2, 5],
      [1, 3],
    ]);
  });
});
