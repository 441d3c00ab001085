import type { Part } from '../../core/microBatch.ts';
import type { Model } from '../../core/model.ts';
import { DATATYPES, type Datatype, type TensorData } from '../../core/tensor.ts';
import { asProbe, type KnownValues, type Manner, makeUp } from './probes.ts';

type Pad = number | bigint | string;
type Side = 'any' | 'above' | 'below';

/** The largest and the smallest of a row tell of the padding only where all else lies on the other side of it. */
const ROWS: readonly (readonly [Manner, Side])[] = [
  ['unit', 'any'],
  ['unit', 'above'],
  ['unit', 'below'],
  ['large', 'any'],
  ['ones', 'any'],
];

/**
 * Made-up requests of one row that show whether padding changes answers. No element equals the padding of its input: a
 * row that is all masked has no answer.
 *
 * @param shapes of one row of each input, `[1, …]`
 */
export function paddingProbes(model: Model, shapes: readonly (readonly number[])[], known: KnownValues): Part[] {
  const manners = ROWS.map(([manner]) => manner);
  return makeUp(model, shapes, manners, known).map(({ request }, row) => {
    const [, side] = ROWS[row] as (typeof ROWS)[number];
    const inputs = request.inputs.map((input, index) => {
      const pad = model.ragged?.inputs[index]?.pad;
      const { name } = model.inputs[index] as (typeof model.inputs)[number];
      if (pad === undefined) return input;
      const data = input.data as TensorData;
      if (/mask/i.test(name)) replaceInMask(data, pad);
      else if (side !== 'any') moveToSide(data, input.datatype, pad, side);
      replacePadding(data, pad);
      return input;
    });
    return asProbe(model, inputs);
  });
}

/** A mask that is padded with 0 holds 1 for what counts: what a model makes of other values is nobody's concern. */
function replaceInMask(data: TensorData, pad: Pad): void {
  if (pad === 0) (data as Float32Array).fill(1);
  if (pad === 0n) (data as BigInt64Array).fill(1n);
}

/** Beyond it there are no values on one side, or none that a model takes. */
const FARTHEST_PAD = 1e6;

/** Moves numbers above or below their padding; leaves them where there are none on that side, or none that anyone sends. */
function moveToSide(data: TensorData, datatype: Datatype, padding: Pad, side: 'above' | 'below'): void {
  const info = DATATYPES[datatype];
  const pad = Number(padding);
  if (info.kind === 'string' || info.kind === 'boolean' || !(Math.abs(pad) <= FARTHEST_PAD)) return;
  const elements = data as Pad[];
  for (let index = 0; index < elements.length; index++) {
    const size = Math.abs(Number(elements[index]));
    if (info.kind === 'float') {
      const distance = Math.max(1, Math.abs(pad)) * (0.5 + size);
      elements[index] = side === 'above' ? pad + distance : pad - distance;
      continue;
    }
    // Integers may be indexes into tables: none are below 0.
    if (side === 'below' && pad <= 0) return;
    const moved = side === 'above' ? pad + 1 + size : size % pad;
    if (moved <= Number(info.max)) elements[index] = info.kind === 'bigint' ? BigInt(moved) : moved;
  }
}

function replacePadding(data: TensorData, pad: Pad): void {
  const elements = data as Pad[];
  const other =
    typeof pad === 'bigint' ? (pad === 1n ? 2n : 1n) : typeof pad === 'string' ? `${pad}1` : 1 - Math.sign(pad);
  for (let index = 0; index < elements.length; index++) if (elements[index] === pad) elements[index] = other;
}
