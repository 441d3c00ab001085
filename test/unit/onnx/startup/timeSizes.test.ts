import { describe, expect, it } from '@jest/globals';
import type { Model, TensorSpec } from '../../../../lambda/core/model.ts';

import { type PrepareOptions, prepare, recordRuns, timeSizes, timingProbes } from '../../../../lambda/onnx/warmUp.ts';
import { inMemoryModel } from '../../../helpers/models.ts';
import { requestOf } from '../../core/requests.ts';

const X: TensorSpec = { name: 'x', datatype: 'FP32', shape: ['batch', 3] };
const TOKENS: TensorSpec = { name: 'tokens', datatype: 'INT64', shape: ['batch', 'length'] };
const RAGGED = { name: 'length', inputs: [{ axis: 1, pad: 0n }], outputs: [1], ladder: [] };
const NOTHING_KNOWN = { operators: new Set<string>(), words: [], numbers: [] };

interface Timed {
  readonly model: Model;
  /** Rows and length of every run. */
  readonly runs: string[];
  readonly clock: { ms: number };
}

/** Gives back what it is given, in the time that it is said to take, on a clock of its own. */
function timed(spec: TensorSpec, msOf: (rows: number, length: number) => number, limits: Partial<Model> = {}): Timed {
  const runs: string[] = [];
  const clock = { ms: 0 };
  const echo = inMemoryModel({ inputs: [spec], outputs: [spec] }, ([x]) => (x ? [{ ...x, data: x.data.slice() }] : []));
  const model: Model = {
    ...echo,
    maxBatchRows: 64,
    measured: undefined,
    ...limits,
    async run(inputs) {
      const [rows = 0, length = 1] = inputs[0]?.shape ?? [];
      const runMs = msOf(rows, length);
      clock.ms += runMs;
      runs.push(`${rows}x${length}`);
      return { ...(await echo.run(inputs)), runMs };
    },
  };
  return { model, runs, clock };
}

async function timeAll({ model, clock }: Timed, limitMs: number, maxElements = 1_000_000) {
  const recorded = recordRuns(model);
  const probes = timingProbes(model, [], NOTHING_KNOWN as never);
  await timeSizes(recorded, { probes, maxElements, limitMs, now: () => clock.ms });
  return recorded.measured();
}

describe('what runs take, at start', () => {
  it('is measured at 1, 2, 4, … rows up to the most there may be, three times each', async () => {
    const of = timed(X, (rows) => 0.1 + 0.01 * rows);
    const measured = await timeAll(of, 40);
    expect(measured.map(({ rows }) => rows)).toEqual([1, 2, 4, 8, 16, 32, 64]);
    expect(of.runs).toHaveLength(21);
  });

  it('is the least of them', async () => {
    let run = 0;
    const of = timed(X, () => [9, 3, 5][run++ % 3] ?? 0, { maxBatchRows: 1 });
    expect(await timeAll(of, 1_000)).toEqual([{ rows: 1, length: 1, ms: 3 }]);
  });

  it('is measured at a short, a middling and a long length, small runs first', async () => {
    const of = timed(TOKENS, (rows, length) => 0.001 * rows * length, { ragged: RAGGED, maxBatchRows: 4 });
    await timeAll(of, 1_000);
    expect(of.runs.slice(0, 9)).toEqual(['1x8', '2x8', '4x8', '1x32', '2x32', '4x32', '1x128', '2x128', '4x128']);
  });

  it('takes no longer than it may', async () => {
    const of = timed(X, (rows) => rows);
    await timeAll(of, 40);
    expect(of.clock.ms).toBeLessThanOrEqual(40);
    expect(of.runs).toContain('16x3');
  });

  it('ends with the rows at which one takes clearly longer', async () => {
    const of = timed(X, (rows) => (rows > 8 ? 2 : 0.1) * rows);
    await timeAll(of, 10_000);
    expect(of.runs.filter((run) => run === '16x3')).toHaveLength(3);
    expect(of.runs.filter((run) => run === '32x3')).toHaveLength(1);
    expect(of.runs.filter((run) => run === '8x3')).toHaveLength(3);
  });

  it('leaves out what holds more elements than a run may', async () => {
    const of = timed(X, () => 1);
    await timeAll(of, 10_000, 30);
    expect(of.runs).not.toContain('16x3');
    expect(of.runs).toContain('8x3');
  });

  it('goes on with other lengths where one fails', async () => {
    let failed = 0;
    const of = timed(
      TOKENS,
      (_, length) => {
        if (length === 128) failed += 1;
        if (length === 128) throw new Error('too long');
        return 1;
      },
      { ragged: RAGGED, maxBatchRows: 2 },
    );
    const measured = await timeAll(of, 1_000);
    expect(measured.map(({ rows, length }) => `${rows}x${length}`)).toEqual(['1x8', '2x8', '1x32', '2x32']);
    expect(failed).toBe(1);
  });

  it('does not run again as often what was run before', async () => {
    const of = timed(X, () => 1, { maxBatchRows: 2 });
    const recorded = recordRuns(of.model);
    const probes = timingProbes(of.model, [], NOTHING_KNOWN as never);
    const options = { probes, maxElements: 1_000, limitMs: 1_000, now: () => of.clock.ms };
    await timeSizes(recorded, options);
    await timeSizes(recorded, options);
    expect(of.runs).toHaveLength(6);
  });

  it('takes real requests where there are some, of three of their lengths', () => {
    const { model } = timed(TOKENS, () => 1, { ragged: RAGGED });
    const samples = [5, 9, 2, 7, 30].map((length) =>
      requestOf(model, [{ datatype: 'INT64', shape: [1, length], data: new BigInt64Array(length) }]),
    );
    const lengths = timingProbes(model, samples, NOTHING_KNOWN as never).map(({ request }) => request.length);
    expect(lengths).toEqual([2, 7, 30]);
  });

  it('is not measured where another axis is open, or made-up values might keep a loop from ending', () => {
    const picture = timed({ ...X, shape: ['batch', 'height'] }, () => 1).model;
    expect(timingProbes(picture, [], NOTHING_KNOWN as never)).toEqual([]);
    const loop = { ...NOTHING_KNOWN, operators: new Set(['Loop']) };
    expect(timingProbes(timed(X, () => 1).model, [], loop as never)).toEqual([]);
  });
});

describe('a model that is loaded', () => {
  const options = (of: Timed, more: Partial<PrepareOptions> = {}): PrepareOptions => ({
    sizes: true,
    batching: 'trust',
    graph: NOTHING_KNOWN as never,
    samples: [],
    loadMs: 400,
    now: () => of.clock.ms,
    onGpu: false,
    maxElements: 1_000_000,
    runLimitMs: 60_000,
    ...more,
  });

  it('is timed for a quarter of the time that loading took', async () => {
    const of = timed(X, (rows) => rows);
    const { measured } = await prepare(of.model, options(of));
    expect(of.clock.ms).toBeGreaterThan(50);
    expect(of.clock.ms).toBeLessThanOrEqual(100 + 6);
    expect(measured.map(({ rows }) => rows)).toEqual([1, 2, 4, 8, 16, 32]);
  });

  it.each<[string, Partial<PrepareOptions>, Partial<Model>]>([
    ['rows may not share runs', { batching: 'alone' }, {}],
    ['its profile says what runs cost', {}, { cost: () => 1 }],
    ['it has a fixed batch', {}, { ladder: [2] }],
    ['nothing is to be run at start', { sizes: false, batching: undefined }, {}],
  ])('is not timed where %s', async (_, more, limits) => {
    const of = timed(X, () => 100, limits);
    await prepare(of.model, options(of, more));
    expect(new Set(of.runs).size).toBeLessThanOrEqual(2);
    expect(of.runs.length).toBeLessThanOrEqual(2);
  });
});
