import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  allocate,
  elementCount,
  keepsOrder,
  moveAxis,
  moveDim,
  type Tensor,
  type TensorData,
} from '../../../../lambda/core/tensor.ts';
import { dataOf, EVERY_DATATYPE } from '../arbitraries.ts';

/** A tensor of any datatype and at most five axes, some of them of one element or none, and two of its axes. */
const anyMove = fc
  .record({
    datatype: fc.constantFrom(...EVERY_DATATYPE),
    shape: fc.array(fc.oneof(fc.integer({ min: 1, max: 4 }), fc.constantFrom(0, 1, 20)), {
      minLength: 1,
      maxLength: 5,
    }),
  })
  .filter(({ shape }) => elementCount(shape) <= 400)
  .chain(({ datatype, shape }) => {
    const axis = fc.nat({ max: shape.length - 1 });
    const tensor = dataOf(datatype, elementCount(shape)).map((data): Tensor => ({ name: 't', datatype, shape, data }));
    return fc.record({ tensor, from: axis, to: axis });
  });

/** Each element put where its index, moved, says. */
function movedByIndex({ shape, datatype, data }: Tensor, from: number, to: number): TensorData {
  const target = allocate(datatype, data.length) as unknown[];
  const sizes = moveDim(shape, from, to);
  for (const [flat, element] of [...(data as unknown[])].entries()) {
    const index: number[] = [];
    let rest = flat;
    for (const size of shape.toReversed()) {
      index.unshift(rest % size);
      rest = Math.floor(rest / size);
    }
    target[moveDim(index, from, to).reduce((at, place, axis) => at * (sizes[axis] as number) + place, 0)] = element;
  }
  return target as TensorData;
}

describe('moveAxis', () => {
  it('puts every element where its index, moved, says', () => {
    fc.assert(
      fc.property(anyMove, ({ tensor, from, to }) => {
        const moved = moveAxis(tensor, from, to);
        expect(moved.shape).toEqual(moveDim(tensor.shape, from, to));
        expect(moved.data).toEqual(movedByIndex(tensor, from, to));
      }),
    );
  });

  it('shares the data where it keeps the order of the elements, and copies it where it does not', () => {
    const tensor = { datatype: 'INT8', shape: [2, 1, 3], data: Int8Array.of(1, 2, 3, 4, 5, 6) } as const;
    expect(moveAxis(tensor, 1, 0).data).toBe(tensor.data);
    expect(moveAxis(tensor, 0, 1).data).toBe(tensor.data);
    expect(moveAxis(tensor, 2, 0)).toEqual({ ...tensor, shape: [3, 2, 1], data: Int8Array.of(1, 4, 2, 5, 3, 6) });
    expect([keepsOrder([2, 1, 3], 1, 0), keepsOrder([2, 1, 3], 2, 0)]).toEqual([true, false]);
  });

  it('reads a part of a buffer, and writes into the room that it is given', () => {
    const part = Uint16Array.of(9, 1, 2, 3, 4, 9).subarray(1, 5);
    const room = Uint16Array.of(9, 0, 0, 0, 0, 9);
    const { data } = moveAxis({ datatype: 'UINT16', shape: [2, 2], data: part }, 0, 1, () => room.subarray(1, 5));
    expect([data, room]).toEqual([Uint16Array.of(1, 3, 2, 4), Uint16Array.of(9, 1, 3, 2, 4, 9)]);
  });
});
