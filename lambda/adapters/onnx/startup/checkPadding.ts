import { isFailure, messageOf } from '../../../core/contract/failure.ts';
import { type Model, type RaggedAxis, RunAbandonedError } from '../../../core/contract/model.ts';
import type { RequestInput, ScoringRequest } from '../../../core/contract/request.ts';
import { decodeData } from '../../../core/decode/decodeData.ts';
import type { MicroBatch, Part } from '../../../core/plan/microBatch.ts';
import { assertBatched, stack, unstack } from '../../../core/stack/stack.ts';
import { DATATYPES, type Datatype, type TensorData } from '../../../core/tensor/datatype.ts';
import { elementCount, type Tensor } from '../../../core/tensor/tensor.ts';

/** Differences beyond this share of the value, or of 1 for values below 1, are more than rounding. */
const TOLERANCE = { FP16: 1e-2, OTHER: 1e-3 } as const;

const SHORT_LENGTH = 4;

/**
 * Runs one request unpadded and padded to twice its length, and compares: a model that does not mask its padding would
 * give other answers whenever its requests differ in length.
 *
 * @param sizes of symbolic axes, by name
 * @returns why it could not be checked; undefined where it was, or need not be
 * @throws Error naming the largest difference, RunAbandonedError when a run did not end in its time
 */
export async function checkPadding(
  model: Model,
  ragged: RaggedAxis,
  sizes: Readonly<Record<string, number>>,
): Promise<string | undefined> {
  const [short = sizes[ragged.name] ?? SHORT_LENGTH, long = 2 * short] = ragged.ladder;
  if (ragged.ladder.length === 1) return undefined;
  const request = probeOf(model, ragged, { ...sizes, [ragged.name]: short });
  let alone: Tensor[];
  let padded: Tensor[];
  try {
    alone = await runAt(model, request, short);
    padded = await runAt(model, request, long);
  } catch (error) {
    if (error instanceof RunAbandonedError) throw error;
    return (
      `whether padding '${ragged.name}' changes answers could not be checked: ${messageOf(error)}; ` +
      'give the sizes that it runs at as "warmup" in config.json'
    );
  }
  for (const [index, output] of alone.entries()) refuseDifference(output, padded[index] as Tensor, ragged, short, long);
  return undefined;
}

async function runAt(model: Model, request: ScoringRequest, paddedLength: number): Promise<Tensor[]> {
  const part: Part = { request, fromRow: 0, toRow: request.rows };
  const { rows } = request;
  const batch: MicroBatch = { model, parts: [part], rows, paddedRows: rows, paddedLength, closedBecause: 'end' };
  const { outputs } = await model.run(stack(batch));
  assertBatched(batch, outputs);
  return unstack(batch, part, 0, outputs);
}

/** One request with small elements, none of which equals the padding. */
function probeOf(model: Model, ragged: RaggedAxis, sizes: Readonly<Record<string, number>>): ScoringRequest {
  const rows = model.ladder[0] ?? 1;
  const inputs = model.inputs.map(({ name, datatype, shape }, index): RequestInput => {
    const dims = [rows, ...shape.slice(1).map((dim) => (typeof dim === 'number' ? dim : (sizes[dim] ?? 1)))];
    const elements = Array.from({ length: elementCount(dims) }, (_, i) =>
      probe(datatype, i, ragged.inputs[index]?.pad),
    );
    const data = decodeData(elements, datatype, dims, name);
    if (isFailure(data)) throw new Error(data.message);
    return { datatype, shape: dims, data };
  });
  const outputs = model.outputs.map((_, index) => index);
  const length = sizes[ragged.name] ?? 1;
  return { record: 0, position: 0, id: undefined, model, rows, length, inputs, outputs, reply: 'json' };
}

/** Integers are often indexes into tables and masks: 1 is in nearly all of them. */
function probe(datatype: Datatype, index: number, pad: number | bigint | string | undefined): unknown {
  switch (DATATYPES[datatype].kind) {
    case 'float':
      return 0.25 + (index % 7) / 8;
    case 'integer':
    case 'bigint':
      return Number(pad) === 1 ? 2 : 1;
    case 'boolean':
      return pad !== 1;
    case 'string':
      return 'a';
  }
}

function refuseDifference(alone: Tensor, padded: Tensor, ragged: RaggedAxis, short: number, long: number): void {
  const differs = (detail: string): Error =>
    new Error(
      `output '${alone.name}': expected the same answer with '${ragged.name}' padded from ${short} to ${long}, got ` +
        `${detail}; mask the padding in the model, choose other pad values, or remove "ragged" from config.json`,
    );
  if (alone.shape.join() !== padded.shape.join()) {
    throw differs(`shape [${padded.shape.join(', ')}] in place of [${alone.shape.join(', ')}]`);
  }
  const tolerance = alone.datatype === 'FP16' ? TOLERANCE.FP16 : TOLERANCE.OTHER;
  const worst = largestDifference(alone.data, padded.data);
  if (worst.difference <= tolerance) return;
  const [element, was, is] = [worst.index, alone.data[worst.index], padded.data[worst.index]];
  throw differs(`${is} in place of ${was} at element ${element}`);
}

/** As a share of the value; infinite for elements that differ and are not numbers. */
function largestDifference(alone: TensorData, padded: TensorData): { index: number; difference: number } {
  let worst = { index: 0, difference: 0 };
  for (let index = 0; index < alone.length; index++) {
    const [was, is] = [alone[index], padded[index]];
    if (Object.is(was, is)) continue;
    const share = Math.abs(Number(is) - Number(was)) / Math.max(1, Math.abs(Number(was)));
    const difference = typeof was === 'string' || Number.isNaN(share) ? Number.POSITIVE_INFINITY : share;
    if (difference > worst.difference) worst = { index, difference };
  }
  return worst;
}
