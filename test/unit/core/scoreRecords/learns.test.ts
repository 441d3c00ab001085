import { describe, expect, it } from '@jest/globals';
import type { MeasuredRun, Model } from '../../../../lambda/core/model.ts';
import { scoreRecords } from '../../../../lambda/hosts/records.ts';
import {
  enoughTime,
  repositoryOf,
  scoringDependencies,
  standardRecords,
  tokensModel,
  tokensRequest,
} from '../../../helpers/scoring.ts';
import {
  measuredAtStart,
  minMs,
  msOf,
  type Run,
  SURFACE_NAMES,
  SURFACES,
  type Surface,
  seeded,
  textLengths,
} from '../plan/surfaces.ts';

/** A model whose runs take what a surface says, and every run of it, checks included. */
function runningOn(surface: Surface, like: Model): { readonly model: Model; readonly runs: Run[] } {
  const runs: Run[] = [];
  const model: Model = {
    ...like,
    async run(inputs) {
      const [rows = 0, length = 1] = inputs[0]?.shape ?? [];
      runs.push({ rows, length });
      return { ...(await like.run(inputs)), runMs: surface(rows, length) };
    },
  };
  return { model, runs };
}

function textModel(surface: Surface, measured: readonly MeasuredRun[]) {
  return runningOn(surface, tokensModel({ measured }));
}

const tokens = (length: number): number[] => new Array(length).fill(1);
const textsOf = (lengths: readonly number[]) =>
  standardRecords(lengths.map((length) => tokensRequest([tokens(length)])));

/** Scores each event with the same dependencies. @returns what was run, event by event */
async function runsOfEvents(
  events: readonly ReturnType<typeof textsOf>[],
  { model, runs }: ReturnType<typeof textModel>,
): Promise<{ readonly runs: Run[][]; readonly closed: readonly string[] }> {
  const deps = scoringDependencies({ models: repositoryOf(model) });
  const ofEvents: Run[][] = [];
  for (const records of events) {
    const before = runs.length;
    const outcomes = await scoreRecords(records, deps, enoughTime());
    expect(outcomes.every(({ status }) => status === 'answered')).toBe(true);
    ofEvents.push(runs.slice(before));
  }
  return { runs: ofEvents, closed: deps.reports.map(({ closedBecause }) => closedBecause) };
}

describe('scoring texts of many lengths, by what their runs took', () => {
  it.each(SURFACE_NAMES)(
    'takes at most 6 %% longer than the best runs, and no longer than rows alone, from the first event on: %s',
    async (name) => {
      const surface: Surface = SURFACES[name];
      const random = seeded(7);
      const lengths = Array.from({ length: 4 }, () => textLengths(250, random));
      const { runs } = await runsOfEvents(lengths.map(textsOf), textModel(surface, measuredAtStart(surface)));
      for (const [event, ofEvent] of lengths.entries()) {
        const ms = msOf(runs[event] ?? [], surface);
        const alone = ofEvent.map((length) => ({ rows: 1, length }));
        expect(ms).toBeLessThan(1.06 * minMs(ofEvent, surface));
        expect(ms).toBeLessThan(1.02 * msOf(alone, surface));
      }
    },
  );

  it.each(SURFACE_NAMES)(
    'runs equal events equally on a machine that is busy with something else: %s',
    async (name) => {
      const surface: Surface = SURFACES[name];
      const random = seeded(3);
      const busy: Surface = (rows, length) =>
        surface(rows, length) * (0.8 + 0.4 * random()) * (random() < 0.03 ? 5 : 1);
      const texts = textsOf(textLengths(250, seeded(5)));
      const { runs } = await runsOfEvents(new Array(8).fill(texts), textModel(busy, measuredAtStart(busy)));
      const settled = runs.slice(2);
      for (const ofEvent of settled) expect(ofEvent).toEqual(settled[0]);
    },
  );

  it('grows into runs that are larger than any it knows', async () => {
    const surface: Surface = (rows, length) => 4 + 0.05 * rows * length;
    const measured = [1, 2, 4].map((rows) => ({ rows, length: 10, ms: surface(rows, 10) }));
    const texts = textsOf(new Array(300).fill(10));
    const { runs } = await runsOfEvents(new Array(4).fill(texts), textModel(surface, measured));
    const largest = runs.map((ofEvent) => Math.max(...ofEvent.map(({ rows }) => rows)));
    expect(largest[0]).toBeLessThanOrEqual(16);
    expect(largest.at(-1)).toBeGreaterThan(30);
  });
});
