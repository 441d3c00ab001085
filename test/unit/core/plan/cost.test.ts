import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { createCostEstimator } from '../../../../lambda/core/cost.ts';
import type { Cost, Model } from '../../../../lambda/core/model.ts';
import { echoModel, lineModel } from '../../../helpers/scoring.ts';
import { sentenceModel } from './runCosts.ts';
import { measuredAtStart, SURFACES, type Surface } from './surfaces.ts';

type Estimator = ReturnType<typeof createCostEstimator>;

function costBy(estimator: Estimator, model: Model): Cost {
  const cost = estimator.costOf(model);
  if (cost === undefined) throw new Error('expected a cost');
  return cost;
}

/** After a first run. @param runs `[rows, length, ms]` each */
function estimatorOf(runs: readonly (readonly [number, number, number])[], model: Model): Estimator {
  const estimator = createCostEstimator();
  estimator.record(model, 1, 1, 60_000);
  for (const [rows, length, ms] of runs) estimator.record(model, rows, length, ms);
  return estimator;
}

const unmeasured = sentenceModel({ measured: [] });

describe('the milliseconds of a run', () => {
  it('are unknown after the first run of a model that was not warmed up: it also paid for that', () => {
    expect(estimatorOf([], unmeasured).predictMs(unmeasured, 1, 1)).toBeUndefined();
  });

  it('grow in proportion beyond the largest that was measured, and twice as fast if it is a guess', () => {
    const estimator = estimatorOf([[8, 1, 8]], unmeasured);
    expect([1, 8, 9, 16, 17, 32].map((rows) => estimator.predictMs(unmeasured, rows, 1))).toEqual([
      8, 8, 9, 16, 34, 64,
    ]);
  });

  it('follow a machine that becomes slower within some runs, and few runs that were held up not at all', () => {
    const model = sentenceModel({ measured: measuredAtStart(SURFACES.affine) });
    const estimator = createCostEstimator();
    const predictedAfter = (runs: number, times: number): number => {
      for (let run = 0; run < runs; run++) estimator.record(model, 4, 32, times * SURFACES.affine(4, 32));
      return (estimator.predictMs(model, 4, 32) as number) / SURFACES.affine(4, 32);
    };
    expect(predictedAfter(20, 1)).toBeCloseTo(1, 1);
    expect(predictedAfter(3, 900)).toBeCloseTo(1, 1);
    expect(predictedAfter(20, 1)).toBeCloseTo(1, 1);
    expect(predictedAfter(8, 6)).toBeCloseTo(6, 1);
    expect(predictedAfter(8, 1)).toBeCloseTo(1, 1);
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY, -1, 0])('take no notice of a run of %d milliseconds', (ms) => {
    const runs = Array.from({ length: 20 }, (_, run) => [1 + (run % 4), 1, 2 + (run % 4)] as const);
    const [one, other] = [estimatorOf(runs, unmeasured), estimatorOf(runs, unmeasured)];
    for (const rows of [1, 3, 64]) other.record(unmeasured, rows, 1, ms);
    expect(other.predictMs(unmeasured, 4, 1)).toBe(one.predictMs(unmeasured, 4, 1));
    expect(costBy(other, unmeasured)(64, 1)).toBe(costBy(one, unmeasured)(64, 1));
  });

  it('are estimated of runs without length', () => {
    const estimator = estimatorOf(
      [
        [2, 0, 3],
        [4, 0, 4],
      ],
      unmeasured,
    );
    expect(estimator.predictMs(unmeasured, 4, 0)).toBeGreaterThan(0);
  });
});

const size = fc.integer({ min: 1, max: 64 });
const anyRuns = fc.array(fc.record({ rows: size, length: size, ms: fc.double({ min: 0.01, max: 100, noNaN: true }) }), {
  minLength: 2,
  maxLength: 40,
});

describe('the cost of a run', () => {
  it('falls neither with the rows nor with the length, whatever was measured, and neither do its milliseconds', () => {
    fc.assert(
      fc.property(anyRuns, anyRuns, size, size, (measured, observed, rows, length) => {
        const model = sentenceModel({ measured });
        const estimator = createCostEstimator();
        for (const run of observed) estimator.record(model, run.rows, run.length, run.ms);
        for (const ms of [
          estimator.costOf(model),
          (atRows: number, atLength: number) => estimator.predictMs(model, atRows, atLength) as number,
        ]) {
          if (ms === undefined) continue;
          const slack = 1 - 1e-12;
          expect(ms(rows + 1, length)).toBeGreaterThanOrEqual(slack * ms(rows, length));
          expect(ms(rows, length + 1)).toBeGreaterThanOrEqual(slack * ms(rows, length));
          expect(ms(rows, length)).toBeGreaterThanOrEqual(0);
        }
      }),
    );
  });

  it('is unknown before runs of two row counts were measured', () => {
    const estimator = estimatorOf(
      Array.from({ length: 20 }, () => [4, 1, 9] as const),
      unmeasured,
    );
    expect(estimator.costOf(unmeasured)).toBeUndefined();
    for (let run = 0; run < 16; run++) estimator.record(unmeasured, 1, 1, 6);
    const cost = costBy(estimator, unmeasured);
    expect(cost(4, 1) / cost(1, 1)).toBeCloseTo(9 / 6, 0);
  });

  it('is unknown if requests of one row and length may differ in size all the same', () => {
    const picture = echoModel('FP32', ['height'], { measured: [1, 2].map((rows) => ({ rows, length: 1, ms: rows })) });
    expect(createCostEstimator().costOf(picture)).toBeUndefined();
  });

  it('holds what a run takes outside of ONNX Runtime', () => {
    const model = lineModel({ measured: [1, 2, 4].map((rows) => ({ rows, length: 1, ms: rows / 1000 })) });
    const cost = costBy(createCostEstimator(), model);
    expect(cost(1, 1)).toBeGreaterThan(0.05);
    expect(cost(4, 1)).toBeLessThan(0.2);
  });

  it('is no less a row for more rows if those gain nothing', () => {
    const model = lineModel({ measured: [1, 2, 4, 8].map((rows) => ({ rows, length: 1, ms: 10 * rows })) });
    const cost = costBy(createCostEstimator(), model);
    expect(Math.min(...[2, 4, 8].map((rows) => cost(rows, 1) / rows))).toBeGreaterThan(cost(1, 1));
  });

  it('has sizes more than twice as large as any measured grown into', () => {
    const model = lineModel({ measured: [1, 2, 8].map((rows) => ({ rows, length: 1, ms: 0.1 + rows })) });
    const estimator = createCostEstimator();
    const perRow = (rows: number): number => costBy(estimator, model)(rows, 1) / rows;
    expect(perRow(32)).toBeGreaterThan(1.3 * perRow(16));
    for (const rows of [16, 32]) estimator.record(model, rows, 1, 0.1 + rows);
    expect(perRow(32)).toBeLessThan(1.1 * perRow(16));
  });
});

const wide: Surface = (rows) => 5 + rows;

describe('the cost that plans go by', () => {
  const warm = (times = 1): Model =>
    lineModel({ measured: [1, 2, 4, 8, 16, 32, 64].map((rows) => ({ rows, length: 1, ms: times * wide(rows, 1) })) });

  it('stays the very same while nothing changes clearly, runs that were held up and a slower machine included', () => {
    const model = warm();
    const estimator = createCostEstimator();
    const cost = estimator.costOf(model);
    for (let run = 0; run < 100; run++) {
      for (const rows of [1, 2, 8])
        estimator.record(model, rows, 1, wide(rows, 1) * (run % 20 === 7 ? 5 : 1 + 0.1 * (run % 2)));
    }
    for (let run = 0; run < 400; run++)
      for (const rows of [1, 2, 8]) estimator.record(model, rows, 1, 3 * wide(rows, 1));
    expect(estimator.costOf(model)).toBe(cost);
  });

  it('is another one after several runs that say so', () => {
    const model = lineModel({ measured: [1, 2, 8].map((rows) => ({ rows, length: 1, ms: wide(rows, 1) })) });
    const estimator = createCostEstimator();
    const before = costBy(estimator, model)(8, 1) / costBy(estimator, model)(1, 1);
    for (let run = 0; run < 200; run++) for (const rows of [1, 2, 8]) estimator.record(model, rows, 1, 6 * rows);
    expect(costBy(estimator, model)(8, 1) / costBy(estimator, model)(1, 1)).toBeGreaterThan(2 * before);
  });

  it.each([1 / 4, 4])(
    'has no size that was not run since look dear or cheap because the start took %d times as long',
    (times) => {
      const model = warm(times);
      const estimator = createCostEstimator();
      for (let run = 0; run < 60; run++)
        estimator.record(model, run % 2 === 0 ? 1 : 8, 1, wide(run % 2 === 0 ? 1 : 8, 1));
      const cost = costBy(estimator, model);
      expect(cost(64, 1) / cost(8, 1) / (wide(64, 1) / wide(8, 1))).toBeCloseTo(1, 0);
      expect((estimator.predictMs(model, 64, 1) as number) / wide(64, 1)).toBeCloseTo(1, 0);
    },
  );
});
