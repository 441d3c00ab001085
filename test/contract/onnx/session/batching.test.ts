import { readFile } from 'node:fs/promises';
import { describe, expect, it } from '@jest/globals';
import type { Model } from '../../../../lambda/core/model.ts';
import type { Tensor } from '../../../../lambda/core/tensor.ts';
import { openOnly, tensor } from '../../../helpers/openModels.ts';

const DIGITS = new URL('../../../../models/digits/', import.meta.url);
const ROWS = 64;

interface Sample {
  readonly pixels: readonly number[];
  readonly label: number;
}

async function samples(): Promise<Sample[]> {
  const lines = (await readFile(new URL('held-out.jsonl', DIGITS), 'utf8')).trimEnd().split('\n');
  return lines.slice(0, ROWS).map((line): Sample => JSON.parse(line));
}

function imagesOf(some: readonly Sample[]): Tensor {
  return tensor('image', 'FP32', [some.length, 64], Float32Array.from(some.flatMap(({ pixels }) => pixels)));
}

async function labelsAndProbabilities(model: Model, digits: readonly Sample[]) {
  const { outputs } = await model.run([imagesOf(digits)]);
  expect(outputs.map(({ name, shape }) => [name, shape])).toEqual([
    ['label', [digits.length]],
    ['probabilities', [digits.length, 10]],
  ]);
  const [labels = [], probabilities = []] = outputs.map(({ data }) => Array.from<unknown, number>(data, Number));
  return { labels, probabilities };
}

describe('the digits model', () => {
  it('answers a batch of rows as it answers each row alone, to 1e-6', async () => {
    const { model } = await openOnly(await readFile(new URL('1/model.onnx', DIGITS)));
    const digits = await samples();

    const batched = await labelsAndProbabilities(model, digits);
    const alone = [];
    for (const digit of digits) alone.push(await labelsAndProbabilities(model, [digit]));

    expect(batched.labels).toEqual(alone.flatMap(({ labels }) => labels));
    const unbatched = alone.flatMap(({ probabilities }) => probabilities);
    const differences = batched.probabilities.map((value, index) => Math.abs(value - (unbatched[index] ?? Number.NaN)));
    expect(differences).toHaveLength(ROWS * 10);
    expect(Math.max(...differences)).toBeLessThanOrEqual(1e-6);
  });

  it('reads most of the samples right', async () => {
    const { model } = await openOnly(await readFile(new URL('1/model.onnx', DIGITS)));
    const digits = await samples();

    const { labels } = await labelsAndProbabilities(model, digits);

    const right = digits.filter(({ label }, row) => labels[row] === label);
    expect(right.length).toBeGreaterThan(ROWS * 0.9);
  });
});
