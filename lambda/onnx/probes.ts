import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '../core/failure.ts';
import { isRefused, type Part, type RequestInput, type ScoringRequest } from '../core/microBatch.ts';
import type { Model } from '../core/model.ts';
import { decodeRequest } from '../core/request.ts';
import { allocate, DATATYPES, type Datatype, elementCount, type TensorData } from '../core/tensor.ts';
import { type AxisSizes, shapesAt } from './contract.ts';
import { isNotThere } from './modelConfig.ts';

/* Creates requests to try a model with: real ones of `samples.jsonl`, or made-up ones. */

/** Returns rows of real requests with the trailing shape of the first one, apart from the ragged axis. */
export function realProbes(samples: readonly ScoringRequest[], max: number): Part[] {
  const [first] = samples;
  if (first === undefined) return [];
  const signature = signatureOf(first);
  const rows = samples
    .filter((sample) => signatureOf(sample) === signature)
    .flatMap((request) =>
      Array.from({ length: request.rows }, (_, row) => ({ request, fromRow: row, toRow: row + 1 })),
    );
  return rows.slice(0, max);
}

function signatureOf({ model: { ragged }, inputs }: ScoringRequest): string {
  return inputs
    .map(({ shape }, index) => shape.filter((_, axis) => axis > 0 && axis !== ragged?.inputs[index]?.axis).join())
    .join(';');
}

/** Scale and largest integer of made-up numbers. */
const MANNERS = {
  unit: { scale: 1, max: 3 },
  large: { scale: 100, max: 3 },
  small: { scale: 0.01, max: 1 },
  wide: { scale: 1e4, max: 255 },
  ones: { scale: 1, max: 0 },
  zeros: { scale: 0, max: 0 },
} as const;

export type Manner = keyof typeof MANNERS;

/**
 * Made-up texts and integers. Integers are small, because many are indexes into tables. Texts are numbers, because some
 * models cast them.
 */
const WORDS = ['1', '2', '3.5', '0', '10', '-1'];

/**
 * Makes up requests of one row, the same ones at every start.
 *
 * @param shapes of one row of each input, `[1, …]`
 * @param manners one for each request
 */
export function makeUp(model: Model, shapes: readonly (readonly number[])[], manners: readonly Manner[]): Part[] {
  const random = createRandom(SEED);
  return manners.map((manner) => {
    const inputs = model.inputs.map(({ datatype }, index): RequestInput => {
      const shape = shapes[index] as readonly number[];
      return { datatype, shape, data: elementsOf(datatype, elementCount(shape), manner, random) };
    });
    return asProbe(model, inputs);
  });
}

/** Creates a part of a micro-batch: a request of one row. */
export function asProbe(model: Model, inputs: readonly RequestInput[]): Part {
  const index = model.ragged?.inputs.findIndex((input) => input !== undefined) ?? -1;
  const length = inputs[index]?.shape[model.ragged?.inputs[index]?.axis ?? 0] ?? 1;
  const outputs = model.outputs.map((_, output) => output);
  const request: ScoringRequest = {
    bodyIndex: 0,
    position: 0,
    id: undefined,
    model,
    rows: 1,
    length,
    inputs,
    outputs,
    reply: 'json',
  };
  return { request, fromRow: 0, toRow: 1 };
}

/** Returns the shape of one row of each input. A symbolic axis has its size in `sizes`, or `size`. */
export function rowShapes(model: Model, sizes: AxisSizes, size: number): number[][] {
  return shapesAt(model, 1, sizes, size);
}

function elementsOf(datatype: Datatype, count: number, manner: Manner, random: () => number): TensorData {
  const data = allocate(datatype, count);
  const { kind } = DATATYPES[datatype];
  const { scale, max } = MANNERS[manner];
  const integer = (): number => (manner === 'ones' ? 1 : Math.floor(random() * (max + 1)));
  for (let index = 0; index < count; index++) {
    if (kind === 'string') (data as string[])[index] = WORDS[Math.floor(random() * WORDS.length)] as string;
    else if (kind === 'float') (data as Float32Array)[index] = scale * (random() + random() + random() - 1.5) * 2;
    else if (kind === 'bigint') (data as BigInt64Array)[index] = BigInt(integer());
    else (data as Int32Array)[index] = kind === 'boolean' ? Math.floor(random() * 2) : integer();
  }
  return data;
}

const SEED = 20_011;

/** Returns a generator of reproducible numbers from 0 to 1: a 32-bit xorshift. */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

/** File of real requests, beside a model's versions: one a line, in the form that producers send. */
export const SAMPLES_FILE = 'samples.jsonl';

/** Number of samples to read: enough for the checks at start. */
const MAX_SAMPLES = 16;

const LIMITS = { maxRequestRows: 10_000, maxRequestsPerMessage: 1 };

/** First lines of a model's samples with their line numbers. */
export interface SampleLines {
  readonly path: string;
  readonly lines: readonly { readonly line: string; readonly number: number }[];
}

/** Reads the first lines of `samples.jsonl` without blank ones, or none if the file does not exist. */
export async function readSampleLines(folder: string): Promise<SampleLines> {
  const path = join(folder, SAMPLES_FILE);
  try {
    const texts = (await readFile(path, 'utf8')).split('\n');
    // `trim` also removes a byte order mark and \r.
    const lines = texts.map((text, index) => ({ line: text.trim(), number: index + 1 }));
    return { path, lines: lines.filter(({ line }) => line !== '').slice(0, MAX_SAMPLES) };
  } catch (cause) {
    if (isNotThere(cause)) return { path, lines: [] };
    throw new Error(`${path}: expected lines of JSON, got a file that cannot be read: ${messageOf(cause)}`, { cause });
  }
}

/**
 * Decodes samples like requests of producers.
 *
 * @throws Error naming the line that is no valid request of the model, and the problem
 */
export async function decodeSamples({ path, lines }: SampleLines, model: Model): Promise<ScoringRequest[]> {
  const models = { find: () => model };
  const place = { path: 'body', bodyIndex: 0, position: 0 };
  const samples: ScoringRequest[] = [];
  for (const { line, number } of lines) {
    const where = `${path}:${number}`;
    const decoded = await decodeRequest(parse(line, where), place, { models, limits: LIMITS, areSamples: true });
    if (isRefused(decoded)) throw new Error(`${where}: expected a request of the model: ${decoded.failure.message}`);
    samples.push(decoded);
  }
  return samples;
}

function parse(line: string, where: string): unknown {
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw new Error(`${where}: expected a request as JSON, got something else; fix the line or delete it`, { cause });
  }
}
