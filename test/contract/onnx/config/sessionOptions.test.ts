import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { InferenceSession } from 'onnxruntime-node';
import { IGNORED_OPTIONS, SESSION_OPTIONS } from '../../../../lambda/onnx/modelConfig.ts';
import { sessionSettings } from '../../../../lambda/onnx/waiting.ts';
import { identityModel } from '../../../helpers/onnxModels.ts';
import { modelsDirectory, openOnly } from '../../../helpers/openModels.ts';

const MODEL = identityModel();

async function refusalOf(sessionOptions: Readonly<Record<string, unknown>>): Promise<string> {
  return openOnly(MODEL, { sessionOptions }).then(
    () => 'the model was opened',
    ({ message }: Error) => message,
  );
}

describe('sessionOptions in config.json', () => {
  it('are refused when they choose the providers, naming the key that does', async () => {
    const message = await refusalOf({ executionProviders: ['cpu'] });

    expect(message).toContain('use the key "providers" instead of executionProviders');
  });

  it('are refused with a misspelt name, naming it and the known ones', async () => {
    const message = await refusalOf({ intraOpThreads: 1, interOpNumThreads: 1 });

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

    expect(['executionProviders', ...SESSION_OPTIONS, ...IGNORED_OPTIONS].toSorted()).toEqual(Object.keys(options));
  });

  it.each(IGNORED_OPTIONS)('are refused with %s, which ONNX Runtime for Node would ignore', async (option) => {
    // It takes anything for it: nothing reads it.
    const session = await InferenceSession.create(MODEL, { [option]: 'anything' });
    await session.release();

    expect(await refusalOf({ [option]: 1 })).toContain(
      `sessionOptions.${option}: expected an option that ONNX Runtime for Node reads, got ${option}, which it would ignore; remove it`,
    );
  });

  it('reach ONNX Runtime', async () => {
    const optimizedModelFilePath = join(await modelsDirectory({}), 'optimized.onnx');

    await openOnly(MODEL, { sessionOptions: { optimizedModelFilePath } });

    expect(existsSync(optimizedModelFilePath)).toBe(true);
  });

  it.each([
    ['nested', { session: { save_model_format: 'ORT' } }],
    ['written out', { 'session.save_model_format': 'ORT' }],
  ])('reach its session settings as extra, %s', async (_, extra) => {
    const optimizedModelFilePath = join(await modelsDirectory({}), 'optimized');

    await openOnly(MODEL, { sessionOptions: { optimizedModelFilePath, extra } });

    expect((await readFile(optimizedModelFilePath)).toString('latin1', 4, 8)).toBe('ORTM');
  });

  it('may have the weights of a model allocated beside the arena', async () => {
    const extra = { session: { use_device_allocator_for_initializers: '1' } };

    const { warnings } = await openOnly(MODEL, { sessionOptions: { extra } });

    expect(warnings).toEqual([]);
  });

  it.each([['session'], [1], [['session']]])('are refused with %j for extra', async (extra) => {
    expect(await refusalOf({ extra })).toContain('sessionOptions.extra');
  });
});

describe('session settings', () => {
  const DEFAULTS = { 'session.a': '1', 'session.b': '1' };

  it('are the defaults where none are given', () => {
    expect(sessionSettings(undefined, DEFAULTS)).toEqual(DEFAULTS);
  });

  it.each([
    ['nested', { session: { b: '0', c: '2' } }],
    ['written out', { 'session.b': '0', session: { c: '2' } }],
  ])('replace the defaults one by one, %s', (_, given) => {
    expect(sessionSettings(given, DEFAULTS)).toEqual({ 'session.a': '1', 'session.b': '0', 'session.c': '2' });
  });
});
