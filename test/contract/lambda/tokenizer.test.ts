import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { createHandler } from '../../../lambda/hosts/createHandler.ts';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { graphOf, model, weights } from '../../helpers/graph.ts';
import { composed, invoke, recordingTelemetry, sqsRecord } from '../../helpers/handler.ts';
import { openOnly, type RepositoryFiles } from '../../helpers/openModels.ts';

const FOLDER = new URL('../../helpers/tokenizers/', import.meta.url);
const WORDPIECE = readFileSync(new URL('wordpiece.json', FOLDER), 'utf8');
const BYTE_LEVEL = readFileSync(new URL('byteLevel.json', FOLDER), 'utf8');
/** Awkward texts, and their ids by Python's library. */
const IDS: Readonly<Record<'texts' | 'wordpiece' | 'byteLevel', readonly never[]>> = JSON.parse(
  readFileSync(new URL('ids.json', FOLDER), 'utf8'),
);
const TOKENS = 'INT64[batch,sequence]';
const WIDTH = 4;
const TABLE = weights('table', 1500, WIDTH);

const server = useSqsServer();

/** Gives its ids and mask back. */
function idsModel(axes = TOKENS): Uint8Array {
  const { nodes, constants } = graphOf('ids = Identity input_ids; mask = Identity attention_mask');
  return model(`input_ids ${axes}; attention_mask ${axes}`, `ids ${axes}; mask ${axes}`, nodes, constants);
}

/** Looks up a vector for each token. */
function vectorsModel(): Uint8Array {
  const { nodes } = graphOf(
    'vectors = Gather table input_ids; mask = Identity attention_mask; types = Identity token_type_ids',
  );
  const inputs = `input_ids ${TOKENS}; attention_mask ${TOKENS}; token_type_ids ${TOKENS}`;
  const outputs = `vectors FP32[batch,sequence,${WIDTH}]; mask ${TOKENS}; types ${TOKENS}`;
  return model(inputs, outputs, nodes, [TABLE]);
}

/** Makes six vectors of the first token. */
function headsModel(): Uint8Array {
  const { nodes, constants } = graphOf(
    'first = Gather input_ids 0 axis=1; f = Cast first to=1; row = Unsqueeze f [1,2]; heads = Add row table',
  );
  const table = weights('table', 6, WIDTH);
  return model(`input_ids ${TOKENS}`, `heads FP32[batch,6,${WIDTH}]`, nodes, [...constants, table]);
}

interface Answer {
  readonly code?: string;
  readonly error?: string;
  readonly outputs?: readonly { readonly shape: readonly number[]; readonly data: readonly number[] }[];
}

/** Truncation in a file: the last tokens are kept. */
const LEFT = { direction: 'Left', max_length: 6, strategy: 'LongestFirst', stride: 0 };

/** Padding in a file: every text has 64 tokens. */
const FILLED = {
  strategy: { Fixed: 64 },
  direction: 'Right',
  pad_to_multiple_of: null,
  pad_id: 7,
  pad_type_id: 0,
  pad_token: '[PAD]',
};

const MODELS: RepositoryFiles = {
  'wordpiece/1/model.onnx': idsModel(),
  'wordpiece/config.json': { tokenizer: 'tokenizer.json' },
  'wordpiece/tokenizer.json': WORDPIECE,
  'byteLevel/1/model.onnx': idsModel(),
  'byteLevel/config.json': { tokenizer: 'tokenizer.json' },
  'byteLevel/tokenizer.json': BYTE_LEVEL,
  'short/1/model.onnx': idsModel(),
  'short/config.json': { tokenizer: { file: 'tokenizer.json', maxLength: 6 } },
  'short/tokenizer.json': WORDPIECE,
  'fixed/1/model.onnx': idsModel('INT32[batch,8]'),
  'fixed/config.json': { tokenizer: 'tokenizer.json' },
  'fixed/tokenizer.json': WORDPIECE,
  'padding/1/model.onnx': idsModel(),
  'padding/config.json': { tokenizer: 'tokenizer.json' },
  'padding/tokenizer.json': JSON.stringify({
    ...JSON.parse(WORDPIECE),
    padding: FILLED,
  }),
  'filled/1/model.onnx': idsModel(),
  'filled/config.json': { tokenizer: { file: 'tokenizer.json', maxLength: 4 } },
  'filled/tokenizer.json': JSON.stringify({ ...JSON.parse(WORDPIECE), truncation: LEFT, padding: FILLED }),
  'left/1/model.onnx': idsModel(),
  'left/config.json': { tokenizer: 'tokenizer.json' },
  'left/tokenizer.json': JSON.stringify({ ...JSON.parse(WORDPIECE), truncation: LEFT }),
  'leftShort/1/model.onnx': idsModel(),
  'leftShort/config.json': { tokenizer: { file: 'tokenizer.json', maxLength: 4 } },
  'leftShort/tokenizer.json': JSON.stringify({ ...JSON.parse(WORDPIECE), truncation: LEFT }),
  'leftFixed/1/model.onnx': idsModel('INT64[batch,8]'),
  'leftFixed/config.json': { tokenizer: 'tokenizer.json' },
  'leftFixed/tokenizer.json': JSON.stringify({ ...JSON.parse(WORDPIECE), truncation: LEFT }),
  'bare/1/model.onnx': idsModel(),
  'bare/config.json': { tokenizer: 'tokenizer.json' },
  'bare/tokenizer.json': JSON.stringify({ ...JSON.parse(WORDPIECE), post_processor: null }),
  'mean/1/model.onnx': vectorsModel(),
  'mean/config.json': { tokenizer: { file: 'tokenizer.json', pooling: 'mean' } },
  'mean/tokenizer.json': WORDPIECE,
  'cls/1/model.onnx': vectorsModel(),
  'cls/config.json': { tokenizer: { file: 'tokenizer.json', pooling: 'cls' }, outputs: ['vectors'] },
  'cls/tokenizer.json': WORDPIECE,
};

function vectorOf(id: number): number[] {
  return (TABLE.floatData ?? []).slice(id * WIDTH, (id + 1) * WIDTH).map(Math.fround);
}

function meanOf(ids: readonly number[]): number[] {
  const vectors = ids.map(vectorOf);
  return Array.from({ length: WIDTH }, (_, at) =>
    Math.fround(vectors.reduce((sum, vector) => sum + (vector[at] as number), 0) / ids.length),
  );
}

describe('a model with a tokenizer', () => {
  let ask: (bodies: readonly unknown[]) => Promise<readonly Answer[]>;
  beforeAll(async () => {
    const where = { sqs: server.client(), requestQueueUrl: server.queue(), resultQueueUrl: server.queue() };
    const handler = createHandler(await composed(where, recordingTelemetry(), { models: MODELS }));
    ask = async (bodies) => {
      const records = bodies.map((body) => sqsRecord(body));
      await invoke(handler, records);
      const messages = await server.drain(where.resultQueueUrl);
      const written = new Map(
        messages.map((message) => [message.MessageAttributes?.messageId?.StringValue, message.Body]),
      );
      return records.map(({ messageId }) => JSON.parse(written.get(messageId) ?? 'null'));
    };
  });

  it.each(['wordpiece', 'byteLevel'] as const)('gives awkward texts the ids of Python: %s', async (name) => {
    const answers = await ask(IDS.texts.map((text) => ({ model_name: name, text })));

    expect(answers.map(({ outputs }) => outputs?.[0]?.data)).toEqual(IDS[name]);
  });

  it('takes an array of texts, and texts as an input of the protocol', async () => {
    const texts = ['a model', 'the rows of a model share runs'];
    const described = { name: 'text', datatype: 'BYTES', shape: [2] };
    const raw = Buffer.concat(
      texts.flatMap((text) => [Buffer.from(Uint32Array.of(Buffer.byteLength(text)).buffer), Buffer.from(text)]),
    );

    const [first, ...others] = await ask([
      { model_name: 'wordpiece', text: texts },
      { model_name: 'wordpiece', inputs: [{ ...described, data: texts }] },
      {
        model_name: 'wordpiece',
        inputs: [described],
        raw_input_contents: [raw.toString('base64')],
        parameters: { binary_data_output: false },
      },
    ]);

    const [ids, mask] = first?.outputs ?? [];
    expect(ids?.shape[0]).toBe(2);
    expect(ids?.data[(ids.shape[1] ?? 0) - 1]).toBe(0);
    expect(mask?.data).toEqual(ids?.data.map((id) => Number(id > 0)));
    expect(others.map(({ outputs }) => outputs)).toEqual([first?.outputs, first?.outputs]);
  });

  it('cuts a text to maxLength, and to the length of a model that has one', async () => {
    const text = 'the rows of a model share runs if they are independent';

    const [short, fixed, padded] = await ask([
      { model_name: 'short', text },
      { model_name: 'fixed', text },
      { model_name: 'fixed', text: 'rows' },
    ]);

    expect([short?.outputs?.[0]?.shape, short?.outputs?.[0]?.data.at(-1)]).toEqual([[1, 6], 3]);
    expect([fixed?.outputs?.[0]?.shape, fixed?.outputs?.[0]?.data.at(-1)]).toEqual([[1, 8], 3]);
    expect(padded?.outputs?.[1]?.data).toEqual([1, 1, 1, 0, 0, 0, 0, 0]);
  });

  it('pads a text to the longest of its request, with the token of the file', async () => {
    const text = ['rows', 'the rows'];
    const [lone, padded, asked] = await ask([
      { model_name: 'padding', text: 'rows' },
      { model_name: 'padding', text },
      { model_name: 'wordpiece', text },
    ]);

    const [ids = [], mask] = (asked?.outputs ?? []).map(({ data }) => data);
    expect(lone?.outputs?.[0]?.data).toEqual(ids.slice(0, 3));
    expect(padded?.outputs?.map(({ data }) => data)).toEqual([ids.map((id) => id || 7), mask]);
  });

  it('cuts a text on the side and to the length that the file says, unless maxLength or the model is shorter', async () => {
    const text = 'the rows of a model share runs if they are independent';
    const names = ['left', 'leftShort', 'leftFixed', 'wordpiece', 'filled'];

    const [left, short, fixed, whole, filled] = (await ask(names.map((name) => ({ model_name: name, text })))).map(
      ({ outputs }) => outputs?.[0]?.data ?? [],
    );

    const last = (count: number) => [2, ...(whole ?? []).slice(-count)];
    expect([left, short, fixed, filled]).toEqual([last(5), last(3), [...last(5), 0, 0], last(3)]);
  });

  it('refuses texts that would take much memory for being padded to the longest', async () => {
    const text = ['rows '.repeat(5_000), ...Array.from({ length: 999 }, () => 'a')];

    const [refused, ...others] = await ask(
      [text, 'rows', text.slice(0, 2)].map((texts) => ({ model_name: 'wordpiece', text: texts })),
    );

    expect(refused).toMatchObject({
      code: 'TOO_MANY_ROWS',
      error:
        'text: expected at most 4194304 tokens in a request, got 1000 texts padded to 5002 tokens; send fewer texts in a request, or set maxLength in config.json',
    });
    expect(others.map(({ outputs }) => outputs?.[0]?.shape)).toEqual([
      [1, 3],
      [2, 5_002],
    ]);
  });

  it('pools the vectors of the tokens that the mask keeps', async () => {
    const texts = ['rows', 'the rows of a model'];
    const [asked] = await ask([{ model_name: 'wordpiece', text: texts }]);
    const [shape, all] = [asked?.outputs?.[0]?.shape ?? [], asked?.outputs?.[0]?.data ?? []];
    const ids = texts.map((_, row) =>
      all.slice(row * (shape[1] ?? 0), (row + 1) * (shape[1] ?? 0)).filter((id) => id !== 0),
    );

    const answers = await ask([
      { model_name: 'mean', text: texts },
      ...texts.map((text) => ({ model_name: 'mean', text })),
      { model_name: 'cls', text: texts },
    ]);

    const [together, one, two, first] = answers.map(({ outputs }) => outputs?.[0]?.data.map(Math.fround));
    expect(answers[0]?.outputs?.[0]?.shape).toEqual([2, WIDTH]);
    expect(together).toEqual(ids.flatMap(meanOf));
    expect([one, two]).toEqual(ids.map(meanOf));
    expect(first).toEqual([...vectorOf(2), ...vectorOf(2)]);
    expect(answers[1]?.outputs?.[2]?.data).toEqual(ids[0]?.map(() => 0));
  });

  it.each<[string, object, string, RegExp]>([
    ['null', { text: null }, 'INVALID_DATA', /^text: expected a text or an array of texts, got null; send one$/],
    ['a number among texts', { text: ['a', 7] }, 'INVALID_DATA', /got 7/],
    ['no texts', { text: [] }, 'INVALID_DATA', /got nothing/],
    ['nothing', {}, 'INVALID_DATA', /got nothing/],
    ['another key', { texts: 'a' }, 'INVALID_REQUEST', /got "texts"; did you mean text\?$/],
    [
      'tokens',
      { inputs: [{ name: 'input_ids', datatype: 'INT64', shape: [1, 1], data: [2] }] },
      'UNKNOWN_INPUT',
      /'text'/,
    ],
    ['a text without tokens', { model_name: 'bare', text: '' }, 'INVALID_DATA', /^text: expected a text with a token/],
    [
      'one of two texts without tokens',
      { model_name: 'bare', text: ['a', ''] },
      'INVALID_DATA',
      /^text\[1\]: expected/,
    ],
  ])('answers %s with an error', async (_, body, code, error) => {
    const [answer] = await ask([{ model_name: 'wordpiece', ...body }]);

    expect(answer).toMatchObject({ code, error: expect.stringMatching(error) });
  });

  it.each<[string, RepositoryFiles, Uint8Array, object, RegExp]>([
    [
      'whose file is missing',
      {},
      idsModel(),
      {},
      /tokenizer\.json: expected the tokenizer that config\.json names, got none; add it$/,
    ],
    [
      'whose file is none',
      { 'model/tokenizer.json': '{}' },
      idsModel(),
      {},
      /expected the tokenizer\.json of a fast tokenizer/,
    ],
    [
      'that is a folder, or a pipe that nobody writes to',
      { 'model/tokenizer.json/part': '' },
      idsModel(),
      {},
      /expected the tokenizer\.json of a fast tokenizer of Hugging Face, got: what is not a file/,
    ],
    [
      'with padding that is no token',
      {
        'model/tokenizer.json': JSON.stringify({ ...JSON.parse(WORDPIECE), padding: { ...FILLED, pad_id: 2 ** 31 } }),
      },
      idsModel(),
      {},
      /expected the tokenizer\.json of a fast tokenizer of Hugging Face, got: the pad_id 2147483648, which is no token/,
    ],
    [
      'that takes no tokens',
      { 'model/tokenizer.json': WORDPIECE },
      model('x FP32[batch,3]', 'y FP32[batch,3]', graphOf('y = Identity x').nodes),
      {},
      /expected a model with input_ids, .*got 'x' FP32 \[batch, 3\]/,
    ],
    [
      'without vectors to pool',
      { 'model/tokenizer.json': WORDPIECE },
      idsModel(),
      { tokenizer: { file: 'tokenizer.json', pooling: 'mean' } },
      /pooling: expected an output of floats \[batch, tokens, width\], got 'ids', 'mask'; remove it/,
    ],
    [
      'whose vectors are not of tokens',
      { 'model/tokenizer.json': WORDPIECE },
      headsModel(),
      { tokenizer: { file: 'tokenizer.json', pooling: 'cls' } },
      /pooling: expected an output of floats \[batch, tokens, width\], got 'heads'; remove it/,
    ],
    [
      'with a mean over padding',
      { 'model/tokenizer.json': WORDPIECE },
      model(
        `input_ids ${TOKENS}`,
        `vectors FP32[batch,sequence,${WIDTH}]`,
        graphOf('vectors = Gather table input_ids').nodes,
        [TABLE],
      ),
      { tokenizer: { file: 'tokenizer.json', pooling: 'mean' } },
      /pooling: expected the input attention_mask, .*, got 'input_ids'; export the model with it, or with its pooling/,
    ],
    [
      'shorter than its special tokens',
      { 'model/tokenizer.json': WORDPIECE },
      idsModel(),
      { tokenizer: { file: 'tokenizer.json', maxLength: 1 } },
      /tokenizer: expected at least 3 tokens of a text, got 1; raise maxLength/,
    ],
    [
      'beside code that decodes',
      { 'model/tokenizer.json': WORDPIECE, 'model/transform.mjs': 'export function decode() { return []; }' },
      idsModel(),
      { transform: 'transform.mjs' },
      /expected no decode beside "tokenizer", got one; remove either/,
    ],
  ])('is refused at start if it is one %s', async (_, files, bytes, config, message) => {
    await expect(openOnly(bytes, { tokenizer: 'tokenizer.json', ...config }, {}, files)).rejects.toThrow(message);
  });
});
