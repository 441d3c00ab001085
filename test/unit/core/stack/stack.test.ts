import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { isFailure } from '../../../../lambda/core/failure.ts';
import type { MicroBatch, Part } from '../../../../lambda/core/microBatch.ts';
import type { Model, RaggedAxis } from '../../../../lambda/core/model.ts';
import { assertBatched, join, stack, unstack } from '../../../../lambda/core/stack.ts';
import type { Datatype, Tensor } from '../../../../lambda/core/tensor.ts';
import { echoModel, lineModel, spec } from '../../../helpers/scoring.ts';
import { bitsOf, dataOf, EVERY_DATATYPE } from '../arbitraries.ts';
import { requestOf } from '../requests.ts';

function batchOf(model: Model, parts: readonly Part[], padding = 0): MicroBatch {
  const rows = parts.reduce((sum, { fromRow, toRow }) => sum + toRow - fromRow, 0);
  return { model, parts, rows, paddedRows: rows + padding, paddedLength: 1, closedBecause: 'end' };
}

/** The outputs of every part. */
function unstackAll(batch: MicroBatch, outputs: readonly Tensor[]): Tensor[][] {
  assertBatched(batch, outputs);
  let row = 0;
  return batch.parts.map((part) => {
    const mine = unstack(batch, part, row, outputs);
    row += part.toRow - part.fromRow;
    return mine;
  });
}

function lineParts(...rows: readonly (readonly number[])[]): Part[] {
  const model = lineModel();
  return rows.map((values) => ({
    request: requestOf(model, [{ datatype: 'FP32', shape: [values.length, 1], data: Float32Array.from(values) }]),
    fromRow: 0,
    toRow: values.length,
  }));
}

function floats(name: string, rows: number, ...values: readonly number[]): Tensor {
  return { name, datatype: 'FP32', shape: [rows, values.length / rows], data: Float32Array.from(values) };
}

/** What the model was given, given back under the names of its outputs. */
function echoed(model: Model, inputs: readonly Tensor[]): Tensor[] {
  return inputs.map((input, index) => ({ ...input, name: model.outputs[index]?.name ?? '' }));
}

describe('stack', () => {
  it('pads with the last real row, so that the model sees no value that nobody sent', () => {
    const model = echoModel('BYTES', [2]);
    const request = requestOf(model, [{ datatype: 'BYTES', shape: [2, 2], data: ['a', 'b', 'c', 'd'] }]);
    const batch = batchOf(model, [{ request, fromRow: 0, toRow: 2 }], 2);

    expect(stack(batch)).toEqual([
      { name: 'in', datatype: 'BYTES', shape: [4, 2], data: ['a', 'b', 'c', 'd', 'c', 'd', 'c', 'd'] },
    ]);
    expect(stack(batchOf(lineModel(), lineParts([1], [7]), 3))).toEqual([floats('x', 5, 1, 7, 7, 7, 7)]);
  });

  it('owns its buffers, so that giving them away takes nothing from the requests', () => {
    const [part] = lineParts([1, 2]) as [Part];
    const [tensor] = stack(batchOf(lineModel(), [part])) as [Tensor];
    (tensor.data as Float32Array).fill(0);
    expect(part.request.inputs[0]?.data).toEqual(Float32Array.of(1, 2));
  });
});

describe('unstack', () => {
  const batch = batchOf(lineModel(), lineParts([1, 2], [3]), 1);

  it.each([
    ['as many rows as without padding', floats('y', 3, 1, 2, 3), '[3, 1]'],
    ['one row for all', floats('y', 1, 1, 2), '[1, 2]'],
    ['no axis at all', { name: 'y', datatype: 'FP32' as Datatype, shape: [], data: Float32Array.of(1) }, '[]'],
  ])('refuses an output with %s, by its name', (_, output, shape) => {
    expect(() => unstackAll(batch, [output])).toThrow(
      `output 'y': expected 4 rows on axis 0, got shape ${shape}; name the outputs that have rows as "outputs"`,
    );
  });

  it('names the axes as the model has them', () => {
    const outputs = [{ ...spec('y', 'FP32', 'batch', 2, 'length'), batchAxis: 1 }];
    const ragged: RaggedAxis = { name: 'length', inputs: [undefined], outputs: [1], allowedSizes: [] };
    const model = { ...lineModel(), outputs, ragged };
    const output = { ...floats('y', 3, 1, 2, 3, 4, 5, 6), shape: [3, 2, 1] };
    expect(() => assertBatched({ ...batch, model }, [output])).toThrow(
      "output 'y': expected 4 rows on axis 1, got shape [2, 3, 1]; ",
    );
    expect(() => assertBatched({ ...batch, model, paddedRows: 3, paddedLength: 5 }, [output])).toThrow(
      "output 'y': expected the size 5 of the ragged axis on axis 0, got shape [2, 3, 1]; ",
    );
  });
});

describe.each(EVERY_DATATYPE)('%s', (datatype) => {
  const trailing = fc.constantFrom<number[]>([], [1], [3], [2, 2], [2, 0, 3]);
  const anyBatch = trailing.chain((shape) => {
    const model = echoModel(datatype, shape);
    const perRow = shape.reduce((product, dim) => product * dim, 1);
    const part = fc
      .tuple(fc.integer({ min: 1, max: 4 }), fc.nat({ max: 2 }), fc.nat({ max: 2 }))
      .chain(([rows, before, after]) =>
        dataOf(datatype, (before + rows + after) * perRow).map((data): Part => {
          const inputs = [{ datatype, shape: [before + rows + after, ...shape], data }];
          return { request: requestOf(model, inputs), fromRow: before, toRow: before + rows };
        }),
      );
    const parts = fc.array(part, { minLength: 1, maxLength: 5 });
    return fc
      .tuple(parts, fc.nat({ max: 3 }))
      .map(([some, padding]) => ({ batch: batchOf(model, some, padding), perRow }));
  });

  it('comes out of unstack as it went into stack, bit for bit, whatever the parts and the padding', () => {
    fc.assert(
      fc.property(anyBatch, ({ batch, perRow }) => {
        const answers = unstackAll(batch, echoed(batch.model, stack(batch)));
        const sent = batch.parts.map(({ request, fromRow, toRow }) => {
          const data = request.inputs[0]?.data as Float32Array;
          return [toRow - fromRow, bitsOf(data.slice(fromRow * perRow, toRow * perRow))];
        });
        expect(answers.map(([output]) => [output?.shape[0], bitsOf(output?.data ?? [])])).toEqual(sent);
      }),
      { numRuns: 50 },
    );
  });

  it('is whole again after join', () => {
    fc.assert(
      fc.property(anyBatch, ({ batch }) => {
        const outputs = echoed(batch.model, stack({ ...batch, paddedRows: batch.rows }));
        const joined = join(unstackAll({ ...batch, paddedRows: batch.rows }, outputs));
        if (isFailure(joined)) throw new Error(joined.message);
        expect(joined.map(({ shape, data }) => [shape, bitsOf(data)])).toEqual(
          outputs.map(({ shape, data }) => [shape, bitsOf(data)]),
        );
      }),
      { numRuns: 50 },
    );
  });
});

describe('join', () => {
  it('fails where runs of one request gave different trailing shapes, naming the output', () => {
    expect(join([[floats('a', 1, 1, 2)], [floats('a', 1, 1, 2, 3)]])).toEqual({
      failed: true,
      code: 'RUN_FAILED',
      message:
        "output 'a': expected the same trailing shape from every run of a request that was split, got [1, 2] and " +
        '[1, 3]; send fewer rows in a request',
    });
  });

  it('takes trailing shapes for different even when they hold as many elements', () => {
    const wide = { ...floats('a', 1, 1, 2, 3, 4), shape: [1, 4] };
    const square = { ...floats('a', 1, 1, 2, 3, 4), shape: [1, 2, 2] };
    expect(join([[wide], [square]])).toMatchObject({ failed: true, code: 'RUN_FAILED' });
  });
});
