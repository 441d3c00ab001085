import { describe, expect, it } from '@jest/globals';
import { identityModel } from '../../../helpers/onnxModels.ts';
import { openModels, openOnly } from '../setup.ts';

const QUIET = { sessionOptions: { logSeverityLevel: 4 } };

describe('profile.json', () => {
  const open = (profile: unknown) =>
    openModels({
      'model/1/model.onnx': identityModel(),
      'model/1/profile.json': typeof profile === 'string' ? profile : (profile as Record<string, unknown>),
      'model/config.json': QUIET,
    });
  const run = { rows: 1, length: 1, ms: 2 };

  it('need not be there', async () => {
    expect((await openOnly(identityModel())).model.cost).toBeUndefined();
  });

  it('is what runs cost, whatever else it says', async () => {
    const { repository } = await open({ runs: [run, { ...run, rows: 3, ms: 4, note: 'x' }], machine: 'any' });
    const model = await repository.find(undefined, undefined);
    const { cost } = model as { cost: (rows: number, length: number) => number };
    expect([cost(1, 1), cost(2, 1), cost(3, 1)]).toEqual([2, 3, 4]);
  });

  it.each([
    ['is no JSON', '{', 'expected JSON'],
    ['holds no runs', {}, 'not a valid profile'],
    ['holds an empty list', { runs: [] }, 'runs'],
    ['holds a time of nothing', { runs: [{ ...run, ms: 0 }] }, 'ms'],
    ['holds half a row', { runs: [{ ...run, rows: 0.5 }] }, 'rows'],
    [
      'lacks a combination',
      { runs: [run, { rows: 2, length: 2, ms: 1 }] },
      'of 1 rows of length 2, got 0; measure every',
    ],
    ['holds a run twice', { runs: [run, run] }, 'of 1 rows of length 1, got 2'],
  ])('is refused when it %s, naming the file', async (_, profile, message) => {
    await expect(open(profile)).rejects.toThrow(/profile\.json: /);
    await expect(open(profile)).rejects.toThrow(message);
  });
});
