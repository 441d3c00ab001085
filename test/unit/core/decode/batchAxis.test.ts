import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { isPacked, isRefused } from '../../../../lambda/core/microBatch.ts';
import { modelOf, repositoryOf, spec } from '../../../helpers/scoring.ts';
import { decode, refusal } from './refusals.ts';

/** `input` `[rows, 4]` and `state` `[2, rows, 3]`; the deployment gives `sr`. */
const VOICE = repositoryOf({
  ...modelOf({
    inputs: [spec('input', 'FP32', 'batch', 4), { ...spec('state', 'FP32', 'batch', 2, 3), batchAxis: 1 }],
    outputs: [],
  }),
  constants: ['sr'],
});
const INPUT = { name: 'input', datatype: 'FP32', shape: [1, 4], data: [1, 2, 3, 4] };

describe('hostile shapes and data', () => {
  const anyDim = fc.oneof(
    fc.integer({ min: 0, max: 5 }),
    fc.constantFrom<unknown>(-1, 0.5, 1e15, 1e300, null, '2', [2]),
  );
  const anyShape = fc.oneof(
    { weight: 4, arbitrary: fc.tuple(fc.constant(2), fc.integer({ min: 1, max: 3 }), fc.constant(3)) },
    { weight: 2, arbitrary: fc.array(anyDim, { maxLength: 5 }) },
    { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 1 }) },
  );
  const anyLevel = fc.letrec<{ nested: unknown }>((tie) => ({
    nested: fc.oneof({ maxDepth: 4 }, fc.integer(), fc.array(tie('nested'), { maxLength: 4 })),
  })).nested;
  const anyData = fc.oneof(
    fc.array(fc.integer(), { maxLength: 20 }),
    fc.constantFrom(6, 12, 18).map((length) => new Array<number>(length).fill(1)),
    anyLevel,
    fc.jsonValue({ maxDepth: 2 }),
  );

  it('are refused, or decoded to as many elements as the shape says, rows first', async () => {
    await fc.assert(
      fc.asyncProperty(anyShape, anyData, fc.integer({ min: 1, max: 3 }), async (shape, data, rows) => {
        const input = { ...INPUT, shape: [rows, 4], data: new Array(4 * rows).fill(0) };
        const request = await decode({ inputs: [input, { name: 'state', datatype: 'FP32', shape, data }] }, VOICE);
        if (isPacked(request)) throw new Error('expected one request, not packed');
        if (isRefused(request)) return void expect(request.failure.code).toMatch(/^INVALID_(SHAPE|DATA)$/);
        expect(request.inputs[1]).toMatchObject({ shape: [rows, 2, 3], data: { length: 6 * rows } });
      }),
      { numRuns: 500 },
    );
  });
});

describe('a constant of the deployment', () => {
  it('is refused in a request, as what it is', async () => {
    const state = { name: 'state', datatype: 'FP32', shape: [2, 1, 3], data: [1, 2, 3, 4, 5, 6] };
    const sr = { name: 'sr', datatype: 'INT64', shape: [], data: [16_000] };
    expect(await refusal({ inputs: [INPUT, state, sr] }, VOICE)).toMatchObject({
      code: 'UNKNOWN_INPUT',
      message:
        "inputs[2].name: expected 'input', 'state' of model 'line', got \"sr\", a constant of the deployment; leave it out",
    });
  });
});
