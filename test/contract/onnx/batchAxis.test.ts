import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Tensor } from '../../../lambda/core/tensor.ts';
import {
  attentionModel,
  columnsModel,
  renamedLengthModel,
  sequenceFirstModel,
  voiceModel,
} from '../../helpers/axisModels.ts';
import { model as modelOf, node } from '../../helpers/graph.ts';
import { counting, openModels, openOnly, type RepositoryFiles } from '../../helpers/openModels.ts';
import {
  bodyOf,
  expectAnsweredAsAlone,
  expectClose,
  FORMS,
  type Given,
  given,
  type RowsOf,
  runAlone,
  score,
  sessionOf,
} from './asAlone.ts';

const VOICE = { batchAxis: { state: 1, new_state: 1 }, constants: { sr: 16_000 } };

function voiceOf(rows: number, seed: number): Given[] {
  return [given('input', 0, [rows, 4], seed), given('state', 1, [2, rows, 3], seed + 1)];
}

const SR: Tensor = { name: 'sr', datatype: 'INT64', shape: [], data: BigInt64Array.of(16_000n) };
const OF_VOICE: RowsOf = { names: ['output', 'new_state'], axes: [0, 1], constants: [SR] };

const anyRequests = fc.array(
  fc.record({
    form: fc.constantFrom(...FORMS),
    rows: fc.integer({ min: 1, max: 6 }),
    length: fc.integer({ min: 1, max: 5 }),
    seed: fc.nat({ max: 1000 }),
  }),
  { minLength: 1, maxLength: 6 },
);

describe('a model with a state, whose batch is axis 1', () => {
  it('answers every request as ONNX Runtime does, in the layout of the model, whatever shares its run', async () => {
    const opened = await openOnly(voiceModel(), { ...VOICE, maxBatchRows: 4 });
    const session = await sessionOf(opened);
    expect(opened.warnings).toEqual([]);
    await fc.assert(
      fc.asyncProperty(anyRequests, async (requests) => {
        const voices = requests.map(({ form, rows, seed }) => ({ form, inputs: voiceOf(rows, seed) }));
        await expectAnsweredAsAlone(opened, voices, OF_VOICE, session);
      }),
      { numRuns: 30 },
    );
  });

  it('may leave the batch of the state without a name', async () => {
    const opened = await openOnly(voiceModel('batch', '?'), VOICE);
    expect(opened.model.inputs[1]).toEqual({
      name: 'state',
      datatype: 'FP32',
      shape: ['state axis 1', 2, 3],
      batchAxis: 1,
    });
    const requests = [1, 2].map((rows) => ({ form: 'raw' as const, inputs: voiceOf(rows, rows) }));
    await expectAnsweredAsAlone(opened, requests, OF_VOICE, await sessionOf(opened));
  });

  it('refuses more rows than a request may have, counted on that axis', async () => {
    const opened = await openOnly(sequenceFirstModel(), { batchAxis: { input: 1, output: 1 } });
    const tooMany = given('input', 1, [2, 10_001, 2], 0);
    const long = given('input', 1, [10_001, 2, 2], 0);
    const { answers } = await score(opened, [bodyOf('raw', [tooMany]), bodyOf('raw', [long])]);
    const [refused, scored] = answers;
    expect([refused?.code, scored?.outputs?.[0]?.shape]).toEqual(['TOO_MANY_ROWS', [10_001, 2, 3]]);
  });

  it('gives its transform outputs, and takes inputs of it, in that layout', async () => {
    const transform = `
      export const decode = ({ state }) => [
        { name: 'input', datatype: 'FP32', shape: [2, 4], data: new Float32Array(8) },
        { name: 'state', datatype: 'FP32', shape: [2, 2, 3], data: state },
      ];
      export const encode = ({ output, new_state: { shape, data } }) => ({ output: output.shape, shape, data });
    `;
    const files: RepositoryFiles = {
      'model/1/model.onnx': voiceModel(),
      'model/config.json': { ...VOICE, transform: 'transform.mjs' },
      'model/transform.mjs': transform,
    };
    const opened = await openModels(files);
    const state = given('state', 1, [2, 2, 3], 5);
    const input: Given = { ...given('input', 0, [2, 4], 0), data: new Float32Array(8) };
    const [, newState] = await runAlone(await sessionOf(opened), [input, state, SR]);
    const { answers } = await score(opened, [{ state: [...state.data] }, { state: new Array(12).fill(0.5) }]);
    expectClose(answers[0]?.result, { output: [2, 3], ...newState });
  });
});

describe('an LSTM whose batch is axis 1', () => {
  const AXES = { batchAxis: { input: 1, output: 1 } };

  it.each<[title: string, model: Uint8Array, config: object]>([
    ['of one length a run', sequenceFirstModel(), AXES],
    ['of many lengths', sequenceFirstModel(), { ...AXES, ragged: { axis: 'seq', pad: { input: 0 } } }],
    [
      'on allowed sizes',
      sequenceFirstModel(),
      { ...AXES, allowedSizes: [3], maxBatchRows: 3, ragged: { axis: 'seq', pad: { input: 9 }, allowedSizes: [2, 8] } },
    ],
    [
      'with another name for the axis that is cut back',
      sequenceFirstModel('batch', 'steps'),
      { ...AXES, ragged: { axis: 'seq', pad: { input: 0 }, cut: { output: 0 } } },
    ],
    ['baked to 4 rows', sequenceFirstModel(4), AXES],
  ])('answers every request %s as ONNX Runtime does', async (_, bytes, config) => {
    const opened = await openOnly(bytes, { maxBatchRows: 4, ...config });
    const session = await sessionOf(await openOnly(sequenceFirstModel(), AXES));
    await fc.assert(
      fc.asyncProperty(anyRequests, async (requests) => {
        const sequences = requests.map(({ form, rows, length, seed }) => {
          return { form, inputs: [given('input', 1, [length, rows, 2], seed)] };
        });
        await expectAnsweredAsAlone(opened, sequences, { axes: [1], names: ['output'] }, session);
      }),
      { numRuns: 15 },
    );
  });
});

describe('columns of integers and strings', () => {
  const AXES = { batchAxis: { tokens: 1, same_tokens: 1, words: 2, same_words: 2 } };

  it.each(['flat', 'nested', 'instances'] as const)('come back as they were sent: %s', async (form) => {
    const opened = await openOnly(columnsModel(), AXES);
    const session = await sessionOf(opened);
    const requests = [3, 1, 2].map((rows) => {
      const tokens = BigInt64Array.from({ length: 2 * rows }, (_, index) => 2n ** 60n + BigInt(index));
      const words = Array.from({ length: 4 * rows }, (_, index) => `${rows}:${index}`);
      const inputs: Given[] = [
        { name: 'tokens', datatype: 'INT64', shape: [2, rows], data: tokens, axis: 1 },
        { name: 'words', datatype: 'BYTES', shape: [2, 2, rows], data: words, axis: 2 },
      ];
      return { form, inputs };
    });
    await expectAnsweredAsAlone(opened, requests, { axes: [1, 2], names: ['same_tokens', 'same_words'] }, session);
  });
});

describe('batchAxis in config.json', () => {
  it.each<[title: string, batchAxis: unknown, message: string]>([
    ['a name that is none', { stat: 1 }, "('input', 'state', 'output', 'new_state'), got 'stat'"],
    [
      'an axis that there is not',
      { state: 1, new_state: 7 },
      'batchAxis.new_state: expected an axis of [2, batch, 3], 0 to 2, got 7',
    ],
    ['half of it', { state: 1 }, "output 'new_state'"],
    ['none of it', {}, "inputs 'input' and 'state'"],
  ])('is refused with %s, naming it', async (_, batchAxis, message) => {
    await expect(openOnly(voiceModel(), { ...VOICE, batchAxis })).rejects.toThrow(message);
  });

  it('is refused where the sizes on it disagree, naming both', async () => {
    const opening = openOnly(voiceModel(4, 3), VOICE);
    await expect(opening).rejects.toThrow(
      "inputs 'input' and 'state': expected the same size on the batch axis, got 4 on axis 0 and 3 on axis 1",
    );
  });

  it('is refused by a run whose output does not have that axis, naming it', async () => {
    const squeezed = modelOf('x FP32[batch,1]', 'y FP32[length,batch]', [node('Squeeze', 'x', 'y')]);
    const { model } = await openOnly(squeezed, { batchAxis: { y: 1 }, warmup: false });
    const running = model.run([counting('x', 2, 1)]);
    await expect(running).rejects.toThrow(
      'output \'y\': expected a batch axis 1, got shape [2]; fix "batchAxis" in config.json',
    );
  });
});

const OF_ATTENTION: RowsOf = { names: ['y', 'present_key', 'present_value'], axes: [0, 0, 0] };

describe('a decoder, whose past is empty at first', () => {
  it('answers every request as ONNX Runtime does, in all forms, whatever shares its run', async () => {
    const opened = await openOnly(attentionModel(), { maxBatchRows: 4 });
    const session = await sessionOf(opened);
    const anyRequest = fc.record({
      form: fc.constantFrom(...FORMS),
      rows: fc.integer({ min: 1, max: 3 }),
      past: fc.constantFrom(0, 0, 0, 1, 3),
      length: fc.integer({ min: 1, max: 2 }),
      seed: fc.nat({ max: 1000 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(anyRequest, { minLength: 1, maxLength: 6 }), async (requests) => {
        const decoders = requests.map(({ form, rows, past, length, seed }) => ({
          form,
          inputs: [
            given('x', 0, [rows, 2, length, 4], seed),
            given('mask', 0, [rows, past + length], seed + 1),
            given('past_key', 0, [rows, 2, past, 4], seed + 2),
            given('past_value', 0, [rows, 2, past, 4], seed + 3),
          ],
        }));
        await expectAnsweredAsAlone(opened, decoders, OF_ATTENTION, session);
      }),
      { numRuns: 30 },
    );
  });
});

describe('a ragged axis of which a request has nothing', () => {
  it.each([{}, { batching: 'alone' }])('is padded and cut back like any other, with %j', async (config) => {
    const ragged = { axis: 'length', pad: { x: 0 }, cut: { y: 1 } };
    const opened = await openOnly(renamedLengthModel(), { ragged, ...config });
    const session = await sessionOf(opened);
    const requests = [0, 3, 0, 1].map((length, index) => ({
      form: FORMS[index] as (typeof FORMS)[number],
      inputs: [given('x', 0, [2, length], index)],
    }));
    await expectAnsweredAsAlone(opened, requests, { names: ['y'], axes: [0] }, session);
    await expectAnsweredAsAlone(opened, requests.slice(2, 3), { names: ['y'], axes: [0] }, session);
  });
});
