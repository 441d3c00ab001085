import { describe, expect, it } from '@jest/globals';
import { graphOf, int, model as modelOf, node, values } from '../../helpers/graph.ts';
import {
  bakedMixingModel,
  dynamicLabelModel,
  MIXING,
  noisyModel,
  SOUND,
  timeFirstModel,
} from '../../helpers/mixingModels.ts';
import { rowsOnlyModel } from '../../helpers/onnxModels.ts';
import { openModels, openOnly } from '../../helpers/openModels.ts';

const mixing = () => MIXING['softmax over axis 0']?.() as Uint8Array;
const sound = () => SOUND['softmax over a row']?.() as Uint8Array;
const ALONE = { sharing: 'never', allowedSizes: [] };

/** `x` and `y` of a graph whose operator Det is not in the table. */
function untold(text: string, x: string, y = x): Uint8Array {
  const { nodes, constants } = graphOf(text);
  return modelOf(`x ${x}`, `y ${y}`, nodes, constants);
}

/** Doubles `x` three times. */
function loopModel(): Uint8Array {
  const body = {
    inputs: values('turn INT64[]; go BOOL[]; before FP32[batch,4]'),
    outputs: values('on BOOL[]; after FP32[batch,4]'),
    ...graphOf('on = Identity go; after = Add before before'),
  };
  const loop = node('Loop', 'three - x', 'y', { body });
  return modelOf('x FP32[batch,4]', 'y FP32[batch,4]', [loop], [int('three', 3)]);
}

describe('a model whose graph tells', () => {
  it.each(Object.entries(SOUND))('that rows are independent has them share runs: %s', async (_, bytes) => {
    const { model, log } = await openOnly(bytes());
    expect(model).toMatchObject({ independence: 'independent', sharing: 'compared', maxBatchRows: 512 });
    expect(log).toEqual([expect.stringContaining('rows are independent, by the graph of the model')]);
  });

  it.each(Object.entries(MIXING))('that rows mix runs one request at a time, with a warning: %s', async (_, bytes) => {
    const { model, warnings } = await openOnly(bytes());
    expect(model).toMatchObject({ independence: 'mixes', ...ALONE });
    expect(warnings).toEqual([
      expect.stringMatching(
        /model\.onnx: requests run one at a time, because rows depend on each other: \w+ '\w+'.*; .*"batching": "alone"/,
      ),
    ]);
  });

  it.each([
    ['dynamic quantisation', /DynamicQuantizeLinear 'q': it scales by the whole batch; quantise statically/],
    ['batch normalisation in training mode', /BatchNormalization 'y': .*; export the model for inference/],
    ['softmax over axis 0', /Softmax 'y': .*; export the model so that no operator works across its rows/],
    ['one output that is sound and one that is not', /Softmax 'z'/],
  ])('that rows mix says the node, why, and the cure: %s', async (name, expected) => {
    expect((await openOnly(MIXING[name]?.() as Uint8Array)).warnings[0]).toMatch(expected);
  });

  it('is believed without a run: at "warmup": false too', async () => {
    const { model } = await openOnly(dynamicLabelModel(), { warmup: false });
    expect(model).toMatchObject({ independence: 'mixes', sharing: 'never' });
    expect((await openOnly(sound(), { warmup: false })).model.sharing).toBe('compared');
  });

  it('that rows mix gives no warning if each run has one row', async () => {
    const { model, warnings } = await openOnly(untold('y = Softmax x axis=0', 'FP32[1,4]'));
    expect(model).toMatchObject({ independence: 'mixes', sharing: 'never' });
    expect(warnings).toEqual([expect.stringContaining('the batch axis is baked to 1')]);
  });

  it('of random numbers runs one request at a time', async () => {
    expect((await openOnly(noisyModel())).model).toMatchObject({ independence: 'mixes', sharing: 'never' });
  });
});

describe('a model of which not even a row alone would be answered rightly', () => {
  it.each([
    ['its batch is baked', bakedMixingModel, {}],
    ['its allowed sizes leave out 1', MIXING['mean over the batch'] as () => Uint8Array, { allowedSizes: [8] }],
  ])('is refused where %s', async (_, bytes, config) => {
    await expect(openOnly(bytes(), config)).rejects.toThrow(
      /runs with \d rows or more, so no row has an answer of its own: export .* set "batching": "trust"/,
    );
  });

  it('is refused where the rows of an output are on another axis, with the axis', async () => {
    const bytes = untold('y = Transpose x perm=[1,0,2]', 'FP32[1,length,2]', 'FP32[length,1,2]');
    await expect(openOnly(bytes)).rejects.toThrow(
      /its rows are on axis 1, not on axis 0; declare the batch axis as "batchAxis": \{"y":1\} in config\.json/,
    );
    expect((await openOnly(bytes, { batchAxis: { y: 1 } })).model.independence).toBe('independent');
    const ofOneRow = untold('y = Transpose x perm=[1,0,2]', 'FP32[1,1,2]', 'FP32[1,1,2]');
    expect((await openOnly(ofOneRow)).model.sharing).toBe('never');
  });

  it('is opened where it only pads up to such sizes', async () => {
    const { model } = await openOnly(sound(), { allowedSizes: [2, 8], maxBatchRows: 8 });
    expect(model).toMatchObject({ sharing: 'compared', allowedSizes: [2, 8] });
  });

  it('is refused where a weight is taken for rows, with what to do', async () => {
    const { nodes } = graphOf('y = MatMul x weight');
    const bytes = modelOf('x FP32[batch,3]; weight FP32[3,2]', 'y FP32[batch,2]', nodes);
    await expect(openOnly(bytes)).rejects.toThrow(
      /the size is that of 'weight' alone: .* as "constants" .* "batchAxis"/,
    );
    const constants = { weight: [1, 2, 3, 4, 5, 6] };
    expect((await openOnly(bytes, { constants })).model.sharing).toBe('compared');
  });

  it('is refused where its first axis is time, unless that is meant', async () => {
    await expect(openOnly(timeFirstModel())).rejects.toThrow(
      /GRU 'all': it takes axis 0 for time.*"batchAxis": \{"x":1\} in config\.json.* set "batching": "alone" there/,
    );
    const batchAxis = { x: 1, y: 1 };
    expect((await openOnly(timeFirstModel(), { batchAxis })).model.independence).toBe('independent');
    expect((await openOnly(timeFirstModel(), { batching: 'alone' })).model.sharing).toBe('never');
  });
});

describe('batching in config.json', () => {
  it('may have rows share runs, not compared, whatever the graph says', async () => {
    const { model, warnings, log } = await openOnly(mixing(), { batching: 'trust' });
    expect(model).toMatchObject({ maxBatchRows: 512, independence: 'mixes', sharing: 'trusted' });
    expect(warnings).toEqual([]);
    expect(log[0]).toMatch(/model\.onnx: config.json says "batching": "trust"/);
  });

  it('may have requests run alone, without a warning', async () => {
    const { model, warnings } = await openOnly(sound(), { batching: 'alone' });
    expect([model, warnings]).toMatchObject([{ independence: 'independent', ...ALONE }, []]);
  });

  it('cannot have the rows of a baked batch run alone', async () => {
    await expect(openOnly(rowsOnlyModel(4), { batching: 'alone' })).rejects.toThrow(
      /"batching": expected a model that runs one row, .* got one that runs with 4 or more/,
    );
  });
});

describe('a model whose graph does not tell', () => {
  const CUBE = 'FP32[batch,3,3]';

  it('shares runs, compared, if made-up rows are answered alike alone and together', async () => {
    const { model, warnings, log } = await openOnly(untold('d = Det x; y = Mul d d', CUBE, 'FP32[batch]'));
    expect(model).toMatchObject({ independence: 'unknown', sharing: 'compared' });
    expect(warnings).toEqual([]);
    expect(log[0]).toMatch(
      /Det 'd': operator Det is not in the table\); 8 rows were answered alone as in runs of 3, 8, 33/,
    );
  });

  it('runs one request at a time if they are not', async () => {
    const { model, warnings } = await openOnly(
      untold('d = Det x; most = ReduceMax d; y = Add d most', CUBE, 'FP32[batch]'),
    );
    expect(model).toMatchObject({ independence: 'unknown', ...ALONE });
    expect(warnings).toEqual([
      expect.stringMatching(
        /Det 'd': .*; alone and among 3 rows, output 'y' has \S+ and \S+ at element 0; export the model without it/,
      ),
    ]);
  });

  it.each([
    ['a loop, which made-up values may keep from ending', loopModel, {}, /there is nothing to run it with/],
    ['answers that are all alike', () => untold('d = Det x; y = Mul d 0.0', CUBE, 'FP32[batch]'), {}, /answered alike/],
    ['nothing run at start', () => untold('y = Det x', CUBE, 'FP32[batch]'), { warmup: false }, /Det 'y'/],
  ])('runs one request at a time where nothing can be tried: %s', async (_, bytes, config, expected) => {
    const { model, warnings } = await openOnly(bytes(), config);
    expect(model).toMatchObject({ independence: 'unknown', ...ALONE });
    expect(warnings.at(-1)).toMatch(expected);
  });
});

describe('samples.jsonl', () => {
  /** The rows of a table that has them from 1,000 on: no made-up row is one of them. */
  const offset = (axis: number) =>
    untold(
      `index = Sub x 1000; m = Gather w(4,2,2) index; squares = Mul m m; d = Det squares; y = Softmax d axis=${axis}`,
      'INT64[batch,2]',
      'FP32[batch,2]',
    );
  const request = (...data: number[]) =>
    JSON.stringify({ inputs: [{ name: 'x', datatype: 'INT64', shape: [1, 2], data }] });
  const samples = [request(1000, 1001), request(1002, 1001), request(1003, 1000)].join('\n');
  const open = async (bytes: Uint8Array, text?: string) => {
    const files = { 'm/1/model.onnx': bytes, ...(text !== undefined && { 'm/samples.jsonl': text }) };
    const { repository, warnings } = await openModels(files);
    return { model: await repository.find('m', '1'), warnings };
  };

  it.each([
    ['as it is', (text: string) => text],
    ['with a byte order mark', (text: string) => `\uFEFF${text}`],
    ['with blank lines', (text: string) => `\n${text.replaceAll('\n', '\n\n')}\n\n`],
    ['after they expired', (text: string) => text.replaceAll('{"inputs"', '{"parameters":{"expires_at":1},"inputs"')],
    ['with line separators within texts', (text: string) => text.replaceAll('{"inputs"', '{"id":"\u2028","inputs"')],
  ])('tries what made-up rows cannot, %s', async (_, written) => {
    const { model } = await open(offset(1), written(samples));
    expect(model).toMatchObject({ independence: 'unknown', sharing: 'compared' });
    expect((await open(offset(0), written(samples))).model).toMatchObject({
      independence: 'unknown',
      sharing: 'never',
    });
  });

  it('is what helps where made-up rows have no answers, which the warning says', async () => {
    const { model, warnings } = await open(offset(1));
    expect(model).toMatchObject({ sharing: 'never' });
    expect(warnings.at(-1)).toMatch(/put real requests into samples\.jsonl beside config\.json/);
  });

  it.each([
    ['no JSON', '{', /samples\.jsonl:2: expected a request as JSON, got something else/],
    ['no request', '{"pixels":[1]}', /samples\.jsonl:2: expected a request of the model: body: .*got "pixels"/],
    ['a request that is refused', request(0.5, 1), /samples\.jsonl:2: expected a request of the model: .*INT64/],
  ])('stops the start where a line is %s, naming the line', async (_, line, expected) => {
    await expect(open(offset(1), `${request(1000, 1001)}\n${line}\n`)).rejects.toThrow(expected);
  });
});
