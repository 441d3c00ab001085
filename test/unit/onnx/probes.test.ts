import { describe, expect, it } from '@jest/globals';
import { elementCount } from '../../../lambda/core/tensor.ts';
import { probeSets } from '../../../lambda/onnx/probes.ts';
import { modelOf, spec } from '../../helpers/scoring.ts';

const NO_GRAPH = { operators: new Map(), words: [], numbers: [] };

/** The shapes of the ordinary probes' inputs, for all alternatives. */
function shapesTried(shape: readonly (number | string)[], sizes: Readonly<Record<string, number>> | undefined) {
  const model = modelOf({ inputs: [spec('x', 'FP32', ...shape)], outputs: [spec('y', 'FP32', 'batch')] });
  const [ordinary = []] = probeSets(model, [], sizes, {}, NO_GRAPH);
  return [...ordinary]
    .filter(({ name }) => name === 'ordinary probes')
    .map(({ probes: [probe] }) => probe?.request.inputs[0]?.shape);
}

/** The largest integer among the probes of a model with one operator. */
function largestInteger(operator: string): number {
  const model = modelOf({ inputs: [spec('x', 'INT64', 'batch', 8)], outputs: [spec('y', 'FP32', 'batch')] });
  const graph = { ...NO_GRAPH, operators: new Map([[operator, { overBatch: false, training: false }]]) };
  const probes = probeSets(model, [], {}, {}, graph).flatMap((alternatives) => [...alternatives]);
  const tensors = probes.flatMap((set) => set.probes.map(({ request }) => request.inputs[0]?.data as BigInt64Array));
  return Math.max(...tensors.flatMap((data) => Array.from(data, Number)));
}

describe('probeSets', () => {
  it('tries the largest integer of 32 bits, but where an operator may take it for a size', () => {
    expect(largestInteger('Gather')).toBe(2 ** 31 - 1);
    for (const operator of ['HannWindow', 'Range', 'Tile', 'ConstantOfShape', 'OneHot', 'BeamSearch', 'Expand']) {
      expect(largestInteger(operator)).toBeLessThan(256);
    }
  });

  it('tries an open axis at 4, at what it is known to run at, and at more', () => {
    expect(shapesTried(['batch', 'length'], { length: 1 })).toEqual([
      [1, 4],
      [1, 1],
      [1, 32],
      [1, 128],
    ]);
  });

  it('tries a fixed shape once', () => {
    expect(shapesTried(['batch', 3, 5], {})).toEqual([[1, 3, 5]]);
    expect(shapesTried(['batch', 3, 5], undefined)).toEqual([[1, 3, 5]]);
  });

  it('tries no more elements than fit, apart from what the model is known to run at', () => {
    const axes = ['batch', 'a', 'b', 'c', 'd'];
    for (const shape of shapesTried(axes, undefined)) expect(elementCount(shape ?? [])).toBeLessThan(1_000_000);
    expect(shapesTried(['batch', 3, 1024, 1024], {})).toEqual([[1, 3, 1024, 1024]]);
  });
});
