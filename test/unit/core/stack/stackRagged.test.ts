import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type MicroBatch, microBatchOf, type Part, type RequestInput } from '../../../../lambda/core/microBatch.ts';
import type { Model, RaggedAxis } from '../../../../lambda/core/model.ts';
import { assertBatched, stack, unstack } from '../../../../lambda/core/stack.ts';
import {
  type Datatype,
  elementCount,
  encodeRaw,
  type Tensor,
  type TensorData,
} from '../../../../lambda/core/tensor.ts';
import { echoModel } from '../../../helpers/scoring.ts';
import { bitsOf, dataOf, EVERY_DATATYPE } from '../arbitraries.ts';
import { requestOf } from '../requests.ts';

type Pad = number | bigint | string;

/** Gives back its input, whose axis named `length` is ragged. */
function raggedEcho(
  datatype: Datatype,
  trailing: readonly (number | string)[],
  pad: Pad,
  allowedSizes: readonly number[] = [],
) {
  const axis = 1 + trailing.indexOf('length');
  const ragged: RaggedAxis = { name: 'length', inputs: [{ axis, pad }], outputs: [axis], allowedSizes };
  return echoModel(datatype, trailing, { ragged });
}

function whole(model: Model, ...inputs: readonly RequestInput[]): Part {
  const request = requestOf(model, inputs);
  return { request, fromRow: 0, toRow: request.rows };
}

function input(datatype: Datatype, shape: readonly number[], data: RequestInput['data']): RequestInput {
  return { datatype, shape, data };
}

async function echoed(batch: MicroBatch): Promise<Tensor[][]> {
  const { outputs } = await batch.model.run(stack(batch));
  assertBatched(batch, outputs);
  let row = 0;
  return batch.parts.map((part) => {
    const mine = unstack(batch, part, row, outputs);
    row += part.toRow - part.fromRow;
    return mine;
  });
}

describe('stack pads along the ragged axis', () => {
  it.each<[title: string, Datatype, Pad, long: TensorData, short: TensorData, stacked: TensorData]>([
    ['-0', 'FP32', -0, Float32Array.of(1, 2), Float32Array.of(4), Float32Array.of(1, 2, 4, -0)],
    ['NaN', 'FP64', Number.NaN, Float64Array.of(1, 2), Float64Array.of(3), Float64Array.of(1, 2, 3, Number.NaN)],
    [
      '64 bits',
      'INT64',
      -(2n ** 63n),
      BigInt64Array.of(1n, 2n),
      BigInt64Array.of(3n),
      BigInt64Array.of(1n, 2n, 3n, -(2n ** 63n)),
    ],
    ['true', 'BOOL', 1, Uint8Array.of(0, 0), Uint8Array.of(0), Uint8Array.of(0, 0, 0, 1)],
    ['text', 'BYTES', '[PAD]', ['a', 'b'], ['c'], ['a', 'b', 'c', '[PAD]']],
  ])('with the model’s own element: %s', (_, datatype, pad, long, short, stacked) => {
    const model = raggedEcho(datatype, ['length'], pad);
    const parts = [whole(model, input(datatype, [1, long.length], long)), whole(model, input(datatype, [1, 1], short))];
    const [tensor] = stack(microBatchOf(model, parts, 'end')) as [Tensor];
    expect([tensor.shape, bitsOf(tensor.data)]).toEqual([[2, long.length], bitsOf(stacked)]);
  });

  it('in every stretch of a row, with what lies behind the axis', () => {
    const model = raggedEcho('INT8', [2, 'length', 2], 9);
    const parts = [
      whole(model, input('INT8', [1, 2, 1, 2], Int8Array.of(1, 2, 3, 4))),
      whole(model, input('INT8', [1, 2, 2, 2], Int8Array.of(11, 12, 13, 14, 15, 16, 17, 18))),
    ];
    expect(stack(microBatchOf(model, parts, 'end'))).toEqual([
      {
        name: 'in',
        datatype: 'INT8',
        shape: [2, 2, 2, 2],
        data: Int8Array.of(1, 2, 9, 9, 3, 4, 9, 9, 11, 12, 13, 14, 15, 16, 17, 18),
      },
    ]);
  });

  it('up to an allowed size, and repeats the last row, its padding included, up to an allowed size of rows', () => {
    const model = { ...raggedEcho('INT8', ['length'], 9, [4, 8]), allowedSizes: [4] };
    const parts = [whole(model, input('INT8', [2, 2], Int8Array.of(1, 2, 3, 4)))];
    expect(stack(microBatchOf(model, parts, 'end'))).toMatchObject([
      { shape: [4, 4], data: Int8Array.of(1, 2, 9, 9, 3, 4, 9, 9, 3, 4, 9, 9, 3, 4, 9, 9) },
    ]);
  });

  it.each([[1], [2]])('base64 that is decoded in its place only, the axis being number %d', (axis) => {
    const trailing = axis === 1 ? ['length'] : [3, 'length'];
    const model = raggedEcho('FP32', trailing, -1);
    const sized = (rows: number, length: number): number[] => [
      rows,
      ...trailing.map((dim) => (dim === 3 ? 3 : length)),
    ];
    const shape = sized(7, 1001);
    const sent = Float32Array.from({ length: elementCount(shape) }, (_, index) => index + 0.5);
    const data = { base64: encodeRaw(sent) };
    expect(data.base64.length).toBeGreaterThan(8192);
    const raw = requestOf(model, [input('FP32', shape, data)]);
    const decoded = requestOf(model, [input('FP32', shape, sent)]);
    const longer = whole(model, input('FP32', sized(1, 1003), new Float32Array(elementCount(sized(1, 1003)))));
    for (const others of [[], [longer]]) {
      const stackedOf = (request: typeof raw) =>
        stack(microBatchOf(model, [{ request, fromRow: 1, toRow: 6 }, ...others], 'end'));
      expect(stackedOf(raw)).toEqual(stackedOf(decoded));
    }
  });
});

describe('unstack cuts back along the ragged axis', () => {
  const model = raggedEcho('INT8', ['length'], 0);
  const rowsOf = (rows: number, length: number): Part =>
    whole(model, input('INT8', [rows, length], new Int8Array(rows * length)));
  const outputOf = (rows: number, length: number): Tensor => {
    const data = Int8Array.from({ length: rows * length }, (_, index) => index);
    return { name: 'out', datatype: 'INT8', shape: [rows, length], data };
  };
  const batch = microBatchOf(model, [rowsOf(1, 2), rowsOf(2, 2), rowsOf(2, 3)], 'end');
  const output = outputOf(5, 3);
  const cut = (index: number, row: number): Tensor =>
    unstack(batch, batch.parts[index] as Part, row, [output])[0] as Tensor;

  it('with a copy where its elements do not lie together', () => {
    const { shape, data } = cut(1, 1);
    expect([shape, [...data]]).toEqual([
      [2, 2],
      [3, 4, 6, 7],
    ]);
    expect((data as Int8Array).buffer).not.toBe((output.data as Int8Array).buffer);
  });

  it.each([
    ['cut it already', outputOf(5, 2), '[5, 2]'],
    ['lost it', { ...outputOf(5, 1), shape: [5] }, '[5]'],
  ])('and refuses a model that %s, naming the output', (_, wrong, shape) => {
    expect(() => assertBatched(batch, [wrong])).toThrow(
      `output 'out': expected the size 3 of the ragged axis on axis 1, got shape ${shape}; fix "ragged" in config.json`,
    );
  });
});

describe.each(EVERY_DATATYPE)('%s of many lengths', (datatype) => {
  const anyTrailing = fc.constantFrom<(number | string)[]>(['length'], ['length', 2], [2, 'length'], [2, 'length', 3]);
  const anyBatch = fc
    .record({
      trailing: anyTrailing,
      pad: dataOf(datatype, 1),
      lengths: fc.constantFrom<number[]>([], [7], [3, 9]),
      allowedSizes: fc.constantFrom<number[]>([], [30], [8, 40]),
    })
    .chain(({ trailing, pad, lengths, allowedSizes }) => {
      const model = { ...raggedEcho(datatype, trailing, pad[0] as Pad, lengths), allowedSizes };
      const part = fc
        .record({
          length: fc.nat({ max: 7 }),
          rows: fc.integer({ min: 1, max: 4 }),
          before: fc.nat({ max: 2 }),
          after: fc.nat({ max: 2 }),
        })
        .chain(({ length, rows, before, after }) => {
          const shape = [before + rows + after, ...trailing.map((dim) => (typeof dim === 'number' ? dim : length))];
          return dataOf(datatype, elementCount(shape)).map((data): Part => {
            return { request: requestOf(model, [input(datatype, shape, data)]), fromRow: before, toRow: before + rows };
          });
        });
      return fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => ({
        batch: microBatchOf({ ...model, run: raggedEcho(datatype, trailing, 0).run }, parts, 'end'),
      }));
    });

  it('come out of unstack as they went into stack, bit for bit, whatever the lengths and the padding', async () => {
    await fc.assert(
      fc.asyncProperty(anyBatch, async ({ batch }) => {
        const answers = await echoed(batch);
        const sent = batch.parts.map(({ request, fromRow, toRow }) => {
          const { shape, data } = request.inputs[0] as {
            readonly shape: readonly number[];
            readonly data: Float32Array;
          };
          const perRow = data.length / (shape[0] as number);
          return [[toRow - fromRow, ...shape.slice(1)], bitsOf(data.slice(fromRow * perRow, toRow * perRow))];
        });
        expect(answers.map(([output]) => [output?.shape, bitsOf(output?.data ?? [])])).toEqual(sent);
      }),
      { numRuns: 60 },
    );
  });
});
