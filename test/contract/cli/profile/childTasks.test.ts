import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { runSizes, type Started, startModel, type Told } from '../../../../cli/profile/measure/childTasks.ts';
import { MIXING } from '../../../helpers/mixingModels.ts';
import {
  failingModel,
  farIdsModel,
  identityModel,
  lookupModel,
  maskedMeanModel,
  rowsOnlyModel,
} from '../../../helpers/onnxModels.ts';
import { modelsDirectory, type RepositoryFiles } from '../../../helpers/openModels.ts';

/** What a task tells of a model. The processes that do them are those of test/system/cli/profile. */
async function toldBy(
  run: (path: string, tell: (told: Told) => Promise<void>) => Promise<void>,
  files: RepositoryFiles,
) {
  const told: Told[] = [];
  await run(join(await modelsDirectory(files), 'model'), async (one) => void told.push(one));
  return told;
}

async function start(files: RepositoryFiles, maxBatchRows = 8) {
  const task = { do: 'start', maxBatchRows, providers: ['cpu'], askedAt: 0 } as const;
  const told = await toldBy((path, tell) => startModel({ ...task, path }, 0, tell), files);
  const warnings = told.flatMap((one) => (one.kind === 'warning' ? [one.text] : [])).join('\n');
  const { started } = told.find((one) => one.kind === 'started') as { readonly started: Started };
  return { ...started, warnings };
}

const model = (bytes: Uint8Array) => ({ 'model/1/model.onnx': bytes });

describe('a start', () => {
  it.each([
    ['baked', identityModel('FP32', [8, 3]), 8],
    ['dynamic in name alone', rowsOnlyModel(4), 4],
  ])('finds the only row count of a batch axis that is %s, and warns', async (_, bytes, rows) => {
    const { allowedSizes, warnings } = await start(model(bytes));
    expect(allowedSizes).toEqual([rows]);
    expect(warnings).toContain(`the batch axis is baked to ${rows}: every run takes exactly ${rows} rows`);
  });

  it('finds rows that depend on each other, and says at which node', async () => {
    const evidence = expect.stringContaining("DynamicQuantizeLinear 'q'");
    const [mixing] = Object.values(MIXING) as [() => Uint8Array];
    expect(await start(model(mixing()))).toMatchObject({
      safety: { verdict: 'mixes', sharesRuns: false, evidence },
    });
  });

  it('has several lengths of a ragged axis: made up, those of samples, those of the allowed sizes', async () => {
    const ragged = { axis: 'length', pad: { values: 0, mask: 0 } };
    const files = { ...model(maskedMeanModel()), 'model/config.json': { ragged } };
    expect(await start(files, 2)).toMatchObject({ lengths: [8, 32, 128], length: 32, requestBytes: undefined });

    const request = (length: number) => {
      const data = Array.from({ length }, (_, index) => index + 1);
      return JSON.stringify({
        inputs: ['values', 'mask'].map((name) => ({ name, datatype: 'FP32', shape: [1, length], data })),
      });
    };
    const real = { ...files, 'model/samples.jsonl': `${[5, 40, 7].map(request).join('\n')}\n` };
    expect(await start(real, 2)).toMatchObject({ lengths: [2, 7, 40], length: 7, requestBytes: request(5).length });
    const allowedSizes = { 'model/config.json': { ragged: { ...ragged, allowedSizes: [4, 6, 16, 64] } } };
    expect(await start({ ...files, ...allowedSizes }, 2)).toMatchObject({ lengths: [4, 16, 64], length: 16 });
  });
});

describe('runs', () => {
  const run = (files: RepositoryFiles, ...rows: number[]) => {
    const sizes = rows.map((count) => ({ rows: count, length: 1 }));
    const limits = { allowedSizes: [], slowMs: 60_000, enoughMs: 100, threads: 1 };
    const task = { do: 'run', sizes, ...limits, maxBatchRows: 8, providers: ['cpu'] } as const;
    return toldBy((path, tell) => runSizes({ ...task, path }, tell), files);
  };
  const timedOf = (told: readonly Told[]) =>
    told.flatMap((one) => (one.kind === 'timed' ? one.timed.map(({ rows }) => rows) : []));

  it('take smaller made-up ids where usual ones are beyond the table', async () => {
    expect(timedOf(await run(model(lookupModel()), 1, 8))).toEqual([1, 8]);
  });

  it('take real requests where no made-up ones will do', async () => {
    const request = (...data: number[]) =>
      `${JSON.stringify({ inputs: [{ name: 'ids', datatype: 'INT64', shape: [1, data.length], data }] })}\n`;
    const files = model(farIdsModel());
    expect(await run(files, 8)).toContainEqual(expect.objectContaining({ kind: 'failed' }));
    const samples = `${request(4_950, 5_001)}${request(5_060, 4_990)}`;
    expect(timedOf(await run({ ...files, 'model/samples.jsonl': samples }, 8))).toEqual([8]);
  });

  it('end where a run holds more than one may', async () => {
    const told = await run(model(identityModel('FP32', ['batch', 2_000_000])), 8);
    expect(told.filter(({ kind }) => kind === 'ran' || kind === 'failed')).toEqual([]);
  });

  it('of more rows than fail are not tried, and those of fewer are timed', async () => {
    const told = await run(model(failingModel()), 1, 2, 8, 16);
    expect(told.filter(({ kind }) => kind === 'failed')).toHaveLength(1);
    expect(timedOf(told)).toEqual([1, 2]);
  });
});
