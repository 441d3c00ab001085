import { rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { InferenceSession } from 'onnxruntime-node';
import { FILE_OPTIONS, IGNORED_OPTIONS, SESSION_OPTIONS } from '../../../lambda/onnx/modelConfig.ts';
import { batchscore } from '../../helpers/batchscore.ts';
import { identityModel, multipleOfFourModel } from '../../helpers/onnxModels.ts';
import { modelsDirectory, openModels, openOnly } from '../../helpers/openModels.ts';

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

    expect(await repository.find(undefined, undefined)).toMatchObject({ maxBatchRows: 77, allowedSizes: [] });
  });

  it('may begin with a byte order mark', async () => {
    const { message, path } = await refusalOf('\uFEFF{"maxBatchRows": 0}');

    expect(message).toBe(`${path}: not a valid model configuration: maxBatchRows: ${ROWS}, got 0`);
  });

  it.each([
    [{ maxBatchRow: 4 }, 'maxBatchRow', 'did you mean maxBatchRows, a whole number from 1 to 65536?'],
    [{ colour: 'red' }, 'colour', undefined],
  ])('is refused for an unknown key, with those it knows and the nearest of them: %j', async (config, key, hint) => {
    const { message, path } = await refusalOf(config);

    expect(message).toBe(
      `${path}: not a valid model configuration: expected only the keys maxBatchRows, allowedSizes, ragged, batchAxis, ` +
        'outputs, constants, batching, providers, devices, sessionOptions, warmup, tokenizer, transform, got ' +
        [JSON.stringify(key), ...(hint === undefined ? [] : [hint])].join('; '),
    );
  });

  it.each([
    ['maxBatchRows', 0, `maxBatchRows: ${ROWS}, got 0`],
    ['allowedSizes', [], `allowedSizes: ${RUNGS} with at least one, got an array of 0`],
    ['allowedSizes', [2, 2], `allowedSizes: ${RUNGS}, each once, got an array of 2`],
    ['ragged', { axis: 'n' }, `ragged.pad: ${PAD}, got nothing`],
    ['batchAxis', { x: -1 }, 'batchAxis.x: expected a whole number of at least 0, got -1'],
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

describe('allowedSizes in config.json', () => {
  it('is the model’s, ascending', async () => {
    const { model } = await openOnly(MODEL, { allowedSizes: [16, 2, 8] });

    expect(model.allowedSizes).toEqual([2, 8, 16]);
  });

  it('is refused when no allowed size fits the most rows, naming the model file and both', async () => {
    const opening = openOnly(MODEL, { allowedSizes: [16, 9], maxBatchRows: 8 });

    await expect(opening).rejects.toThrow(
      /model\.onnx: expected allowedSizes with one of at most maxBatchRows 8, got \[9, 16\]/,
    );
  });
});

describe('warmup in config.json', () => {
  it('is on when it is not said, and finds a size at which the model runs', async () => {
    const { warnings, model } = await openOnly(multipleOfFourModel());

    expect(warnings).toEqual([]);
    expect(model.independence).toBe('independent');
    expect(model.measured?.map(({ rows }) => rows)).toEqual([1, 2]);
  });

  it('is told of where no size does, with what to do', async () => {
    const { warnings, model } = await openOnly(multipleOfFourModel(), { warmup: { length: 6 } });

    expect(warnings[0]).toMatch(/model\.onnx: warm-up with 1 row of zeros failed: /);
    expect(warnings[0]).toContain('give the sizes of its symbolic axes as "warmup" in config.json, or "warmup": false');
    expect(model.measured).toEqual([]);
  });
});

describe('providers in config.json', () => {
  it('take the place of the deployment’s', async () => {
    const { model } = await openOnly(MODEL, { providers: ['cpu'] }, { providers: ['no-such-provider'] });

    expect(model.name).toBe('model');
  });

  it('may be objects, with the number of a device', async () => {
    const providers = [{ name: 'cuda', deviceId: 3 }, { name: 'cpu' }];
    const { warnings } = await openOnly(MODEL, { providers }, { allowProviderFallback: true });

    expect(warnings).toEqual([expect.stringMatching(/'cuda' is not available: .*; falling back to cpu as configured/)]);
  });

  it.each([
    [{ name: 'cuda', cudnn_conv_algo_search: 'HEURISTIC' }, "deviceId alone of 'cuda', got cudnn_conv_algo_search"],
    [{ name: 'cpu', deviceId: 0 }, "no option of 'cpu', got deviceId"],
  ])('are refused with options that ONNX Runtime for Node would ignore: %j', async (provider, expected) => {
    const opening = openOnly(MODEL, { providers: [provider, 'cpu'] }, { allowProviderFallback: true });

    await expect(opening).rejects.toThrow(
      `config.json: not a valid model configuration: providers.0: expected ${expected}, which ONNX Runtime for Node would ignore; remove it`,
    );
  });
});

async function refusalOfOptions(sessionOptions: Readonly<Record<string, unknown>>): Promise<string> {
  return openOnly(MODEL, { sessionOptions }).then(
    () => 'the model was opened',
    ({ message }: Error) => message,
  );
}

describe('sessionOptions in config.json', () => {
  it('are refused with a misspelt name, naming it and the known ones', async () => {
    const message = await refusalOfOptions({ intraOpThreads: 1, interOpNumThreads: 1 });

    expect(message).toContain('expected keys among enableCpuMemArena, ');
    expect(message).toContain('intraOpNumThreads, ');
    expect(message).toContain(', got intraOpThreads; did you mean intraOpNumThreads?');
    expect(message).not.toContain('got interOpNumThreads');
  });

  it('may be every one that ONNX Runtime reads; known are those that it does not', () => {
    const options: Record<keyof InferenceSession.SessionOptions, true> = {
      enableCpuMemArena: true,
      enableGraphCapture: true,
      enableMemPattern: true,
      enableProfiling: true,
      executionMode: true,
      executionProviders: true,
      externalData: true,
      extra: true,
      freeDimensionOverrides: true,
      graphOptimizationLevel: true,
      interOpNumThreads: true,
      intraOpNumThreads: true,
      logId: true,
      logSeverityLevel: true,
      logVerbosityLevel: true,
      optimizedModelFilePath: true,
      preferredOutputLocation: true,
      profileFilePrefix: true,
    };

    expect(['executionProviders', ...SESSION_OPTIONS, ...IGNORED_OPTIONS, ...FILE_OPTIONS].toSorted()).toEqual(
      Object.keys(options),
    );
  });

  it.each(IGNORED_OPTIONS)('are refused with %s, which ONNX Runtime for Node would ignore', async (option) => {
    // It takes anything for it: nothing reads it.
    const session = await InferenceSession.create(MODEL, { [option]: 'anything' });
    await session.release();

    expect(await refusalOfOptions({ [option]: 1 })).toContain(
      `sessionOptions.${option}: expected an option that ONNX Runtime for Node reads, got ${option}, which it would ignore; remove it`,
    );
  });

  it.each([
    ['optimizedModelFilePath', { optimizedModelFilePath: '/tmp/optimized.onnx' }],
    ['externalData', { externalData: [{ path: 'w.bin', data: '/tmp/w.bin' }] }],
    [
      'session.model_external_initializers_file_folder_path',
      { extra: { session: { model_external_initializers_file_folder_path: '/tmp' } } },
    ],
    ['session.optimized_model_filepath', { extra: { 'session.optimized_model_filepath': '/tmp/optimized.onnx' } }],
    ['ep.context_file_path', { extra: { ep: { context_file_path: '/tmp/context.onnx' } } }],
  ])('are refused with %s, which names a file elsewhere', async (option, options) => {
    expect(await refusalOfOptions(options)).toContain(
      `${option}: expected a model that lies in its folder with all its weights, got ${option}, which names another file; remove it`,
    );
  });

  it.each([
    ['nested', { session: { intra_op_thread_affinities: 'x' } }],
    ['written out', { 'session.intra_op_thread_affinities': 'x' }],
  ])('reach its session settings as extra, %s', async (_, extra) => {
    expect(await refusalOfOptions({ logSeverityLevel: 4, intraOpNumThreads: 3, extra })).toContain(
      'Processor id must consist of only digits: x',
    );
  });
});

describe('the transform that config.json names', () => {
  const files = { 'm/1/model.onnx': MODEL, 'm/config.json': { transform: 'transform.mjs' } };
  const code = 'export const encode = () => 1;';

  it('may be a link within the folder, and is refused where it leads out of it, by hosts and by publish', async () => {
    const directory = await modelsDirectory({ ...files, 'm/src/transform.mjs': code });
    const elsewhere = join(await modelsDirectory({ 'transform.mjs': code }), 'transform.mjs');
    const link = join(directory, 'm/transform.mjs');
    await symlink('src/transform.mjs', link);
    await expect(openModels({}, { directory })).resolves.toBeDefined();

    await rm(link);
    await symlink(elsewhere, link);
    const said = `${link}: expected the module that config.json names in the model's folder, got a link to ${elsewhere}; put the file there`;
    await expect(openModels({}, { directory, defaultModel: 'm' })).rejects.toThrow(said);
    const { code: exitCode, stderr } = await batchscore(['publish', directory, 's3://bucket']);
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining(said)]);
  });

  it('has to be there', async () => {
    const directory = await modelsDirectory(files);
    await expect(openModels({}, { directory })).rejects.toThrow(
      `${directory}/m/transform.mjs: expected the module that config.json names, got none; add it`,
    );
  });
});
