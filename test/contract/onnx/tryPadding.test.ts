import { describe, expect, it } from '@jest/globals';
import type { Model, RaggedAxis } from '../../../lambda/core/model.ts';
import type { Datatype, Tensor } from '../../../lambda/core/tensor.ts';
import { rowShapes } from '../../../lambda/onnx/probes.ts';
import { type PaddingTrial, paddingProbes, tryPadding } from '../../../lambda/onnx/tryPadding.ts';
import {
  additiveMaskModel,
  quantisedInPlaceModel,
  reducingModel,
  renamedLengthModel,
} from '../../helpers/axisModels.ts';
import { model as graphModel, graphOf } from '../../helpers/graph.ts';
import { maskedMeanModel, plainMeanModel } from '../../helpers/onnxModels.ts';
import { openOnly } from '../../helpers/openModels.ts';
import { modelOf, spec } from '../../helpers/scoring.ts';

const MASKED = { axis: 'length', pad: { values: 0, mask: 0 } };

describe('a model whose answers padding changes', () => {
  it('stops the start, naming the output, the lengths and the values', async () => {
    const opening = openOnly(plainMeanModel(), { ragged: { axis: 'length', pad: { values: 0 } } });
    await expect(opening).rejects.toThrow(
      /model\.onnx: output 'mean': expected the same answer with 'length' padded from 4 to 8, got \S+ and \S+ at element 0; mask the padding in the model, choose other pad values, or remove "ragged" from config\.json/,
    );
  });

  it('shows when the mask is padded with what counts', async () => {
    const opening = openOnly(maskedMeanModel(), { ragged: { ...MASKED, pad: { values: 0, mask: 1 } } });
    await expect(opening).rejects.toThrow("output 'mean': expected the same answer with 'length' padded");
  });

  it('is warned of where nothing was looked at', async () => {
    const ragged = { axis: 'length', pad: { values: 0 } };
    const { warnings } = await openOnly(plainMeanModel(), { ragged, warmup: false });
    expect(warnings).toEqual([
      expect.stringContaining('padding \'length\' is not tried, because of "warmup": false in config.json'),
    ]);
  });

  it('stops the start at the node where the padded length enters the data, whatever is tried', async () => {
    const { nodes, constants } = graphOf('n = Shape x start=1; f = Cast n to=1; s = Log f; y = Mul x s');
    const bytes = graphModel('x FP32[batch,length]', 'y FP32[batch,length]', nodes, constants);
    const opening = openOnly(bytes, { ragged: { axis: 'length', pad: { x: 0 }, cut: { y: 1 } } });
    await expect(opening).rejects.toThrow("the padded length of 'length' enters the data at Mul 'y'");
  });

  it('is told of the key "cut" where an output keeps the padded length', async () => {
    const opening = openOnly(renamedLengthModel(), { ragged: { axis: 'length', pad: { x: 0 } } });
    await expect(opening).rejects.toThrow('it keeps the padded length: say where, as "cut": {"y": 1} within "ragged"');

    const cut = { axis: 'length', pad: { x: 0 }, cut: { y: 1 } };
    expect((await openOnly(renamedLengthModel(), { ragged: cut })).warnings).toEqual([]);
  });

  it('stops the start where requests run alone too, if they are padded to allowed lengths', async () => {
    const ragged = { axis: 'length', pad: { x: 50 } };
    const opening = openOnly(quantisedInPlaceModel(), { ragged: { ...ragged, allowedSizes: [8] } });
    await expect(opening).rejects.toThrow(/padded from 4 to 8/);

    expect((await openOnly(quantisedInPlaceModel(), { ragged })).model.sharing).toBe('never');
  });

  it.each([
    ['largest', 'ReduceMax', 'FP32', -7],
    ['smallest', 'ReduceMin', 'FP32', 7],
    ['smallest', 'ReduceMin', 'INT64', 9],
    ['largest', 'ReduceMax', 'INT64', 9],
  ] as const)(
    'shows in the %s of a row, whose values may all lie on one side of the padding (%s of %s, %d)',
    async (_, op, datatype, pad) => {
      const ragged = { axis: 'length', pad: { x: pad }, allowedSizes: [16, 64] };
      const opening = openOnly(reducingModel(op, datatype), { ragged });
      await expect(opening).rejects.toThrow("output 'y': expected the same answer with 'length' padded");
    },
  );

  it('is not seen in a mask that has values like no producer sends', async () => {
    const ragged = { axis: 'length', pad: { values: 0, mask: 0 } };
    expect((await openOnly(additiveMaskModel(), { ragged })).warnings).toEqual([]);
  });

  it('is not overlooked where it leaves out what equals the padding', async () => {
    const shareOfOthers = (row: Row): number => row.filter((one) => Number(one) !== 1).length / row.length;
    await expect(check(rowModel(shareOfOthers, 'INT64', 1n))).rejects.toThrow(/padded from 4 to 8/);
  });

  it('is told where the model does not run at such lengths', async () => {
    const failing = rowModel(() => {
      throw new Error('cannot run that');
    });
    expect((await check(failing)).problem).toBe(
      "padding 'length' could not be tried: cannot run that; " +
        'give the sizes that it runs at as "warmup" in config.json, or requests in samples.jsonl',
    );
  });

  it.each(['trust', 'alone'])(
    'stops the start also where config.json says how rows are batched: %s',
    async (batching) => {
      const ragged = { axis: 'length', pad: { values: 0 }, allowedSizes: [8] };
      await expect(openOnly(plainMeanModel(), { ragged, batching })).rejects.toThrow('padded from 4 to 8');
    },
  );
});

describe('a model that is slow', () => {
  it('is not looked at for longer than it may take, which the start log says', async () => {
    let ms = 0;
    const slow = rowModel(([first]) => {
      ms += 1000;
      return Number(first);
    });

    const { seen } = await check(slow, { ...NO_LIMIT, limitMs: 3000, now: () => ms });

    expect(ms).toBe(4000);
    expect(seen).toBe("padding 'length' changed none of 2 rows");
  });
});

describe('a model on a GPU', () => {
  it('may round more than one on a processor, as TF32 does', async () => {
    const rounding = rowModel((row) => Number(row[0]) * (1 + 0.001 * Math.log2(row.length)));

    await expect(check(rounding)).rejects.toThrow("output 'y': expected the same answer");
    expect(await check({ ...rounding, isCoarse: true })).not.toHaveProperty('problem');
  });
});

type Row = readonly (number | bigint)[];

/** A model that answers a row of `x` `[batch, length]`, padded with `pad`, as it is told to. */
function rowModel(answer: (row: Row) => number, datatype: Datatype = 'FP32', pad: number | bigint = 0): Model {
  const ragged = { name: 'length', inputs: [{ axis: 1, pad }], outputs: [undefined], allowedSizes: [] };
  const contract = { inputs: [spec('x', datatype, 'batch', 'length')], outputs: [spec('y', 'FP32', 'batch')] };
  return {
    ...modelOf(contract, { ragged }),
    async run([x]) {
      const y = answer(Array.from<number | bigint>((x as Tensor).data as Float32Array));
      return { outputs: [{ name: 'y', datatype: 'FP32', shape: [1], data: Float32Array.of(y) }], runMs: 1 };
    },
  };
}

const NO_LIMIT = { limitMs: Number.POSITIVE_INFINITY, now: () => 0 };

/** Tries the padding as at the start of a model of which nothing is known but its contract. */
function check(model: Model, limit = NO_LIMIT): Promise<PaddingTrial> {
  const ragged = model.ragged as RaggedAxis;
  const probesOf = (length: number) => paddingProbes(model, rowShapes(model, { [ragged.name]: length }, 1));
  return tryPadding(model, ragged, { probesOf, size: 1, samples: [], ...limit });
}
