import { describe, expect, it } from '@jest/globals';
import * as ort from 'onnxruntime-node';
import { encodeModel, type Graph } from '../../bench/workload/encodeModel.ts';
import { scoreRecords } from '../../lambda/core/scoreRecords.ts';
import { DATATYPES, type Datatype } from '../../lambda/core/tensor.ts';
import { createBatchingWatch } from '../../lambda/core/verify.ts';

import type { Batching } from '../../lambda/onnx/decideBatching.ts';
import { dynamicLabelModel, MIXING, SOUND } from '../helpers/mixingModels.ts';
import { openOnly } from '../helpers/openModels.ts';
import { standardRecords } from '../helpers/records.ts';
import { enoughTime, scoringDependencies } from '../helpers/scoring.ts';

/** "A batched answer is the answer to that request alone": what ONNX Runtime gives to the request, with nothing of ours around it. */

const DATATYPE_OF: Readonly<Record<string, Datatype>> = {
  float32: 'FP32',
  float16: 'FP16',
  int64: 'INT64',
  int32: 'INT32',
  uint8: 'UINT8',
  int8: 'INT8',
  string: 'BYTES',
};
const EXACT = 0;
const ROUNDING = 2e-3;

type Values = readonly (number | string)[];
interface Input {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly data: Values;
}
type ValueFor = (datatype: Datatype, random: () => number) => number | string;

/** Small whole numbers, which are indexes into tables as well; floats of either sign; words. */
const ORDINARY: ValueFor = (datatype, random) => {
  if (datatype === 'BYTES') return `${'abcd'[Math.floor(random() * 4)]}`;
  return DATATYPES[datatype].kind === 'float' ? Math.round((random() - 0.4) * 400) / 100 : Math.floor(random() * 2);
};

/** A model, its requests of one to six rows, and what ONNX Runtime answers to each of them. */
async function requestsOf(bytes: Uint8Array, count: number, valueFor: ValueFor, maxRows = 6) {
  const session = await ort.InferenceSession.create(bytes, { logSeverityLevel: 4 });
  let state = 42;
  const random = (): number => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
  const requests: Input[][] = [];
  const alone: Map<string, Values>[] = [];
  for (let index = 0; index < count; index++) {
    const rows = 1 + (index % maxRows);
    const inputs = session.inputMetadata.map((meta): Input => {
      if (!meta.isTensor) throw new Error('expected tensors');
      const datatype = DATATYPE_OF[meta.type] as Datatype;
      const shape = meta.shape.map((dim, axis) => (axis === 0 ? rows : typeof dim === 'number' ? dim : 3));
      const data = Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => valueFor(datatype, random));
      return { name: meta.name, datatype, shape, data };
    });
    requests.push(inputs);
    const feeds = Object.fromEntries(inputs.map((input) => [input.name, ortTensor(input)]));
    const outputs = await session.run(feeds);
    alone.push(new Map(Object.entries(outputs).map(([name, { data }]) => [name, valuesOf(data)])));
  }
  await session.release();
  return { requests, alone };
}

function ortTensor({ datatype, shape, data }: Input): ort.Tensor {
  const info = DATATYPES[datatype];
  if (info.kind === 'string') return new ort.Tensor('string', data as string[], shape);
  const [type] = Object.entries(DATATYPE_OF).find(([, name]) => name === datatype) as [ort.Tensor.Type, Datatype];
  if (info.kind === 'bigint') return new ort.Tensor(type, info.array.from((data as number[]).map(BigInt)), shape);
  return new ort.Tensor(type, info.array.from(data as number[]) as Float32Array, shape);
}

function valuesOf(data: ort.Tensor['data']): Values {
  return Array.from(data as ArrayLike<number | bigint | string>, (one) =>
    typeof one === 'bigint' ? Number(one) : one,
  );
}

/** Has all requests scored, in events of so many, by a fresh process's dependencies. @returns how many differ, and the share that was batched */
async function scoreTogether(
  bytes: Uint8Array,
  { requests, alone }: Awaited<ReturnType<typeof requestsOf>>,
  { eventSize = requests.length, batching }: { readonly eventSize?: number; readonly batching?: Batching } = {},
) {
  const { repository } = await openOnly(bytes, batching === undefined ? {} : { batching });
  const deps = scoringDependencies({ models: repository, batching: createBatchingWatch(0.01) });
  const wrong: string[] = [];
  for (let from = 0; from < requests.length; from += eventSize) {
    const records = standardRecords(requests.slice(from, from + eventSize).map((inputs) => ({ inputs })));
    await scoreRecords(records, deps, enoughTime());
    for (const [index, { messageId }] of records.entries()) {
      const [answer] = deps.writer.documentsOf(messageId).slice(-1) as { outputs?: Input[]; error?: string }[];
      const problem = differenceOf(answer, alone[from + index] as Map<string, Values>);
      if (problem !== undefined) wrong.push(`request ${from + index}: ${problem}`);
    }
  }
  const batched = deps.reports.filter((report) => report.requests > 1).length;
  return { wrong, batched };
}

function differenceOf(
  answer: { readonly outputs?: readonly Input[]; readonly error?: string } | undefined,
  alone: Map<string, Values>,
): string | undefined {
  if (answer?.outputs === undefined) return answer?.error ?? 'no answer';
  for (const { name, datatype, data } of answer.outputs) {
    const expected = alone.get(name) as Values;
    if (data.length !== expected.length) return `${name} has ${data.length} values for ${expected.length}`;
    const tolerance = DATATYPES[datatype].kind !== 'float' ? EXACT : datatype === 'FP16' ? 2e-2 : ROUNDING;
    const at = data.findIndex((value, index) => {
      const [got, due] = [Number(value), Number(expected[index])];
      if (typeof expected[index] === 'string') return value !== expected[index];
      return !(Object.is(got, due) || Math.abs(got - due) <= tolerance * Math.max(1, Math.abs(due)));
    });
    if (at >= 0) return `${name}[${at}] is ${data[at]} for ${expected[at]}`;
  }
  return undefined;
}

const LABEL: Pick<Graph, 'inputs' | 'outputs'> = {
  inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', 1] }],
  outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', 1] }],
};

/** Doubles a row, less 1 for each other row of the run that is above 123,456 and below 160,000. */
function disturbedBy(): Uint8Array {
  return encodeModel({
    ...LABEL,
    nodes: [
      { op: 'Greater', inputs: ['x', 'least'], outputs: ['isAbove'] },
      { op: 'Less', inputs: ['x', 'most'], outputs: ['isBelow'] },
      { op: 'And', inputs: ['isAbove', 'isBelow'], outputs: ['isLarge'] },
      { op: 'Cast', inputs: ['isLarge'], outputs: ['large'], attributes: { to: 1 } },
      { op: 'ReduceSum', inputs: ['large'], outputs: ['count'], attributes: { keepdims: 1 } },
      { op: 'Sub', inputs: ['count', 'large'], outputs: ['others'] },
      { op: 'Add', inputs: ['x', 'x'], outputs: ['double'] },
      { op: 'Sub', inputs: ['double', 'others'], outputs: ['y'] },
    ],
    constants: [
      { name: 'least', dataType: 1, dims: [], floatData: [123_456] },
      { name: 'most', dataType: 1, dims: [], floatData: [160_000] },
    ],
  });
}

/** A row; in runs of more than 50 rows, twice of it. */
function byRowCount(): Uint8Array {
  return encodeModel({
    ...LABEL,
    nodes: [
      { op: 'Shape', inputs: ['x'], outputs: ['shape'] },
      { op: 'Gather', inputs: ['shape', 'zero'], outputs: ['rows'] },
      { op: 'Cast', inputs: ['rows'], outputs: ['count'], attributes: { to: 1 } },
      { op: 'Greater', inputs: ['count', 'fifty'], outputs: ['isMany'] },
      { op: 'Cast', inputs: ['isMany'], outputs: ['many'], attributes: { to: 1 } },
      { op: 'Mul', inputs: ['x', 'many'], outputs: ['more'] },
      { op: 'Add', inputs: ['x', 'more'], outputs: ['y'] },
    ],
    constants: [
      { name: 'zero', dataType: 7, dims: [], int64Data: [0] },
      { name: 'fifty', dataType: 1, dims: [], floatData: [50] },
    ],
  });
}

describe('a batched answer is the answer to that request alone', () => {
  it.each(Object.entries(MIXING))('of one to six rows, where rows depend on each other: %s', async (_, bytes) => {
    const requests = await requestsOf(bytes(), 24, ORDINARY);

    expect((await scoreTogether(bytes(), requests)).wrong).toEqual([]);
  });

  it.each(Object.entries(SOUND))(
    'of one to six rows, where rows are independent, in shared runs: %s',
    async (_, bytes) => {
      const requests = await requestsOf(bytes(), 24, ORDINARY);
      const { wrong, batched } = await scoreTogether(bytes(), requests);

      expect([wrong, batched > 0]).toEqual([[], true]);
    },
  );

  it('with "batching": "alone", whatever the model', async () => {
    const bytes = MIXING['softmax over axis 0'] as () => Uint8Array;
    const requests = await requestsOf(bytes(), 12, ORDINARY);

    expect((await scoreTogether(bytes(), requests, { batching: 'alone' })).wrong).toEqual([]);
  });

  it('where a model that is quantised dynamically answers with labels', async () => {
    const requests = await requestsOf(dynamicLabelModel(), 300, ORDINARY, 1);

    expect((await scoreTogether(dynamicLabelModel(), requests)).wrong).toEqual([]);
  });

  it('where one request in forty disturbs its run, and the first runs are small', async () => {
    const valueFor: ValueFor = (_, random) => (random() < 1 / 40 ? 150_000 : Math.floor(random() * 90));
    const requests = await requestsOf(disturbedBy(), 400, valueFor, 1);

    expect((await scoreTogether(disturbedBy(), requests, { eventSize: 3 })).wrong).toEqual([]);
  });

  it('where only many rows change answers: runs are no larger', async () => {
    const requests = await requestsOf(byRowCount(), 300, ORDINARY, 1);
    const { wrong, batched } = await scoreTogether(byRowCount(), requests);

    expect([wrong, batched > 0]).toEqual([[], true]);
  });

  it('where only many rows change answers, and requests have few rows or many: none is split', async () => {
    const requests = await requestsOf(byRowCount(), 80, ORDINARY, 80);

    expect((await scoreTogether(byRowCount(), requests, { eventSize: 20 })).wrong).toEqual([]);
  });
});

describe('a request that must not be split', () => {
  it('is refused where it has more rows than a run, with what to do', async () => {
    const bytes = MIXING['softmax over axis 0'] as () => Uint8Array;
    const { repository } = await openOnly(bytes(), { maxBatchRows: 4 });
    const deps = scoringDependencies({ models: repository });
    const of = (rows: number) => ({
      inputs: [{ name: 'x', datatype: 'FP32', shape: [rows, 4], data: new Array(4 * rows).fill(1) }],
    });
    const records = standardRecords([of(4), of(5)]);
    await scoreRecords(records, deps, enoughTime());

    expect(deps.writer.documentsOf(records[0]?.messageId ?? '')).toMatchObject([{ outputs: [{ shape: [4, 4] }] }]);
    expect(deps.writer.documentsOf(records[1]?.messageId ?? '')).toMatchObject([
      {
        code: 'TOO_MANY_ROWS',
        error:
          "model 'model' splits no request, as its rows depend on each other or on their number: expected at most 4 rows in " +
          'a request, got 5 rows; send fewer, or raise "maxBatchRows" in its config.json',
      },
    ]);
  });
});
