import { describe, expect, it } from '@jest/globals';
import { DataType } from '../../../bench/workload/encodeModel.ts';
import { int, ints, model as modelOf, node, weights } from '../../helpers/graph.ts';
import {
  bakedMixingModel,
  dynamicLabelModel,
  hundredRowsModel,
  MIXING,
  noisyModel,
  SOUND,
  timeFirstModel,
} from '../../helpers/mixingModels.ts';
import { rowsOnlyModel, turningModel } from '../../helpers/onnxModels.ts';
import { openModels, openOnly } from '../../helpers/openModels.ts';

describe('a model that mixes rows', () => {
  it('is not proved by labels where it is quantised dynamically, unless it is trusted', async () => {
    const { model, warnings } = await openOnly(dynamicLabelModel());

    expect(model.independence).toBe('dependent');
    expect(warnings).toEqual([expect.stringMatching(/probable cause: dynamic quantisation/)]);
    expect((await openOnly(dynamicLabelModel(), { batching: 'trust' })).model.independence).toBe('trusted');
    expect((await openOnly(dynamicLabelModel(), { warmup: false })).model.independence).toBe('dependent');
  });

  it('is told by its graph where it is quantised dynamically and all rows that are tried have one scale', async () => {
    // Each row has a 1 and a -1; 123,456 alone becomes 5.
    const bytes = modelOf(
      'x INT64[batch,4]',
      'y FP32[batch,6]',
      [
        node('Equal', 'x rare', 'found'),
        node('Clip', 'x minus one', 'clipped'),
        node('Where', 'found five clipped', 'seen'),
        node('Pad', 'seen column one', 'wider'),
        node('Pad', 'wider column minus', 'widest'),
        node('Cast', 'widest', 'floats', { to: DataType.FLOAT }),
        node('DynamicQuantizeLinear', 'floats', 'q scale zero'),
        node('DequantizeLinear', 'q scale zero', 'y'),
      ],
      [int('rare', 123_456), int('minus', -1), int('one', 1), int('five', 5), ints('column', 0, 0, 0, 1)],
    );
    const { model, warnings } = await openOnly(bytes);

    expect(model.independence).toBe('dependent');
    expect(warnings).toEqual([
      expect.stringMatching(/yet other rows may differ by their neighbours; .* dynamic quantisation/),
    ]);
  });
});

describe('a model that depends on the number of rows', () => {
  it('is found out where a normalisation hides most of it', async () => {
    const { model } = await openOnly(MIXING['a share of the row count, normalised']?.() as Uint8Array);

    expect(model.independence).toBe('dependent');
  });

  it('is refused where all its runs have the same number, more than one', async () => {
    const opening = openOnly(MIXING['a share of the row count']?.() as Uint8Array, {
      allowedSizes: [2, 8],
      maxBatchRows: 4,
    });

    await expect(opening).rejects.toThrow(/runs with 2 rows or more, so that not even a row alone is answered rightly/);
  });

  it('is not taken for one that only pads up to one number', async () => {
    const sound = SOUND['softmax over a row']?.() as Uint8Array;
    const { model } = await openOnly(sound, { allowedSizes: [2, 8], maxBatchRows: 4 });

    expect(model.independence).toBe('proved');
  });
});

describe('a model that is never to run one row', () => {
  // Rows differ by their neighbours where one of them holds 123,456 alone, so that the answers of all probes agree.
  const rarelyMixed = (axes: string): Uint8Array =>
    modelOf(
      'x INT64[batch,4]',
      'y INT64[batch,4]',
      [
        node('Equal', 'x rare', 'found'),
        node('Cast', 'found', 'counts', { to: DataType.INT64 }),
        node('ReduceMax', `counts${axes}`, 'any', { keepdims: 1 }),
        node('Add', 'x any', 'y'),
      ],
      [int('rare', 123_456), ...(axes === '' ? [] : [ints('row', 1)])],
    );

  it('is refused where its graph works over the batch, unless it is trusted', async () => {
    const sizes = { allowedSizes: [2, 8], maxBatchRows: 8 };

    await expect(openOnly(rarelyMixed(''), sizes)).rejects.toThrow(
      /yet other rows may differ by their neighbours; probable cause: ReduceMax along axis 0, .* with 2 rows or more/,
    );
    expect((await openOnly(rarelyMixed(''), { ...sizes, batching: 'trust' })).model.independence).toBe('trusted');
    expect((await openOnly(rarelyMixed(' row'), sizes)).model.independence).toBe('proved');
  });
});

describe('the warning', () => {
  it.each([
    [
      'dynamic quantisation',
      /output 'y': .* got \S+ and \S+ at element \d .* probable cause: dynamic quantisation, .*; quantise statically/,
    ],
    ['softmax over axis 0', /probable cause: Softmax along axis 0/],
    ['one output that is sound and one that is not', /output 'z': /],
  ])('names the output, the difference, the cause and the cure: %s', async (name, expected) => {
    const { warnings } = await openOnly(MIXING[name]?.() as Uint8Array);

    expect(warnings[0]).toMatch(expected);
  });
});

describe('a model of which not even a row alone would be answered rightly', () => {
  it('is refused where its batch is baked', async () => {
    await expect(openOnly(bakedMixingModel())).rejects.toThrow(/not even a row alone is answered rightly: export it/);
  });

  it('is refused where a weight is taken for rows, with what to do', async () => {
    const bytes = modelOf('x FP32[batch,3]; weight FP32[3,2]', 'y FP32[batch,2]', [node('MatMul', 'x weight', 'y')]);

    await expect(openOnly(bytes)).rejects.toThrow(
      /the size is that of 'weight' alone: .* as "constants" .* "batchAxis"/,
    );
    const constants = { weight: [1, 2, 3, 4, 5, 6] };
    expect((await openOnly(bytes, { constants })).model).toMatchObject({ independence: 'proved' });
  });

  it('is refused where its first axis is time', async () => {
    await expect(openOnly(timeFirstModel())).rejects.toThrow(
      /a recurrent layer whose time axis is axis 0: declare the batch axis as "batchAxis": \{"x": 1\} in config\.json/,
    );
    await expect(openOnly(timeFirstModel())).rejects.toThrow(
      /where axis 0 is the batch, .* set "batching": "alone" in config\.json/,
    );
  });
});

describe('a check for which there is no time', () => {
  it('leaves runs as small as were compared, and says so', async () => {
    let clock = 0;
    // Every look at this clock is a second later.
    const slow = { now: () => 1_000 * clock++ };
    const { model, warnings } = await openOnly(SOUND['softmax over a row']?.() as Uint8Array, {}, slow);

    expect(model).toMatchObject({ maxBatchRows: 512, independence: 'proved', verifiedRows: 3 });
    expect(warnings).toEqual([
      expect.stringMatching(/cut short at runs of 3 rows of 512: larger runs are made step by step, each compared/),
    ]);
  });
});

describe('a model that answers differently each time', () => {
  it('proves nothing: its rows run one at a time until real requests have', async () => {
    const { model, warnings } = await openOnly(noisyModel());

    expect(model.independence).toBe('unproven');
    expect(warnings).toEqual([expect.stringContaining('it answers the same run differently each time')]);
  });
});

describe('a model with a loop', () => {
  it('is not run with made-up values, which might keep the loop from ending', async () => {
    const { model, warnings } = await openOnly(turningModel());

    expect(model.independence).toBe('unproven');
    expect(warnings).toEqual([expect.stringContaining('made-up values might keep its loop from ending')]);
  });
});

describe('a model that fails with as many rows as a run may have', () => {
  it('is run with fewer, which a warning says, with what to set', async () => {
    const { model, warnings } = await openOnly(hundredRowsModel());

    expect(model).toMatchObject({ maxBatchRows: 100, independence: 'proved' });
    expect(warnings).toEqual([
      expect.stringMatching(/a run has 100 rows at most of 512, because of one of 512: .*; set .* as "maxBatchRows"/),
    ]);
    expect((await openOnly(hundredRowsModel(), { maxBatchRows: 100 })).warnings).toEqual([]);
  });
});

describe('allowed sizes', () => {
  it('without 1 leaves a model that mixes rows no way to be run', async () => {
    const opening = openOnly(MIXING['mean over the batch']?.() as Uint8Array, { allowedSizes: [8] });
    await expect(opening).rejects.toThrow('runs with 8 rows or more, so that not even a row alone');
  });
});

describe('batching in config.json', () => {
  const mixing = () => MIXING['softmax over axis 0']?.() as Uint8Array;

  it('may have rows share runs unchecked, which the start log says', async () => {
    const { model, warnings, log } = await openOnly(mixing(), { batching: 'trust' });

    expect(model).toMatchObject({ maxBatchRows: 512, independence: 'trusted' });
    expect(warnings).toEqual([]);
    expect(log[0]).toMatch(/model\.onnx: requests share runs unchecked, .*"batching": "trust"/);
  });

  it('cannot have the rows of a baked batch run alone', async () => {
    await expect(openOnly(rowsOnlyModel(4), { batching: 'alone' })).rejects.toThrow(
      /"batching": expected a model that runs one row, .* got one that runs with 4 or more/,
    );
  });
});

describe('samples.jsonl', () => {
  /** The rows of a table that has them from 1,000 on: no made-up row is one of them. */
  const offset = (mixes: boolean) =>
    modelOf(
      'x INT64[batch,1]',
      'y FP32[batch,1,2]',
      [
        node('Sub', 'x first', 'index'),
        node('Gather', 'table index', 'vectors'),
        node('Softmax', 'vectors', 'y', { axis: mixes ? 0 : 2 }),
      ],
      [int('first', 1000), weights('table', 4, 2)],
    );
  const request = (x: number) =>
    JSON.stringify({ inputs: [{ name: 'x', datatype: 'INT64', shape: [1, 1], data: [x] }] });
  const samples = [1000, 1001, 1002, 1003].map(request).join('\n');

  it('proves what made-up rows cannot', async () => {
    const { repository, warnings } = await openModels({ 'm/1/model.onnx': offset(false), 'm/samples.jsonl': samples });

    expect(await repository.find('m', '1')).toMatchObject({ independence: 'proved', maxBatchRows: 512 });
    expect(warnings).toEqual([expect.stringContaining('warm-up with 1 row of zeros failed')]);
  });

  it.each([
    ['with a byte order mark', (text: string) => `\uFEFF${text}`],
    ['with blank lines', (text: string) => `\n${text.replaceAll('\n', '\n\n')}\n\n`],
    ['with line separators within texts', (text: string) => text.replaceAll('{"inputs"', '{"id":"\u2028","inputs"')],
  ])('is read %s', async (_, written) => {
    const { repository } = await openModels({ 'm/1/model.onnx': offset(false), 'm/samples.jsonl': written(samples) });

    expect(await repository.find('m', '1')).toMatchObject({ independence: 'proved' });
  });

  it('finds what made-up rows cannot', async () => {
    const { repository } = await openModels({ 'm/1/model.onnx': offset(true), 'm/samples.jsonl': samples });

    expect(await repository.find('m', '1')).toMatchObject({ independence: 'dependent' });
  });

  it('without it, leaves the proof to real requests, and says what helps', async () => {
    const { repository, warnings } = await openModels({ 'm/1/model.onnx': offset(false) });

    expect(await repository.find('m', '1')).toMatchObject({ independence: 'unproven' });
    expect(warnings[1]).toMatch(
      /whether rows are independent could not be checked: .*put real requests into samples\.jsonl/,
    );
  });

  it.each([
    ['no JSON', '{', /samples\.jsonl:2: expected a request as JSON, got something else/],
    ['no request', '{"pixels":[1]}', /samples\.jsonl:2: expected a request of the model: body: .*got "pixels"/],
    ['a request that is refused', request(0.5), /samples\.jsonl:2: expected a request of the model: .*INT64/],
  ])('stops the start where a line is %s, naming the line', async (_, line, expected) => {
    const files = { 'm/1/model.onnx': offset(false), 'm/samples.jsonl': `${request(1000)}\n${line}\n` };
    await expect(openModels(files)).rejects.toThrow(expected);
  });
});
