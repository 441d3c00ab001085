import { describe, expect, it } from '@jest/globals';
import type { ErrorCode } from '../../../../lambda/core/failure.ts';
import type { ModelRepository } from '../../../../lambda/core/model.ts';
import { echoModel, lineModel, repositoryOf, sumModel } from '../../../helpers/scoring.ts';
import { accepted, refusal, sentence } from './refusals.ts';

const LINE = repositoryOf(lineModel());
const SUM = repositoryOf(sumModel());
const MATRIX = repositoryOf(echoModel('FP32', [2, 2]));
const SCALAR = repositoryOf(echoModel('BYTES'));
const SUM_OF_ONE = { left: [1, 2], right: [3, 4], bias: 5 };

describe('instances', () => {
  const floats = (shape: number[], ...data: number[]) => ({ datatype: 'FP32', shape, data: Float32Array.from(data) });
  it.each([
    ['arrays', LINE, '[[1],[2]]', floats([2, 1], 1, 2)],
    ['scalars where a row is one', SCALAR, '["a","b"]', { datatype: 'BYTES', shape: [2], data: ['a', 'b'] }],
    ['objects by input name', LINE, '[{"x":[1]},{"x":[2]}]', floats([2, 1], 1, 2)],
    ['nested arrays', MATRIX, '[[[1,2],[3,4]]]', floats([1, 2, 2], 1, 2, 3, 4)],
  ])('may be %s, one per row', async (_, models, json, input) => {
    const instances = JSON.parse(json);
    const request = await accepted({ instances, id: 'a', parameters: {} }, models);
    expect(request.inputs).toEqual([input]);
    expect([request.id, request.reply, request.rows]).toEqual(['a', 'predictions', instances.length]);
  });

  it('name every input of a model with several', async () => {
    const { inputs } = await accepted({ instances: [SUM_OF_ONE, { bias: '6', right: [7, 8], left: [9, 10] }] }, SUM);
    expect(inputs).toEqual([
      { datatype: 'FP32', shape: [2, 2], data: Float32Array.of(1, 2, 9, 10) },
      { datatype: 'FP32', shape: [2, 2], data: Float32Array.of(3, 4, 7, 8) },
      { datatype: 'INT64', shape: [2], data: BigInt64Array.of(5n, 6n) },
    ]);
  });

  it.each<[title: string, models: ModelRepository, instances: unknown, code: ErrorCode, path: string, got: string]>([
    ['no array', LINE, { x: 1 }, 'INVALID_REQUEST', 'instances', 'an object'],
    ['empty', LINE, [], 'INVALID_REQUEST', 'instances', 'an empty one'],
    ['arrays for several inputs', SUM, [[1, 2]], 'MISSING_INPUT', 'instances[0]', 'an array of 2'],
    ['without an input', SUM, [SUM_OF_ONE, { left: [1, 2], bias: 1 }], 'MISSING_INPUT', 'instances[1]', "no 'right'"],
    ['with an unknown input', SUM, [{ ...SUM_OF_ONE, wrong: 1 }], 'UNKNOWN_INPUT', 'instances[0]', '"wrong"'],
    ['of two kinds, objects first', LINE, [{ x: [1] }, [2]], 'INVALID_REQUEST', 'instances[1]', 'an array of 1'],
    ['of two kinds, arrays first', LINE, [[1], { x: [2] }], 'INVALID_SHAPE', 'instances[1]', 'an object'],
    ['one of them for a matrix', MATRIX, JSON.parse('[[1,2],[3,4]]'), 'INVALID_SHAPE', 'instances[0]', '[2, 2]'],
    ['scalars by name', LINE, [{ x: 1 }], 'INVALID_SHAPE', 'instances[0].x', '1'],
    ['too deep', LINE, [[[1]]], 'INVALID_DATA', 'instances[0][0]', 'an array of 1'],
    ['ragged', LINE, [[1], [1, 2]], 'INVALID_SHAPE', 'instances[1]', 'an array of 2'],
    ['of a wrong width', MATRIX, JSON.parse('[[[1,2,3],[4,5,6]]]'), 'INVALID_SHAPE', 'instances[0]', '[1, 2, 3]'],
    ['of a wrong type', MATRIX, JSON.parse('[[[1,2],[3,"x"]]]'), 'INVALID_DATA', 'instances[0][1][1]', '"x"'],
    ['of a wrong type, by name', SUM, [{ ...SUM_OF_ONE, bias: 0.5 }], 'INVALID_DATA', 'instances[0].bias', '0.5'],
  ])('are refused when they are %s', async (_, models, instances, code, path, got) => {
    expect(sentence(await refusal({ instances }, models))).toEqual({ code, path, got });
  });

  it('are refused beyond the limit of rows', async () => {
    expect((await accepted({ instances: new Array(8).fill([1]) }, LINE)).rows).toBe(8);
    expect((await refusal({ instances: new Array(9).fill([1]) }, LINE)).code).toBe('TOO_MANY_ROWS');
  });
});
