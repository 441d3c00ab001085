import { describe, expect, it } from '@jest/globals';
import { firstDifference } from '../../../lambda/core/difference.ts';
import type { Datatype, Tensor, TensorData } from '../../../lambda/core/tensor.ts';

const ARRAYS = { FP16: Float16Array, FP32: Float32Array, FP64: Float64Array, BOOL: Uint8Array } as const;

/** Two rows, of which the second holds these values. */
function rowsOf(datatype: Datatype, values: readonly (number | bigint | string)[]): Tensor {
  const all = [...values, ...values];
  const Numbers = ARRAYS[datatype as keyof typeof ARRAYS];
  let data: TensorData = all as string[];
  if (datatype === 'INT64') data = BigInt64Array.from(all as bigint[]);
  else if (datatype !== 'BYTES') data = Numbers.from(all as number[]) as TensorData;
  return { name: 'y', datatype, shape: [2, values.length], data };
}

describe('two answers', () => {
  it.each<[string, Datatype, (number | bigint | string)[], (number | bigint | string)[], boolean]>([
    ['64-bit integers that round to one double', 'INT64', [2n ** 53n], [2n ** 53n + 1n], true],
    ['words', 'BYTES', ['a'], ['b'], true],
    ['booleans', 'BOOL', [1], [0], true],
    ['a NaN and a number', 'FP32', [1, Number.NaN], [1, 2], true],
    ['NaN in the same places', 'FP32', [1, Number.NaN], [1, Number.NaN], false],
    ['infinities of either sign', 'FP64', [Number.POSITIVE_INFINITY], [Number.NEGATIVE_INFINITY], true],
    ['an infinity and a number', 'FP32', [Number.POSITIVE_INFINITY], [1], true],
    ['zeros of either sign', 'FP32', [0], [-0], false],
    ['a small value beside a large one, by a tenth', 'FP32', [1, 0.01], [1, 0.011], true],
    ['a value by a thousandth', 'FP32', [100, 1], [100, 1.001], false],
    ['a value by three thousandths', 'FP32', [100, 3], [100, 3.012], true],
    ['what is nothing beside the largest of the row', 'FP32', [1, 1e-7], [1, -1e-6], false],
    ['half precision, by a hundredth', 'FP16', [1], [1.01], false],
    ['half precision, by a twentieth', 'FP16', [1], [1.05], true],
  ])('%s (%s): %j and %j', (_, datatype, a, b, differ) => {
    const found = firstDifference([rowsOf(datatype, a)], [rowsOf(datatype, b)], false);
    expect(found !== undefined).toBe(differ);
    if (differ)
      expect(found).toMatchObject({ output: 'y', detail: expect.stringMatching(/^.+ and .+ at element \d$/) });
  });

  it('may differ by half a hundredth on a GPU, as TF32 does', () => {
    const [a, b] = [[rowsOf('FP32', [1])], [rowsOf('FP32', [1.005])]];
    expect([firstDifference(a, b, true), firstDifference(a, b, false)]).toEqual([undefined, expect.anything()]);
  });

  it('of other shapes differ, by the axis that does', () => {
    const found = firstDifference([rowsOf('FP32', [1, 2])], [rowsOf('FP32', [1, 2, 3])], false);
    expect(found).toEqual({ output: 'y', detail: 'rows of shape [2] and [3]', axis: { index: 1, sizes: [2, 3] } });
  });
});
