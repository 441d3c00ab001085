import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { encodeModel } from '../../../../bench/workload/models/encodeModel.ts';
import { openSession, type Session } from '../../../../lambda/adapters/onnx/session/session.ts';
import { scoreRecords } from '../../../../lambda/core/scoreRecords.ts';
import { DATATYPES, type Datatype, type TensorData } from '../../../../lambda/core/tensor/datatype.ts';
import { elementCount } from '../../../../lambda/core/tensor/tensor.ts';
import { columnsModel, sequenceFirstModel, voiceModel } from '../../../helpers/batchAxisModels.ts';
import { enoughTime, scoringDependencies } from '../../../helpers/models.ts';
import { type Nested, nest, sliceAt } from '../../../helpers/nested.ts';
import { messageIdOf, standardRecords } from '../../../helpers/records.ts';
import { afterThisTest, counting, type OpenedModels, openModels, openOnly, type RepositoryFiles } from '../setup.ts';

/** One input of a request, laid out as the model has it. */
interface Given {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly data: TensorData;
  /** Its batch axis. */
  readonly axis: number;
}

function given(name: string, axis: number, shape: readonly number[], seed: number): Given {
  const data = Float32Array.from({ length: elementCount(shape) }, (_, index) => Math.sin(seed + 7 * index));
  return { name, datatype: 'FP32', shape, data, axis };
}

const FORMS = ['flat', 'nested', 'raw', 'instances'] as const;
type Form = (typeof FORMS)[number];

function bodyOf(form: Form, inputs: readonly Given[]): object {
  if (form === 'instances') {
    const [{ shape, axis }] = inputs as [Given];
    const rows = Array.from({ length: shape[axis] as number }, (_, row) =>
      Object.fromEntries(inputs.map((input) => [input.name, sliceAt(nestedOf(input), input.axis, row)])),
    );
    return { instances: rows };
  }
  const described = inputs.map(({ name, datatype, shape }) => ({ name, datatype, shape }));
  if (form === 'raw') {
    const raw = inputs.map(({ data }) => {
      const { buffer, byteOffset, byteLength } = data as Float32Array;
      return Buffer.from(buffer, byteOffset, byteLength).toString('base64');
    });
    return { inputs: described, raw_input_contents: raw };
  }
  const dataOf = (input: Given) => (form === 'flat' ? [...input.data].map(jsonOf) : nestedOf(input));
  return { inputs: described.map((input, index) => ({ ...input, data: dataOf(inputs[index] as Given) })) };
}

function nestedOf({ data, shape }: Omit<Given, 'name' | 'axis'>): Nested<unknown> {
  return nest([...data].map(jsonOf), shape);
}

function jsonOf(element: number | bigint | string): unknown {
  return typeof element === 'bigint' ? String(element) : element;
}

/** A session that is given tensors as the model has them, with nothing of batchscore around it. */
async function sessionOf({ directory }: OpenedModels): Promise<Session> {
  const spec = { path: `${directory}/model/1/model.onnx`, providers: ['cpu'], sessionOptions: {} };
  const session = await openSession(spec);
  afterThisTest(() => session.close());
  return session;
}

interface Output {
  readonly shape: readonly number[];
  readonly data: readonly unknown[];
}

/** What ONNX Runtime itself gives for one request. */
async function runAlone(session: Session, inputs: readonly Omit<Given, 'axis'>[]): Promise<Output[]> {
  const task = inputs.map(({ name, datatype, shape, data }) => {
    return { name, onnxType: DATATYPES[datatype].onnxType, shape, data: data.slice() };
  });
  const { outputs } = await session.run({ inputs: task });
  return outputs.map(({ shape, data }) => ({ shape, data: [...data].map(jsonOf) }));
}

interface Answer {
  readonly outputs?: readonly (Output & { readonly name: string; readonly datatype: Datatype })[];
  readonly raw_output_contents?: readonly string[];
  readonly predictions?: readonly unknown[];
  readonly result?: unknown;
  readonly code?: string;
  readonly error?: string;
}

/** The answers to bodies that come together, one per body. */
async function score({ repository }: OpenedModels, bodies: readonly unknown[]): Promise<Answer[]> {
  const deps = scoringDependencies({ models: repository });
  await scoreRecords(standardRecords(bodies), deps, enoughTime());
  return bodies.map((_, index) => deps.writer.documentsOf(messageIdOf(index))[0] as Answer);
}

/** Refuses an answer that is not what ONNX Runtime gave, up to rounding. */
function expectAnswer(answer: Answer, expected: readonly Output[], axes: readonly number[], names: readonly string[]) {
  if (answer.predictions !== undefined) {
    const rows = expected[0]?.shape[axes[0] as number] ?? 0;
    const wanted = Array.from({ length: rows }, (_, row) => {
      const values = expected.map(({ data, shape }, index) => sliceAt(nest(data, shape), axes[index] as number, row));
      return values.length === 1 ? values[0] : Object.fromEntries(names.map((name, index) => [name, values[index]]));
    });
    expectClose(answer.predictions, wanted);
    return;
  }
  const got = answer.outputs?.map(({ shape, data }, index) => {
    const raw = answer.raw_output_contents?.[index];
    return {
      shape,
      data: raw === undefined ? data : [...new Float32Array(Uint8Array.from(Buffer.from(raw, 'base64')).buffer)],
    };
  });
  expectClose(got, expected);
}

function expectClose(got: unknown, wanted: unknown): void {
  expect(snapped(got, wanted)).toEqual(wanted);
}

/** `got` with the numbers of `wanted` where they differ by no more than one row and many may be rounded differently. */
function snapped(got: unknown, wanted: unknown): unknown {
  if (typeof got === 'number' && typeof wanted === 'number') return Math.abs(got - wanted) <= 1e-5 ? wanted : got;
  if (typeof got !== 'object' || got === null) return got;
  const at = (wanted ?? {}) as Record<string, unknown>;
  if (Array.isArray(got)) return got.map((part, index) => snapped(part, at[index]));
  return Object.fromEntries(Object.entries(got).map(([key, part]) => [key, snapped(part, at[key])]));
}

const VOICE = { batchAxis: { state: 1, new_state: 1 }, constants: { sr: 16_000 } };

function voiceOf(rows: number, seed: number): Given[] {
  return [given('input', 0, [rows, 4], seed), given('state', 1, [2, rows, 3], seed + 1)];
}

const SR: Omit<Given, 'axis'> = { name: 'sr', datatype: 'INT64', shape: [], data: BigInt64Array.of(16_000n) };

const anyRequests = fc.array(
  fc.record({
    form: fc.constantFrom(...FORMS),
    rows: fc.integer({ min: 1, max: 6 }),
    length: fc.integer({ min: 1, max: 5 }),
    seed: fc.nat({ max: 1000 }),
  }),
  { minLength: 1, maxLength: 6 },
);

/** Every request scored with the others, in one message each and packed into one, is answered as it is alone. */
async function expectAnsweredAsAlone(
  opened: OpenedModels,
  requests: readonly { readonly form: Form; readonly inputs: readonly Given[] }[],
  {
    axes,
    names,
    constants = [],
  }: { axes: readonly number[]; names: readonly string[]; constants?: readonly Omit<Given, 'axis'>[] },
  session: Session,
): Promise<void> {
  const bodies = requests.map(({ form, inputs }) => bodyOf(form, inputs));
  const answers = await score(opened, bodies);
  const [packed] = await score(opened, [bodies]);
  for (const [index, { inputs }] of requests.entries()) {
    const alone = await runAlone(session, [...inputs, ...constants]);
    expectAnswer(answers[index] as Answer, alone, axes, names);
    expectAnswer((packed as unknown as Answer[])[index] as Answer, alone, axes, names);
  }
}

describe('a model with a state, whose batch is axis 1', () => {
  it('answers every request as ONNX Runtime does, in the layout of the model, whatever shares its run', async () => {
    const opened = await openOnly(voiceModel(), { ...VOICE, maxBatchRows: 4 });
    const session = await sessionOf(opened);
    expect(opened.warnings).toEqual([]);
    await fc.assert(
      fc.asyncProperty(anyRequests, async (requests) => {
        const voices = requests.map(({ form, rows, seed }) => ({ form, inputs: voiceOf(rows, seed) }));
        const ofVoice = { axes: [0, 1], names: ['output', 'new_state'], constants: [SR] };
        await expectAnsweredAsAlone(opened, voices, ofVoice, session);
      }),
      { numRuns: 30 },
    );
  });

  it('may bake its batch there: runs are padded to that size', async () => {
    const opened = await openOnly(voiceModel(4), VOICE);
    const session = await sessionOf(await openOnly(voiceModel(), VOICE));
    expect(opened.model.ladder).toEqual([4]);
    const requests = [1, 2, 3, 6].map((rows) => ({ form: 'flat' as const, inputs: voiceOf(rows, rows) }));
    const ofVoice = { axes: [0, 1], names: ['output', 'new_state'], constants: [SR] };
    await expectAnsweredAsAlone(opened, requests, ofVoice, session);
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
    const ofVoice = { axes: [0, 1], names: ['output', 'new_state'], constants: [SR] };
    await expectAnsweredAsAlone(opened, requests, ofVoice, await sessionOf(opened));
  });

  it('refuses more rows than a request may have, counted on that axis', async () => {
    const opened = await openOnly(sequenceFirstModel(), { batchAxis: { input: 1, output: 1 } });
    const tooMany = given('input', 1, [2, 10_001, 2], 0);
    const long = given('input', 1, [10_001, 2, 2], 0);
    const [refused, scored] = await score(opened, [bodyOf('raw', [tooMany]), bodyOf('raw', [long])]);
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
    const session = await sessionOf(opened);
    const [, newState] = await runAlone(session, [input, state, SR]);
    const [answer, other] = await score(opened, [{ state: [...state.data] }, { state: new Array(12).fill(0.5) }]);
    expectClose(answer?.result, { output: [2, 3], ...newState });
    expect(other?.result).toMatchObject({ shape: [2, 2, 3] });
  });
});

describe('an LSTM whose batch is axis 1', () => {
  const AXES = { batchAxis: { input: 1, output: 1 } };

  it.each<[title: string, model: Uint8Array, config: object]>([
    ['of one length a run', sequenceFirstModel(), AXES],
    ['of many lengths', sequenceFirstModel(), { ...AXES, ragged: { axis: 'seq', pad: { input: 0 } } }],
    [
      'on rungs',
      sequenceFirstModel(),
      { ...AXES, ladder: [3], maxBatchRows: 3, ragged: { axis: 'seq', pad: { input: 9 }, ladder: [2, 8] } },
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

  it('come back in base64 too', async () => {
    const opened = await openOnly(columnsModel(), AXES);
    const words = ['a', 'bc', '', 'd', 'e', 'f', 'g', 'h'];
    const lengths = words.flatMap((word) => [word.length, 0, 0, 0, ...Buffer.from(word)]);
    const raw = [
      Buffer.from(BigInt64Array.of(1n, 2n, 3n, 4n).buffer).toString('base64'),
      Buffer.from(lengths).toString('base64'),
    ];
    const inputs = [
      { name: 'tokens', datatype: 'INT64', shape: [2, 2] },
      { name: 'words', datatype: 'BYTES', shape: [2, 2, 2] },
    ];
    const [answer] = await score(opened, [{ inputs, raw_input_contents: raw }]);
    expect(answer?.outputs?.map(({ shape }) => shape)).toEqual([
      [2, 2],
      [2, 2, 2],
    ]);
    expect(answer?.raw_output_contents).toEqual(raw);
  });
});

describe('batchAxis in config.json', () => {
  it.each<[title: string, batchAxis: unknown, message: string]>([
    [
      'a name that is none',
      { stat: 1 },
      "batchAxis: expected names of the inputs and outputs that have a batch axis ('input', 'state', 'output', 'new_state'), got 'stat'",
    ],
    ['a constant', { sr: 0 }, "got 'sr'; correct or remove it"],
    [
      'an axis that there is not',
      { state: 3, new_state: 1 },
      'batchAxis.state: expected an axis of [2, batch, 3], 0 to 2, got 3',
    ],
    [
      'an axis of an output that there is not',
      { state: 1, new_state: 7 },
      'batchAxis.new_state: expected an axis of [2, batch, 3], 0 to 2, got 7',
    ],
    ['a negative axis', { state: -1 }, 'batchAxis.state'],
    ['no number', { state: 'batch' }, 'batchAxis.state'],
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

  it('may say what is so anyway', async () => {
    const { model } = await openOnly(voiceModel(), { ...VOICE, batchAxis: { ...VOICE.batchAxis, input: 0 } });
    expect(model.inputs.map(({ batchAxis }) => batchAxis)).toEqual([undefined, 1]);
  });

  it('is refused by a run whose output does not have that axis, naming it', async () => {
    const squeezed = encodeModel({
      inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', 1] }],
      outputs: [{ name: 'y', datatype: 'FP32', shape: ['length', 'batch'] }],
      nodes: [{ op: 'Squeeze', inputs: ['x'], outputs: ['y'] }],
    });
    const { model } = await openOnly(squeezed, { batchAxis: { y: 1 }, warmup: false });
    const running = model.run([counting('x', 2, 1)]);
    await expect(running).rejects.toThrow(
      'output \'y\': expected a batch axis 1, got shape [2]; fix "batchAxis" in config.json',
    );
  });
});
