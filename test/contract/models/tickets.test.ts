import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { isFailure } from '../../../lambda/core/failure.ts';
import type { TransformBody, TransformInput } from '../../../lambda/core/model.ts';
import type { Tensor } from '../../../lambda/core/tensor.ts';

import { type OnnxModelRepository, openModelAlone } from '../../../lambda/onnx/repository.ts';
import labels from '../../../models/tickets/labels.json' with { type: 'json' };
import { tokenize } from '../../../models/tickets/tokenizer.ts';
import { decode, encode } from '../../../models/tickets/transform.ts';

const FOLDER = new URL('../../../models/tickets/', import.meta.url);
const ACCURACY_OF_THE_CARD = 460 / 480;

describe('the tokenizer', () => {
  it('gives the ids that the model was trained with', async () => {
    const cases = await readLines<{ text: string; tokenIds: number[] }>('tokenizer-cases.jsonl');

    expect(cases.length).toBeGreaterThan(20);
    for (const { text, tokenIds } of cases) expect({ text, tokenIds: tokenize(text) }).toEqual({ text, tokenIds });
  });

  it('hashes words by FNV-1a', () => {
    expect(tokenize('a foobar').slice(0, 2)).toEqual([1 + (0xe40c292c % 4095), 1 + (0xbf9cf968 % 4095)]);
  });

  it('takes no notice of case, punctuation, composition or the kind of apostrophe', () => {
    expect(tokenize('ÉTÉ — CAN’T!')).toEqual(tokenize("e\u0301te\u0301, can't"));
  });

  it('gives 32 ids whatever the length', () => {
    expect(tokenize('')).toEqual(new Array(32).fill(0));
    expect(tokenize('word '.repeat(100))).toEqual(new Array(32).fill(tokenize('word')[0]));
  });
});

describe('decode', () => {
  it('turns one text into one row', () => {
    const [input, ...others] = decode({
      id: 't-1',
      model_name: 'tickets',
      parameters: {},
      text: 'Where is my parcel?',
    });

    expect(others).toEqual([]);
    expect(input).toMatchObject({ name: 'token_ids', datatype: 'INT64', shape: [1, 32] });
    expect(Array.from(input?.data ?? [], Number)).toEqual(tokenize('Where is my parcel?'));
  });

  it('turns several texts into as many rows, in their order', () => {
    const [input] = decode({ texts: ['one', 'two', ''] });

    expect(input?.shape).toEqual([3, 32]);
    expect(Array.from(input?.data ?? [], Number)).toEqual(['one', 'two', ''].flatMap(tokenize));
  });

  it.each<[string, TransformBody, string]>([
    ['no text', { id: 't-1' }, 'text: expected a string, got nothing; send one ticket as "text": "…"'],
    ['a number for a text', { text: 42 }, 'text: expected a string, got a number; send'],
    ['null for a text', { text: null }, 'text: expected a string, got null; send'],
    ['an array for a text', { text: ['a'] }, 'text: expected a string, got an array; send'],
    ['a string for texts', { texts: 'a' }, 'texts: expected an array of strings, got a string; send'],
    ['no texts', { texts: [] }, 'texts: expected at least one string, got none; send'],
    ['an object among texts', { texts: ['a', {}] }, 'texts[1]: expected a string, got an object; send'],
    ['both', { text: 'a', texts: ['a'] }, 'expected "text" or "texts", got both; send one of them'],
    ['unknown keys', { text: 'a', txet: 'a', inputs: [] }, 'got also txet, inputs; remove it'],
  ])('refuses %s', (_, body, message) => {
    expect(() => decode(body)).toThrow(message);
  });
});

describe('encode', () => {
  it('names the class of every row and its probability, to four decimals', () => {
    const probabilities = [0.51239, 0.25, 0.23761, 0, 0, 0, 0, 0, 0, 0, 0, 1];

    expect(
      encode({
        label: { datatype: 'INT64', shape: [2], data: BigInt64Array.of(0n, 5n) },
        probabilities: { datatype: 'FP32', shape: [2, 6], data: Float32Array.from(probabilities) },
      }),
    ).toEqual({
      tickets: [
        { label: 'billing', confidence: 0.5124 },
        { label: 'other', confidence: 1 },
      ],
    });
  });

  it('refuses outputs without one it needs', () => {
    const label = { datatype: 'INT64', shape: [1], data: BigInt64Array.of(0n) } as const;

    expect(() => encode({ label })).toThrow('outputs: expected label and probabilities, got label; ask for both');
    expect(() => encode({})).toThrow('got none');
  });

  it('refuses a class that has no name', () => {
    const label = { datatype: 'INT64', shape: [1], data: BigInt64Array.of(6n) } as const;
    const probabilities = { datatype: 'FP32', shape: [1, 6], data: new Float32Array(6) } as const;

    expect(() => encode({ label, probabilities })).toThrow('label: expected one of 6 classes, got 6');
  });
});

describe('the model', () => {
  let repository: OnnxModelRepository;

  beforeAll(async () => {
    repository = await openModelAlone(fileURLToPath(FOLDER), {
      maxBatchRows: 512,
      maxBatchElements: 4_194_304,
      providers: ['cpu'],
      allowProviderFallback: false,
      // No check is cut short on a slow machine.
      now: () => 0,
      warn: (message) => {
        throw new Error(message);
      },
    });
  });

  afterAll(() => repository.close());

  it('routes the held-out tickets as accurately as its card says', async () => {
    const samples = await readLines<{ text: string; label: string }>('held-out.jsonl');

    const { tickets } = await route({ texts: samples.map(({ text }) => text) });

    const right = samples.filter(({ label }, index) => tickets[index]?.label === label).length;
    expect(samples).toHaveLength(480);
    expect(right / samples.length).toBe(ACCURACY_OF_THE_CARD);
  });

  it('answers the request of its card with the result of its card', async () => {
    const request = { id: 't-1', model_name: 'tickets', text: 'I was charged twice for my order' };

    expect(await route(request)).toEqual({ tickets: [{ label: 'billing', confidence: 0.968 }] });
  });

  it('gives every row of a batch what it gives the row alone', async () => {
    const texts = ['I was charged twice.', '', 'The app crashes.', 'I want a refund '.repeat(20)];

    const alone = await Promise.all(texts.map((text) => route({ text })));
    const batched = await route({ texts });

    batched.tickets.forEach(({ label, confidence }, row) => {
      expect(alone[row]?.tickets).toEqual([{ label, confidence: expect.closeTo(confidence, 3) }]);
    });
  });

  it('comes with its transform', async () => {
    const { transform } = await findTickets();

    expect(transform).toEqual({ decode: expect.any(Function), encode: expect.any(Function) });
  });

  it('has a class for every label', async () => {
    const model = await findTickets();

    expect(model.outputs).toMatchObject([
      { name: 'label' },
      { name: 'probabilities', shape: ['batch', labels.length] },
    ]);
  });

  async function route(body: TransformBody) {
    const model = await findTickets();
    const { outputs } = await model.run(decode(body).map(toTensor));
    return encode(Object.fromEntries(outputs.map((output) => [output.name, output])));
  }

  async function findTickets() {
    const model = await repository.find(undefined, undefined);
    if (isFailure(model)) throw new Error(model.message);
    return model;
  }
});

function toTensor({ name, datatype, shape, data }: TransformInput): Tensor {
  if (!(data instanceof BigInt64Array)) throw new Error(`${name}: expected a BigInt64Array`);
  return { name, datatype, shape, data };
}

async function readLines<T>(name: string): Promise<T[]> {
  const text = await readFile(new URL(name, FOLDER), 'utf8');
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as T);
}
