import type { Model } from '../../../lambda/core/model.ts';
import { type InMemoryModelOptions, inMemoryModel } from '../../helpers/scoring.ts';

/** Answers x with its digits, and as many dots after them as `dots` says: float32 `[batch, 1]` in, a text out. */
export function wordModel(dots: (x: number) => number, options: InMemoryModelOptions = {}): Model {
  const contract = {
    inputs: [{ name: 'x', datatype: 'FP32' as const, shape: ['batch', 1] }],
    outputs: [{ name: 'word', datatype: 'BYTES' as const, shape: ['batch', 1] }],
  };
  return inMemoryModel(
    contract,
    ([input]) => {
      const words = Array.from((input?.data ?? []) as Float32Array, (x) => `${x}${'.'.repeat(dots(x))}`);
      return [{ name: 'word', datatype: 'BYTES', shape: [words.length, 1], data: words }];
    },
    { name: 'word', ...options },
  );
}

/** Lines for it: a row for each of 0, 1, 2 and so on. */
export function wordLines(count: number): Buffer {
  return Buffer.from(Array.from({ length: count }, (_, x) => `{"instances":[[${x}]]}\n`).join(''));
}

/** What a result says: the digits, and how many dots. */
export function wordOf({ predictions }: Record<string, unknown>): readonly [x: number, dots: number] {
  const [[word = ''] = []] = predictions as string[][];
  const digits = word.replace(/\.*$/, '');
  return [Number(digits), word.length - digits.length];
}
