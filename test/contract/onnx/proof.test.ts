import { execFileSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { renameSync, unlinkSync, writeFileSync } from 'node:fs';
import { open, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Worker } from 'node:worker_threads';
import { describe, expect, it } from '@jest/globals';
import { firstDifference, OTHER_SHAPE } from '../../../lambda/core/difference.ts';
import { ModelUnavailableError } from '../../../lambda/core/model.ts';
import { storeApart } from '../../../lambda/onnx/weights.ts';
import { batchscore } from '../../helpers/batchscore.ts';
import { hundredRowsModel, MIXING, mixingAtSixteenModel, noisyModel, SOUND } from '../../helpers/mixingModels.ts';
import {
  identityModel,
  largeModel,
  maskedMeanModel,
  modelWithWeightsIn,
  rowsOnlyModel,
} from '../../helpers/onnxModels.ts';
import {
  counting,
  ENDED,
  found,
  modelsDirectory,
  openModels,
  putFile,
  type RepositoryFiles,
  watchThreads,
} from '../../helpers/openModels.ts';

const PLACE = 'model/1/proof.json';
const RAGGED = { ragged: { axis: 'length', pad: { values: 0, mask: 0 }, allowedSizes: [16, 32] } };
const MODELS: Readonly<Record<string, RepositoryFiles>> = {
  ...Object.fromEntries(
    Object.entries({ ...SOUND, ...MIXING }).map(([name, make]) => [name, { 'model/1/model.onnx': make() }]),
  ),
  'mixing from sixteen rows on': { 'model/1/model.onnx': mixingAtSixteenModel() },
  'a hundred rows at most': { 'model/1/model.onnx': hundredRowsModel() },
  'a fixed batch': { 'model/1/model.onnx': rowsOnlyModel(4) },
  ragged: { 'model/1/model.onnx': maskedMeanModel(), 'model/config.json': RAGGED },
  'batching: trust': { 'model/1/model.onnx': identityModel(), 'model/config.json': { batching: 'trust' } },
};

interface Proof {
  readonly format: number;
  readonly keys: Readonly<Record<string, string>>;
  readonly found: Readonly<Record<string, unknown>>;
  readonly checksum?: string;
}

/** As whoever writes proofs signs them. */
function sealed({ format, keys, found }: Proof): Record<string, unknown> {
  return { format, keys, found, checksum: hash('sha256', JSON.stringify([format, keys, found])) };
}

/** What a host finds of the model, its proof being written where none fits. */
async function prove(files: RepositoryFiles) {
  const { directory, repository } = await openModels(files, { keepsProof: true });
  const proof: Proof = JSON.parse(await readFile(join(directory, PLACE), 'utf8'));
  return { proof, model: await found(repository.find('model', undefined)) };
}

/** What a host finds of the model when it starts. */
async function start(files: RepositoryFiles, options: Parameters<typeof openModels>[1] = {}) {
  const { repository, warnings, log } = await openModels(files, options);
  const model = await found(repository.find('model', undefined));
  const own = warnings.map((warning) => warning.replace(/^.*(?=proof\.json)/, ''));
  return { model, warnings: own, isAsProved: log.some((line) => line.includes('as proof.json says')), log };
}

const SOUND_FILES: RepositoryFiles = {
  'model/1/model.onnx': identityModel(),
  'model/config.json': { maxBatchRows: 64 },
};
const LIMITS = ['independence', 'maxBatchRows', 'allowedSizes', 'verifiedRows', 'maxSharedRows'] as const;

describe('a proof beside a model', () => {
  it.each(Object.keys(MODELS))('has a start batch as the checks that it is of would: %s', async (name) => {
    const files = MODELS[name] as RepositoryFiles;
    const { proof, model: checked } = await prove(files).catch(() => ({ proof: undefined, model: undefined }));
    if (proof === undefined) {
      // Of a model that is refused, or of which nothing could be proved, there is none.
      const without = await start(files).catch(() => undefined);
      return expect(['unproven', undefined]).toContain(without?.model.independence);
    }

    const { model, warnings, isAsProved } = await start({ ...files, [PLACE]: { ...proof } });

    expect([isAsProved, warnings.filter((warning) => warning.startsWith('proof.json'))]).toEqual([true, []]);
    for (const limit of LIMITS) expect([limit, model[limit]]).toEqual([limit, checked?.[limit]]);
    expect(model.measured?.map(({ rows }) => rows)).toEqual(checked?.measured?.map(({ rows }) => rows));
  });

  it('is believed: what it says is not looked at again, but how many rows may be asked for', async () => {
    const { proof } = await prove(SOUND_FILES);
    const dependent = sealed({ ...proof, found: { ...proof.found, independence: 'dependent' } });
    expect((await start({ ...SOUND_FILES, [PLACE]: dependent })).model.independence).toBe('dependent');

    const unlimited: RepositoryFiles = { 'model/1/model.onnx': identityModel() };
    const { proof: of512 } = await prove(unlimited);
    const { model: larger } = await start({ ...unlimited, [PLACE]: { ...of512 } }, { maxBatchRows: 2_000 });
    expect([larger.maxBatchRows, larger.verifiedRows]).toEqual([2_000, 512]);
    const { model: smaller } = await start({ ...unlimited, [PLACE]: { ...of512 } }, { maxBatchRows: 7 });
    expect([smaller.maxBatchRows, smaller.verifiedRows]).toEqual([7, undefined]);
  });

  it('of another model is a warning, and what mixes rows is found out', async () => {
    const { proof } = await prove({ 'model/1/model.onnx': SOUND['softmax over a row']?.() as Uint8Array });

    const mixing = { 'model/1/model.onnx': MIXING['softmax over axis 0']?.() as Uint8Array, [PLACE]: { ...proof } };
    const { model, warnings } = await start(mixing);

    expect(model.independence).toBe('dependent');
    expect(warnings[0]).toMatch(
      /^proof\.json: expected a proof of this model \(SHA-256 [0-9a-f]{64}\), got one of [0-9a-f]{64}; the model is proved at start: run batchscore inspect --prove again, or delete it$/,
    );
  });

  it('is neither kept nor believed where another model takes the place of the one that it is of meanwhile', async () => {
    const mixing = MIXING['softmax over axis 0']?.() as Uint8Array;
    const replaceIn = (directory: string) => (): boolean => {
      writeFileSync(join(directory, 'other'), mixing);
      renameSync(join(directory, 'other'), join(directory, 'model/1/model.onnx'));
      return false;
    };
    const sound = { 'model/1/model.onnx': SOUND['softmax over a row']?.() as Uint8Array };
    const proving = await modelsDirectory(sound);
    const refused = openModels({}, { directory: proving, keepsProof: true, assigned: replaceIn(proving) });
    await expect(refused).rejects.toThrow('expected a model that stays as it is while it is proved');
    await expect(stat(join(proving, PLACE))).rejects.toThrow('ENOENT');

    const { proof } = await prove(sound);
    const directory = await modelsDirectory({ ...sound, [PLACE]: { ...proof } });
    const { model } = await start({}, { directory, takesDevices: replaceIn(directory) });
    expect(model.independence).toBe('dependent');
  });

  it('is of the weights in other files too', async () => {
    const files = { 'model/1/model.onnx': modelWithWeightsIn('weights.bin'), 'model/1/weights.bin': someFloats(1) };
    const { proof } = await prove(files);

    const { warnings } = await start({ ...files, 'model/1/weights.bin': someFloats(2), [PLACE]: { ...proof } });

    expect(warnings).toEqual([expect.stringContaining('expected a proof of this model')]);
  });

  const text = (proof: Proof) => JSON.stringify(proof);
  const CHANGES: readonly (readonly [string, (proof: Proof) => RepositoryFiles, string])[] = [
    ['truncated', (proof) => ({ [PLACE]: text(proof).slice(0, 200) }), 'expected JSON, got something else'],
    ['empty', () => ({ [PLACE]: '' }), 'expected JSON, got something else'],
    [
      'edited by hand',
      (proof) => ({ [PLACE]: text(proof).replace('"verifiedRows":64', '"verifiedRows":65') }),
      'expected what batchscore wrote, got other content than its checksum is of',
    ],
    [
      'of a newer version',
      (proof) => ({ [PLACE]: sealed({ ...proof, format: 2 }) }),
      'format: expected 1, as this version of batchscore writes it',
    ],
    ['without its checksum', ({ format, keys, found }) => ({ [PLACE]: { format, keys, found } }), 'checksum: '],
    [
      'of rows that nothing proved',
      (proof) => ({ [PLACE]: sealed({ ...proof, found: { ...proof.found, independence: 'unproven' } }) }),
      'found.independence: ',
    ],
    ['far too long', (proof) => ({ [PLACE]: text(proof) + ' '.repeat(2 ** 20) }), 'expected a proof of 1048576 bytes'],
    [
      'of another ONNX Runtime',
      (proof) => ({ [PLACE]: sealed({ ...proof, keys: { ...proof.keys, runtime: '1.0.0' } }) }),
      'got one with 1.0.0',
    ],
    [
      'of another config.json',
      (proof) => ({ [PLACE]: { ...proof }, 'model/config.json': { maxBatchRows: 65 } }),
      'expected a proof with this config.json and its transform, got one with others',
    ],
    [
      'of other samples',
      (proof) => ({
        [PLACE]: { ...proof },
        'model/samples.jsonl': '{"inputs":[{"name":"x","datatype":"FP32","shape":[1,3],"data":[1,2,3]}]}\n',
      }),
      'expected a proof with this samples.jsonl, got one with another',
    ],
    [
      'with sizes that are none',
      (proof) => ({ [PLACE]: sealed({ ...proof, found: { ...proof.found, allowedSizes: [0.5] } }) }),
      'found.allowedSizes.0: ',
    ],
  ];
  it.each(CHANGES)('that is %s is a warning, and the model is proved at start', async (_, change, sentence) => {
    const { proof } = await prove(SOUND_FILES);

    const { model, warnings, isAsProved } = await start({ ...SOUND_FILES, ...change(proof) });

    expect(warnings).toEqual([expect.stringContaining(sentence)]);
    expect([isAsProved, model.independence, model.maxBatchRows > 63]).toEqual([false, 'proved', true]);
  });

  it('of another transform is a warning', async () => {
    const withTransform = (comment: string): RepositoryFiles => ({
      'model/1/model.onnx': identityModel(),
      'model/config.json': { transform: 'transform.mjs' },
      'model/transform.mjs': `export const encode = (outputs) => outputs.y.data[0]; // ${comment}`,
    });
    const { proof } = await prove(withTransform('one'));

    const { warnings } = await start({ ...withTransform('two'), [PLACE]: { ...proof } });

    expect(warnings).toEqual([expect.stringContaining('this config.json and its transform')]);
  });

  it('of another file beside the transform, which it may import, is a warning', async () => {
    const withHelper = (factor: number): RepositoryFiles => ({
      'model/1/model.onnx': identityModel(),
      'model/config.json': { transform: 'transform.mjs' },
      'model/transform.mjs': `import { factor } from './lib/helper.mjs';
        export const encode = (outputs) => factor * outputs.y.data[0];`,
      'model/lib/helper.mjs': `export const factor = ${factor};`,
    });
    // What only people read, or training needs, is not deployed.
    const { proof } = await prove({ ...withHelper(1), 'model/train.py': 'pass', 'model/README.md': 'A model.' });

    expect((await start({ ...withHelper(1), [PLACE]: { ...proof } })).isAsProved).toBe(true);
    const { warnings } = await start({ ...withHelper(2), [PLACE]: { ...proof } });

    expect(warnings).toEqual([expect.stringContaining('this config.json and its transform')]);
  });

  it('that is no file is a warning, and holds up no start', async () => {
    const directory = await modelsDirectory(SOUND_FILES);
    execFileSync('mkfifo', [join(directory, PLACE)]);
    const { repository, warnings } = await openModels({}, { directory });

    expect((await found(repository.find('model', undefined))).independence).toBe('proved');
    expect(warnings).toEqual([expect.stringContaining('proof.json: expected a file, got something else')]);
  });

  it('after which the model does not run as it did is a warning, and the model is proved at start', async () => {
    const files = { 'model/1/model.onnx': rowsOnlyModel(4) };
    const { proof } = await prove(files);
    const other = sealed({ ...proof, found: { ...proof.found, allowedSizes: [3] } });

    const { model, warnings } = await start({ ...files, [PLACE]: other });

    expect(warnings).toContainEqual(expect.stringMatching(/^proof\.json: expected a model that runs as it did, got: /));
    expect(model.allowedSizes).toEqual([4]);
  });

  it('of another instruction set tells that rows depend on each other, and not that they do not', async () => {
    const elsewhere = ({ keys, ...proof }: Proof) => sealed({ ...proof, keys: { ...keys, instructions: 'z80' } });
    const mixing = { 'model/1/model.onnx': MIXING['softmax over axis 0']?.() as Uint8Array };
    const [ofMixing, ofSound] = [await prove(mixing), await prove(SOUND_FILES)];

    const dependent = await start({ ...mixing, [PLACE]: elsewhere(ofMixing.proof) });
    const sound = await start({ ...SOUND_FILES, [PLACE]: elsewhere(ofSound.proof) });

    expect([dependent.isAsProved, dependent.model.independence]).toEqual([true, 'dependent']);
    expect([sound.isAsProved, sound.model.independence, sound.warnings]).toEqual([false, 'proved', []]);
    expect(sound.log).toContainEqual(expect.stringMatching(/proved with z80, and here is .*: how it rounds is proved/));
    expect(dependent.log).toContainEqual(expect.stringMatching(/proved with z80, .*: that requests run one at a time/));
  });
});

/** So large that it is opened before its digest is known. */
const LARGE = 16 * 1024 * 1024;

/** The same model with a `doc_string` of 16 MiB. */
function large(model: Uint8Array): Uint8Array {
  const field = Buffer.from([(6 << 3) | 2, 0x80, 0x80, 0x80, 0x08]);
  return Buffer.concat([model, field, Buffer.alloc(LARGE, 'a')]);
}

describe('a proof of a large model', () => {
  const rows = (count: number) => [counting('x', count, 3)];

  it('is not waited for by a row by itself; of other weights it is a warning, and the model is proved', async () => {
    const files = {
      'model/1/model.onnx': large(modelWithWeightsIn('weights.bin')),
      'model/1/weights.bin': someFloats(1),
    };
    const { proof } = await prove(files);
    const directory = await modelsDirectory({ ...files, [PLACE]: { ...proof } });
    const weights = join(directory, 'model/1/weights.bin');
    // Read to its end only once somebody writes there.
    const holdDigest = (): void => {
      unlinkSync(weights);
      execFileSync('mkfifo', [weights]);
    };
    let starts = 0;
    const { repository, warnings } = await openModels(
      {},
      { directory, assigned: () => (starts++ === 0 ? holdDigest() : undefined) },
    );
    const model = await found(repository.find('model', undefined));

    expect((await model.run(rows(1))).outputs[0]?.data).toEqual(Float32Array.of(2, 3, 4));
    const together = model.run(rows(2)).catch((error: unknown) => error);
    const writing = await open(weights, 'w');
    unlinkSync(weights);
    await putFile(weights, someFloats(2));
    await writing.close();

    expect(await together).toBeInstanceOf(ModelUnavailableError);
    const again = await found(repository.find('model', undefined));
    expect((await again.run(rows(2))).outputs[0]?.data).toEqual(Float32Array.of(3, 4, 5, 6, 7, 8));
    expect([again.independence, starts]).toEqual(['proved', 2]);
    expect(warnings).toEqual([expect.stringContaining('expected a proof of this model')]);
  });

  it('that is of another one leaves a model unavailable whose config.json is broken by now, and ends its thread', async () => {
    const files = { 'model/1/model.onnx': large(modelWithWeightsIn('w.bin')), 'model/1/w.bin': someFloats(1) };
    const { proof } = await prove(files);
    const directory = await modelsDirectory({ ...files, 'model/1/w.bin': someFloats(2), [PLACE]: { ...proof } });
    const config = join(directory, 'model/config.json');
    const threads = watchThreads();
    const { repository } = await openModels({}, { directory, assigned: () => writeFileSync(config, '{') });
    const model = await found(repository.find('model', undefined));

    await expect(model.run(rows(2))).rejects.toThrow(ModelUnavailableError);
    const message = expect.stringContaining(`${config}: `);
    expect(await repository.find('model', undefined)).toMatchObject({ code: 'MODEL_UNAVAILABLE', message });
    if (threads[0]?.threadId !== ENDED) await once(threads[0] as Worker, 'exit');
  });

  /** A model with its weights apart that fails with more than eight rows. */
  const eightRowsApart = async (config: RepositoryFiles[string]): Promise<string> => {
    const whole = await modelsDirectory({ 'model/1/model.onnx': largeModel(1, 8) });
    const directory = await modelsDirectory({ 'model/1/.keep': '', 'model/config.json': config });
    storeApart(join(whole, 'model/1/model.onnx'), join(directory, 'model/1/model.onnx'));
    return directory;
  };
  /** Opens it as if that had taken an hour. */
  const proved = async (directory: string) => {
    let looks = 0;
    const now = () => (looks++ === 0 ? 0 : 3_600_000);
    const { repository, warnings } = await openModels({}, { directory, keepsProof: true, now });
    const proof: Proof = JSON.parse(await readFile(join(directory, PLACE), 'utf8'));
    return { model: await found(repository.find('model', undefined)), warnings, proof };
  };

  it('in one file is one of how it is opened where it is published, with its weights apart', async () => {
    const files = { 'model/1/model.onnx': largeModel(1, 8), 'model/config.json': { allowedSizes: [1, 8] } };
    const whole = await modelsDirectory(files);
    const { proof } = await proved(whole);
    expect(['later', 'never']).toContain(proof.found.prepacking);
    const apart = await modelsDirectory({ ...files, 'model/1/model.onnx': '' });
    storeApart(join(whole, 'model/1/model.onnx'), join(apart, 'model/1/model.onnx'));

    for (const [directory, sessions] of [
      [whole, 1],
      [apart, 2],
    ] as const) {
      await putFile(join(directory, PLACE), sealed({ ...proof, found: { ...proof.found, prepacking: 'later' } }));
      const threads = watchThreads();
      const { repository, log } = await openModels({}, { directory });
      await (await found(repository.find('model', undefined))).run(rows(2));
      expect([threads.length, log.join()]).toEqual([sessions, expect.stringContaining('as proof.json says')]);
    }
  });

  it('is kept without a word of prepacking where sessions cannot be compared, which is a warning', async () => {
    const { warnings, proof } = await proved(await eightRowsApart({ batching: 'trust' }));
    expect(warnings).toContainEqual(expect.stringContaining('its weights are prepacked at every start, as comparing'));
    expect(proof.found).not.toHaveProperty('prepacking');
  });

  it('has it opened without prepacking, and another session take its place where the proof says so', async () => {
    const directory = await eightRowsApart({ allowedSizes: [1, 8] });
    const { model: packed, proof } = await proved(directory);
    const expected = (await packed.run(rows(2))).outputs;
    expect(['later', 'never']).toContain(proof.found.prepacking);

    for (const [prepacking, sessions, isShortLived] of [
      ['later', 2, false],
      ['later', 1, true],
      ['never', 1, false],
    ] as const) {
      await putFile(join(directory, PLACE), sealed({ ...proof, found: { ...proof.found, prepacking } }));
      const threads = watchThreads();
      const { repository, warnings } = await openModels({}, { directory, isShortLived });
      const model = await found(repository.find('model', undefined));
      const answers = [(await model.run(rows(2))).outputs];
      expect(threads).toHaveLength(sessions);
      if (sessions === 2 && threads[0]?.threadId !== ENDED) await once(threads[0] as Worker, 'exit');
      answers.push((await model.run(rows(2))).outputs);

      expect(answers.map((outputs) => firstDifference(outputs, expected, OTHER_SHAPE))).toEqual([undefined, undefined]);
      expect(warnings.filter((warning) => warning.includes('proof'))).toEqual([]);
    }
  });
});

describe('batchscore inspect', () => {
  it('says of a large model what holds, and not what a proof of another one says', async () => {
    const files = { 'model/1/model.onnx': large(modelWithWeightsIn('w.bin')), 'model/1/w.bin': someFloats(1) };
    const { proof } = await prove(files);
    const stale = sealed({ ...proof, found: { ...proof.found, independence: 'dependent' } });
    const directory = await modelsDirectory({ ...files, 'model/1/w.bin': someFloats(2), [PLACE]: stale });

    const { code, stdout } = await batchscore(['inspect', join(directory, 'model'), '--json']);

    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      verdict: 'independent',
      warnings: [expect.stringContaining('expected a proof of this model')],
    });
  });
});

describe('batchscore inspect --prove', () => {
  it('writes a proof once, and anew where it does not fit any more', async () => {
    const directory = await modelsDirectory(SOUND_FILES);
    const inspect = () => batchscore(['inspect', join(directory, 'model'), '--prove']);
    const written = async () => (await stat(join(directory, PLACE))).mtimeMs;

    const { code, stderr } = await inspect();
    expect([code, stderr]).toEqual([0, `${join(directory, PLACE)}: what the checks found is kept there\n`]);
    const first = await written();
    await inspect();
    expect(await written()).toBe(first);
    await putFile(join(directory, 'model/config.json'), { maxBatchRows: 65 });
    await inspect();
    expect(await written()).toBeGreaterThan(first);
  });

  it('keeps nothing of a model that answers at random, or of other processors than the CPU, and says why', async () => {
    const directory = await modelsDirectory({ 'model/1/model.onnx': noisyModel() });

    const random = await batchscore(['inspect', join(directory, 'model'), '--prove']);
    const gpu = await batchscore(['inspect', join(directory, 'model'), '--prove', '--providers', 'cuda']);

    expect([random.code, gpu.code]).toEqual([1, 2]);
    expect(random.stderr).toMatch(/expected a model that the checks prove, got: .*answers the same run differently/);
    expect(gpu.stderr).toContain("--prove: expected the provider 'cpu'");
    await expect(stat(join(directory, PLACE))).rejects.toThrow('ENOENT');
  });
});

function someFloats(value: number): Uint8Array {
  return new Uint8Array(new Float32Array(3).fill(value).buffer);
}
