import { describe, expect, it } from '@jest/globals';
import type { ErrorCode } from '../../../../lambda/core/failure.ts';
import {
  echoModel,
  lineRequest,
  modelOf,
  repositoryOf,
  spec,
  sumModel,
  sumRequest,
  tokensModel,
  tokensRequest,
} from '../../../helpers/scoring.ts';
import { accepted, refusal, sentence } from './refusals.ts';

/** `[rows, 2, 2]`, the sizes baked into the model. */
const FIXED = repositoryOf(echoModel('FP32', [2, 2]));
/** `[rows, width]`, any width. */
const SYMBOLIC = repositoryOf(echoModel('FP32', ['width']));

function request(shape: unknown, data: unknown) {
  return { inputs: [{ name: 'in', datatype: 'FP32', shape, data }] };
}

describe('the datatype', () => {
  it.each([
    ['another one', 'FP64', '"FP64"'],
    ['a name from the prototype', 'constructor', '"constructor"'],
    ['left out', undefined, 'nothing'],
  ])('is refused when it is %s', async (_, datatype, got) => {
    const failed = await refusal({ inputs: [{ name: 'in', datatype, shape: [1, 2, 2], data: [1, 2, 3, 4] }] }, FIXED);
    expect(sentence(failed)).toEqual({ code: 'INVALID_DATATYPE', path: 'inputs[0].datatype', got });
  });

  it('says which there are when it is none of them', async () => {
    const { message } = await refusal({ inputs: [{ name: 'in', datatype: 'FLOAT' }] }, FIXED);
    expect(message).toBe(
      'inputs[0].datatype (\'in\'): expected "FP32", got "FLOAT", which is none of BOOL, UINT8, UINT16, UINT32, ' +
        "UINT64, INT8, INT16, INT32, INT64, FP16, FP32, FP64, BYTES; send the model's datatype, because nothing is converted",
    );
  });
});

describe('the shape', () => {
  it.each([
    ['no array', 4, '4'],
    ['of too few dims', [1, 4], '[1, 4]'],
    ['of other sizes than the model bakes in', [1, 2, 3], '[1, 2, 3]'],
    ['of no rows', [0, 2, 2], '[0, 2, 2]'],
    ['of half a row', [0.5, 2, 2], '[0.5, 2, 2]'],
    ['of more rows than a number can count', [1e300, 2, 2], '[1e+300, 2, 2]'],
  ])('is refused when it is %s', async (_, shape, got) => {
    const failed = await refusal(request(shape, [1, 2, 3, 4]), FIXED);
    expect(sentence(failed)).toEqual({ code: 'INVALID_SHAPE', path: 'inputs[0].shape', got });
  });

  it.each<[title: string, shape: number[]]>([
    ['no row', [0, 0, 3]],
    ['nothing where the model has something', [1, 0, 3]],
    ['nothing beside more than a body could hold', [1, 2, 0, 2 ** 50]],
  ])('is refused when it is of %s', async (_, shape) => {
    const models = repositoryOf(echoModel('FP32', shape.length === 3 ? [2, 3] : [2, 'past', 'width']));
    expect(await refusal(request(shape, []), models)).toMatchObject({ code: 'INVALID_SHAPE' });
  });

  const EMPTY = JSON.parse('[[[],[]],[[],[]]]');
  it.each<[form: string, body: object]>([
    ['flat', request([2, 2, 0, 3], [])],
    ['nested', request([2, 2, 0, 3], EMPTY)],
    ['raw', { inputs: [{ name: 'in', datatype: 'FP32', shape: [2, 2, 0, 3] }], raw_input_contents: [''] }],
    ['short', { instances: EMPTY }],
  ])('may be empty within its rows, as a past of which there is none yet: %s', async (_, body) => {
    const { rows, inputs } = await accepted(body, repositoryOf(echoModel('FP32', [2, 'past', 3])));
    expect([rows, inputs[0]?.shape]).toEqual([2, [2, 2, 0, 3]]);
  });
});

describe('shape and data together', () => {
  it.each<[title: string, shape: number[], data: unknown, code: ErrorCode, path: string, got: string]>([
    ['data that is an object', [1, 2], { 0: 1 }, 'INVALID_DATA', 'inputs[0].data', 'an object'],
    ['too few elements', [2, 2], [1, 2, 3], 'INVALID_SHAPE', 'inputs[0].data', '3'],
    ['too many elements', [2, 2], [1, 2, 3, 4, 5], 'INVALID_SHAPE', 'inputs[0].data', '5'],
    ['8e15 elements that are not there', [8, 1e15], [1], 'INVALID_SHAPE', 'inputs[0].data', '1'],
    ['8e15 nested elements that are not there', [8, 1e15], [[1]], 'INVALID_SHAPE', 'inputs[0].data', 'an array of 1'],
    ['ragged nesting', [2, 2], [[1, 2], [3]], 'INVALID_SHAPE', 'inputs[0].data[1]', 'an array of 1'],
    ['nesting that is too deep', [1, 2], [[[1], [2]]], 'INVALID_DATA', 'inputs[0].data[0][0]', 'an array of 1'],
    ['flat data with an array in it', [1, 2], [1, [2]], 'INVALID_DATA', 'inputs[0].data[1]', 'an array of 1'],
  ])('are refused for %s', async (_, shape, data, code, path, got) => {
    expect(sentence(await refusal(request(shape, data), SYMBOLIC))).toEqual({ code, path, got });
  });

  it('find a bad element by its place in nested data', async () => {
    const nested = JSON.parse('[[[1,2],[3,4]],[[5,6],["x",8]]]');
    expect(sentence(await refusal(request([2, 2, 2], nested), FIXED))).toEqual({
      code: 'INVALID_DATA',
      path: 'inputs[0].data[1][1][0]',
      got: '"x"',
    });
  });
});

describe('the number of rows', () => {
  const models = repositoryOf(echoModel('FP32', [1]));

  it('is accepted up to the limit, and refused above it', async () => {
    expect((await accepted(request([8, 1], new Array(8).fill(0)), models)).rows).toBe(8);
    expect(sentence(await refusal(request([9, 1], new Array(9).fill(0)), models))).toEqual({
      code: 'TOO_MANY_ROWS',
      path: 'inputs',
      got: '9',
    });
  });
});

describe('axes that inputs share', () => {
  const sum = repositoryOf(sumModel());
  const [left, right, bias] = sumRequest([{ left: [1, 2], right: [3, 4], bias: 5 }]).inputs as [object, object, object];

  it('may take two sizes, as in ONNX Runtime: exporters give one name to axes that differ', async () => {
    const odd = { ...right, shape: [1, 3], data: [1, 2, 3] };
    const { inputs } = await accepted({ inputs: [left, odd, bias] }, sum);
    expect(inputs.map(({ shape }) => shape)).toEqual([[1, 2], [1, 3], [1]]);
  });

  it('are refused when the ragged axis takes two sizes, for they are padded to one', async () => {
    const body = tokensRequest([[1, 2]]);
    const [tokens, offset, mask] = body.inputs as [object, object, object];
    const longer = { ...mask, shape: [1, 3], data: [true, true, true] };
    const failed = await refusal({ inputs: [tokens, offset, longer] }, repositoryOf(tokensModel()));
    expect(failed.message).toBe(
      "inputs[2].shape ('mask'): expected [rows, length], where 'length' is 2 in this request's other inputs, got [1, 3]; send that shape",
    );
  });

  it('are refused when inputs have different numbers of rows', async () => {
    const odd = { ...bias, shape: [2], data: [5, 6] };
    expect((await refusal({ inputs: [left, right, odd] }, sum)).message).toBe(
      "inputs[2].shape ('bias'): expected [rows], where 'rows' is 1 in this request's other inputs, got [2]; send that shape",
    );
  });

  it('take any number of rows where the model bakes one in, for the planner pads it', async () => {
    const models = repositoryOf(modelOf({ inputs: [spec('x', 'FP32', 4, 1)], outputs: [] }));
    expect((await accepted(lineRequest([1, 2, 3]), models)).rows).toBe(3);
  });
});
