import { crc32 } from 'node:zlib';
import { describe, expect, it } from '@jest/globals';
import { createEquals, type RepeatCounts } from '../../../../lambda/core/equals.ts';
import type { ScoringRequest } from '../../../../lambda/core/microBatch.ts';
import type { TensorData } from '../../../../lambda/core/tensor.ts';
import { lineModel } from '../../../helpers/scoring.ts';

const MODEL = lineModel();

function request(data: TensorData, given: Partial<ScoringRequest> = {}): ScoringRequest {
  const inputs = [{ datatype: 'FP32', shape: [1, data.length], data }] as const;
  const rest = { rows: 1, length: 1, outputs: [0], reply: 'json' } as const;
  return { bodyIndex: 0, position: 0, id: undefined, model: MODEL, inputs, ...rest, ...given };
}

function numbers(...elements: number[]): ScoringRequest {
  return request(Float32Array.from(elements));
}

/** Two arrays of eight bytes with the same CRC-32. */
function collision(): readonly [Uint8Array, Uint8Array] {
  const known = new Map<number, Uint8Array>();
  for (let seed = 1; ; seed++) {
    const bytes = new Uint8Array(new Uint32Array([Math.imul(seed, 0x9e3779b1), Math.imul(seed, 0x85ebca6b)]).buffer);
    const other = known.get(crc32(bytes));
    if (other !== undefined) return [other, bytes];
    known.set(crc32(bytes), bytes);
  }
}

/** Enters requests, as a call does, and answers none. @returns the number that joined another */
function joinedOf(counts: RepeatCounts, requests: readonly ScoringRequest[]): number {
  const equals = createEquals(counts, () => true);
  return requests.filter((one) => equals.join(one, false)).length;
}

describe('equal requests', () => {
  it.each<[string, readonly [ScoringRequest, ScoringRequest], boolean]>([
    ['with equal numbers', [numbers(1, 2), numbers(1, 2)], true],
    ['with equal NaNs', [numbers(Number.NaN), numbers(Number.NaN)], true],
    ['with 0 and -0', [numbers(0), numbers(-0)], false],
    ['with equal texts', [request(['a', 'bc']), request(['a', 'bc'])], true],
    ['with the same letters in other texts', [request(['ab', 'c']), request(['a', 'bc'])], false],
    [
      'with bytes of the same hash',
      collision().map((bytes) => request(bytes)) as [ScoringRequest, ScoringRequest],
      false,
    ],
    ['of another form', [numbers(1), request(Float32Array.of(1), { reply: 'binary' })], false],
    ['for other outputs', [numbers(1), request(Float32Array.of(1), { outputs: [1] })], false],
    ['of another model', [numbers(1), request(Float32Array.of(1), { model: lineModel() })], false],
    ['of another shape', [request(new Uint8Array(4)), request(new Float32Array(1))], false],
  ])('%s: join: %s', (_, [first, second], joins) => {
    const equals = createEquals(new WeakMap(), () => true);

    expect([equals.join(first, false), equals.join(second, false)]).toEqual([false, joins]);
    expect(equals.close(first)).toEqual(joins ? [first, second] : [first]);
  });

  it('do not join one that is closed', () => {
    const equals = createEquals(new WeakMap(), () => true);
    const [first, second, third] = [numbers(1), numbers(1), numbers(1)];
    equals.join(first, false);
    equals.close(first);

    expect([equals.join(second, false), equals.join(third, false)]).toEqual([false, true]);
    expect(equals.close(first)).toEqual([first]);
    expect(equals.close(second)).toEqual([second, third]);
  });

  it('are not searched for while repeats are rare, except in every sixteenth call', () => {
    const counts: RepeatCounts = new WeakMap();
    joinedOf(
      counts,
      Array.from({ length: 600 }, (_, index) => numbers(index)),
    );

    const joined = Array.from({ length: 32 }, () => joinedOf(counts, [numbers(1), numbers(1)]));

    expect(joined.filter((one) => one > 0)).toHaveLength(2);
  });

  it('are searched for again once they are frequent', () => {
    const counts: RepeatCounts = new WeakMap();
    joinedOf(
      counts,
      Array.from({ length: 600 }, (_, index) => numbers(index)),
    );
    const repeated = Array.from({ length: 600 }, (_, index) => numbers(index % 500));
    for (let call = 0; call < 16; call++) joinedOf(counts, repeated);

    expect([joinedOf(counts, repeated), joinedOf(counts, repeated)]).toEqual([100, 100]);
  });
});
