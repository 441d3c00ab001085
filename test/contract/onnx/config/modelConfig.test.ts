import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { identityModel, multipleOfFourModel } from '../../../helpers/onnxModels.ts';
import { modelsDirectory, openModels, openOnly } from '../../../helpers/openModels.ts';

const MODEL = identityModel();
const ROWS = 'expected a whole number from 1 to 65536';
const RUNGS = 'expected an array of whole numbers from 1 to 65536';
const WARMUP = 'expected true, false or an object with sizes of symbolic axes';
const PAD = 'expected an object with the element to pad with, by the name of each input that has the axis';

async function refusalOf(config: string | Record<string, unknown>): Promise<{ message: string; path: string }> {
  const directory = await modelsDirectory({ 'model/1/model.onnx': MODEL, 'model/config.json': config });
  const message = await openModels({}, { directory }).then(
    () => 'the repository was opened',
    (error: Error) => error.message,
  );
  return { message, path: join(directory, 'model/config.json') };
}

describe('config.json', () => {
  it('need not be there', async () => {
    const { repository } = await openModels({ 'model/1/model.onnx': MODEL }, { maxBatchRows: 77 });

    expect(await repository.find(undefined, undefined)).toMatchObject({ maxBatchRows: 77, ladder: [] });
  });

  it('may begin with a byte order mark', async () => {
    const { message, path } = await refusalOf('\uFEFF{"maxBatchRows": 0}');

    expect(message).toBe(`${path}: not a valid model configuration: maxBatchRows: ${ROWS}, got 0`);
  });

  it('is refused when it is not JSON, naming the file', async () => {
    const { message, path } = await refusalOf('{"maxBatchRows": 4,}');

    expect(message).toBe(`${path}: expected JSON, got something else; fix it or delete the file`);
  });

  it.each([
    [{ maxBatchRow: 4 }, 'maxBatchRow', 'did you mean maxBatchRows, a whole number from 1 to 65536?'],
    [{ bathcing: 'alone' }, 'bathcing', 'did you mean batching, "trust" or "alone"?'],
    [{ colour: 'red' }, 'colour', undefined],
  ])('is refused for an unknown key, with those it knows and the nearest of them: %j', async (config, key, hint) => {
    const { message, path } = await refusalOf(config);

    expect(message).toBe(
      `${path}: not a valid model configuration: expected only the keys maxBatchRows, ladder, ragged, batchAxis, ` +
        'outputs, constants, batching, providers, devices, sessionOptions, warmup, transform, got ' +
        [JSON.stringify(key), ...(hint === undefined ? [] : [hint])].join('; '),
    );
  });

  it('is refused for all that is wrong with it at once', async () => {
    const { message } = await refusalOf({ maxBatchRows: 0, ladder: [], colour: 'red' });

    for (const key of ['maxBatchRows', 'ladder', 'colour']) expect(message).toContain(key);
    expect(message).not.toContain('\n');
  });

  it.each([
    ['maxBatchRows', 0, `maxBatchRows: ${ROWS}, got 0`],
    ['maxBatchRows', '4', `maxBatchRows: ${ROWS}, got "4"`],
    ['ladder', [], `ladder: ${RUNGS} with at least one, got an array of 0`],
    ['ladder', [2, 2], `ladder: ${RUNGS}, each once, got an array of 2`],
    ['ladder', [0], `ladder.0: ${ROWS}, got 0`],
    ['ragged', { axis: 'n' }, `ragged.pad: ${PAD}, got nothing`],
    ['batchAxis', { x: -1 }, 'batchAxis.x: expected a whole number of at least 0, got -1'],
    [
      'providers',
      [],
      'providers: expected an array of execution providers, such as ["cuda", "cpu"], got an array of 0',
    ],
    ['providers', [{}], 'providers.0.name: expected the name of a provider, such as "cuda", got nothing'],
    ['warmup', 'yes', `warmup: ${WARMUP}, got "yes"`],
    ['transform', 4, 'transform: expected the name of a .ts, .js or .mjs file beside config.json, got 4'],
  ])('is refused when %s is %j, saying what it takes', async (key, value, sentence) => {
    const { message, path } = await refusalOf({ [key]: value });

    expect(message).toBe(`${path}: not a valid model configuration: ${sentence}`);
  });

  it('is read at the start for models that are loaded later too', async () => {
    const directory = await modelsDirectory({
      'a/1/model.onnx': MODEL,
      'b/1/model.onnx': MODEL,
      'b/config.json': 'not JSON',
    });

    await expect(openModels({}, { directory, defaultModel: 'a' })).rejects.toThrow(join(directory, 'b/config.json'));
  });
});

describe('maxBatchRows in config.json', () => {
  it.each([[8], [1024]])('takes the place of the deployment’s: %i', async (maxBatchRows) => {
    const { model } = await openOnly(MODEL, { maxBatchRows }, { maxBatchRows: 512 });

    expect(model.maxBatchRows).toBe(maxBatchRows);
  });
});

describe('ladder in config.json', () => {
  it('is the model’s, ascending', async () => {
    const { model } = await openOnly(MODEL, { ladder: [16, 2, 8] });

    expect(model.ladder).toEqual([2, 8, 16]);
  });

  it('may have its lowest rung at the most rows', async () => {
    const { model } = await openOnly(MODEL, { ladder: [8, 16], maxBatchRows: 8 });

    expect(model).toMatchObject({ ladder: [8, 16], maxBatchRows: 8 });
  });

  it('is refused when no rung fits the most rows, naming the model file and both', async () => {
    const opening = openOnly(MODEL, { ladder: [16, 9], maxBatchRows: 8 });

    await expect(opening).rejects.toThrow(
      /model\.onnx: expected a ladder with a rung of at most maxBatchRows 8, got \[9, 16\]/,
    );
  });
});

describe('warmup in config.json', () => {
  it('is on when it is not said, and finds a size at which the model runs', async () => {
    const { warnings, model } = await openOnly(multipleOfFourModel());

    expect(warnings).toEqual([]);
    expect(model.independence).toBe('proved');
    expect(model.measured?.map(({ rows }) => rows)).toEqual(expect.arrayContaining([1, 2, 512]));
  });

  it('is told of where no size does, with what to do', async () => {
    const { warnings, model } = await openOnly(multipleOfFourModel(), { warmup: { length: 6 } });

    expect(warnings[0]).toMatch(/model\.onnx: warm-up with 1 rows of zeros failed: /);
    expect(warnings[0]).toContain('give the sizes of its symbolic axes as "warmup" in config.json, or "warmup": false');
    expect(model.measured).toEqual([]);
  });
});
