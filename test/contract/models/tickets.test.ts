import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import type { TransformBody } from '../../../lambda/core/model.ts';
import { tokenize } from '../../../models/tickets/tokenizer.ts';
import { decode, encode } from '../../../models/tickets/transform.ts';
import { batchscore } from '../../helpers/batchscore.ts';

const ACCURACY_OF_THE_CARD = 460 / 480;

/** The lines of a file of the model. */
function readLines<T>(name: string): T[] {
  const text = readFileSync(new URL(`../../../models/tickets/${name}`, import.meta.url), 'utf8');
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

/** The result of a request, as the model with its transform gives it. */
async function resultOf(request: TransformBody) {
  const { code, stdout, stderr } = await batchscore(['score', 'models/tickets', '-'], JSON.stringify(request));
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout).result;
}

describe('the tokenizer', () => {
  it('gives the ids that the model was trained with', () => {
    const cases = readLines<{ text: string; tokenIds: number[] }>('tokenizer-cases.jsonl');
    expect(cases.length).toBeGreaterThan(20);
    for (const { text, tokenIds } of cases) expect({ text, tokenIds: tokenize(text) }).toEqual({ text, tokenIds });
  });
});

describe('the transform', () => {
  it.each<[string, TransformBody, string]>([
    ['no text', { id: 't-1' }, 'text: expected a string, got nothing; send one ticket as "text": "…"'],
    ['a number for a text', { text: 42 }, 'text: expected a string, got a number; send'],
    ['a string for texts', { texts: 'a' }, 'texts: expected an array of strings, got a string; send'],
    ['no texts', { texts: [] }, 'texts: expected at least one string, got none; send'],
    ['an object among texts', { texts: ['a', {}] }, 'texts[1]: expected a string, got an object; send'],
    ['both', { text: 'a', texts: ['a'] }, 'expected "text" or "texts", got both; send one of them'],
    ['unknown keys', { text: 'a', txet: 'a', inputs: [] }, 'got also txet, inputs; remove it'],
  ])('refuses %s', (_, body, message) => {
    expect(() => decode(body)).toThrow(message);
  });

  it('refuses a class that has no name, and outputs without one that it needs', () => {
    const label = { datatype: 'INT64', shape: [1], data: BigInt64Array.of(6n) } as const;
    const probabilities = { datatype: 'FP32', shape: [1, 6], data: new Float32Array(6) } as const;
    expect(() => encode({ label, probabilities })).toThrow('label: expected one of 6 classes, got 6');
    expect(() => encode({ label })).toThrow('outputs: expected label and probabilities, got label; ask for both');
  });
});

describe('the model', () => {
  it('routes the held-out tickets, in their order, as accurately as its card says', async () => {
    const samples = readLines<{ text: string; label: string }>('held-out.jsonl');
    const { tickets } = await resultOf({ texts: samples.map(({ text }) => text) });
    const right = samples.filter(({ label }, index) => tickets[index].label === label).length;
    expect([tickets.length, right / samples.length]).toEqual([480, ACCURACY_OF_THE_CARD]);
  });

  it('answers the request of its card with the result of its card', async () => {
    const request = { id: 't-1', model_name: 'tickets', text: 'I was charged twice for my order' };
    expect(await resultOf(request)).toEqual({ tickets: [{ label: 'billing', confidence: 0.968 }] });
  });
});
