import { beforeAll, describe, expect, it } from '@jest/globals';
import * as ort from 'onnxruntime-node';
import { encodeModel, type Graph } from '../../bench/workload/encodeModel.ts';
import { type Answer, HOSTS, type Host, useHosts } from '../helpers/hosts.ts';
import { dynamicLabelModel, MIXING, SOUND } from '../helpers/mixingModels.ts';
import type { RepositoryFiles } from '../helpers/openModels.ts';

const hosts = useHosts();
const LOADS_MS = 180_000;

const DATATYPE_OF: Readonly<Record<string, string>> = {
  float32: 'FP32',
  float16: 'FP16',
  int64: 'INT64',
  int32: 'INT32',
  uint8: 'UINT8',
  int8: 'INT8',
  string: 'BYTES',
};
/** Of the largest of a value and 1, for the floats. */
const ROUNDING: Readonly<Record<string, number>> = { FP32: 2e-3, FP16: 2e-2 };

type Values = readonly (number | string)[];
interface Input {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: Values;
}
type ValueFor = (datatype: string, random: () => number) => number | string;

/** Small whole numbers, which are indexes into tables as well; floats of either sign; words. */
const ORDINARY: ValueFor = (datatype, random) => {
  if (datatype === 'BYTES') return `${'abcd'[Math.floor(random() * 4)]}`;
  return datatype in ROUNDING ? Math.round((random() - 0.4) * 400) / 100 : Math.floor(random() * 2);
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
      const datatype = DATATYPE_OF[meta.type] as string;
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
  if (datatype === 'BYTES') return new ort.Tensor('string', data as string[], shape);
  const [type] = Object.entries(DATATYPE_OF).find(([, name]) => name === datatype) as ['float32', string];
  if (datatype === 'INT64') return new ort.Tensor('int64', BigInt64Array.from((data as number[]).map(BigInt)), shape);
  return new ort.Tensor(type, data as number[], shape);
}

function valuesOf(data: ort.Tensor['data']): Values {
  return Array.from(data as ArrayLike<number | bigint | string>, (one) =>
    typeof one === 'bigint' ? Number(one) : one,
  );
}

function differenceOf({ outputs, error }: Answer, alone: Map<string, Values>): string | undefined {
  if (outputs === undefined) return error;
  for (const { name, datatype, data } of outputs) {
    const expected = alone.get(name) as Values;
    if (data.length !== expected.length) return `${name} has ${data.length} values for ${expected.length}`;
    const at = data.findIndex((value, index) => {
      if (typeof expected[index] === 'string') return value !== expected[index];
      const [got, due] = [Number(value), Number(expected[index])];
      return !(Object.is(got, due) || Math.abs(got - due) <= (ROUNDING[datatype] ?? 0) * Math.max(1, Math.abs(due)));
    });
    if (at >= 0) return `${name}[${at}] is ${data[at]} for ${expected[at]}`;
  }
  return undefined;
}

/** Has requests scored together. @returns what is wrong with any answer, and how many runs held several of them */
async function scoreTogether(
  host: Host,
  model_name: string,
  { requests, alone }: Awaited<ReturnType<typeof requestsOf>>,
): Promise<{ readonly wrong: string[]; readonly shared: number }> {
  const before = sharedRuns(host, model_name);
  const ids = host.send(requests.map((inputs) => ({ model_name, inputs })));
  const answers = await host.answers(ids);
  await host.become('deleted', ids);
  const wrong = answers.flatMap((answer, index) => {
    const difference = differenceOf(answer, alone[index] as Map<string, Values>);
    return difference === undefined ? [] : [`request ${index}: ${difference}`];
  });
  return { wrong, shared: sharedRuns(host, model_name) - before };
}

function sharedRuns(host: Host, model: string): number {
  const runs = host.printed().matchAll(/^\{.*"message":"micro-batch".*$/gm);
  return Array.from(runs, ([line]) => JSON.parse(line)).filter((run) => run.model === model && run.requests > 1).length;
}

function modelOf(name: string, bytes: Uint8Array, config: Readonly<Record<string, unknown>> = {}): RepositoryFiles {
  const quiet = { sessionOptions: { logSeverityLevel: 4 } };
  return { [`${name}/1/model.onnx`]: bytes, [`${name}/config.json`]: { ...quiet, ...config } };
}

const nameOf = (what: string): string => what.replaceAll(/\W+/g, '-');
const SOFTMAX = (MIXING['softmax over axis 0'] as () => Uint8Array)();
const DEBUG = { BATCHSCORE_LOG_LEVEL: 'debug', BATCHSCORE_MAX_BATCH_ROWS: '128' };

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

describe('3. A batched answer is the answer to that request alone', () => {
  describe('where a model is checked when it is loaded', () => {
    let host: Host;
    beforeAll(async () => {
      const checked = Object.entries({ ...MIXING, ...SOUND }).map(([what, bytes]) => modelOf(nameOf(what), bytes()));
      const models: RepositoryFiles = Object.assign({}, ...checked, {
        ...modelOf('alone', SOFTMAX, { batching: 'alone' }),
        ...modelOf('not-checked', SOFTMAX, { warmup: false }),
        ...modelOf('few-rows', SOFTMAX, { maxBatchRows: 4 }),
        ...modelOf('label', dynamicLabelModel()),
        ...modelOf('by-row-count', byRowCount()),
      });
      host = await hosts.start('the function', { models, environment: DEBUG });
    }, LOADS_MS);

    it.each(Object.entries(MIXING))('rows depend on each other: %s', async (what, bytes) => {
      const requests = await requestsOf(bytes(), 24, ORDINARY);

      expect((await scoreTogether(host, nameOf(what), requests)).wrong).toEqual([]);
    });

    it.each(Object.entries(SOUND))('rows are independent, and share runs: %s', async (what, bytes) => {
      const requests = await requestsOf(bytes(), 24, ORDINARY);
      const { wrong, shared } = await scoreTogether(host, nameOf(what), requests);

      expect([wrong, shared > 0]).toEqual([[], true]);
    });

    it.each([
      ['with "batching": "alone"', 'alone', SOFTMAX, 12, 6],
      ['of which nothing is known', 'not-checked', SOFTMAX, 24, 6],
      ['that is quantised dynamically and answers with labels', 'label', dynamicLabelModel(), 300, 1],
      ['in which only many rows change answers: runs are no larger', 'by-row-count', byRowCount(), 300, 1],
      ['in which only many rows change answers: no request is split', 'by-row-count', byRowCount(), 80, 80],
    ])('a model %s', async (_, name, bytes, count, maxRows) => {
      const requests = await requestsOf(bytes, count, ORDINARY, maxRows);

      expect((await scoreTogether(host, name, requests)).wrong).toEqual([]);
    });

    it('refuses a request that must not be split and has more rows than a run', async () => {
      const of = (rows: number) => ({
        model_name: 'few-rows',
        inputs: [{ name: 'x', datatype: 'FP32', shape: [rows, 4], data: new Array(4 * rows).fill(1) }],
      });

      expect(await host.answers(host.send([of(4), of(5)]))).toMatchObject([
        { outputs: [{ shape: [4, 4] }] },
        { code: 'TOO_MANY_ROWS', error: expect.stringMatching(/splits no request.* expected at most 4 .*, got 5/) },
      ]);
    });
  });

  describe('where only one request in forty disturbs its run', () => {
    const rarely: ValueFor = (_, random) => (random() < 1 / 40 ? 150_000 : Math.floor(random() * 90));
    const models = modelOf('disturbed', disturbedBy());

    it.each(HOSTS)('%s finds out before it writes, sets off the alarm, and batches no more', async (name) => {
      const host = await hosts.start(name, { models, environment: DEBUG, batchSize: 3 });

      expect((await scoreTogether(host, 'disturbed', await requestsOf(disturbedBy(), 250, rarely, 1))).wrong).toEqual(
        [],
      );
      expect(await host.says('not batched any more')).toMatchObject({ level: 'ERROR', model: 'disturbed' });
      const again = await scoreTogether(host, 'disturbed', await requestsOf(disturbedBy(), 50, rarely, 1));
      expect(again).toEqual({ wrong: [], shared: 0 });
      expect(await host.says('"BatchMismatch":1')).toMatchObject({ service: 'batchscore' });
    });

    it.each(HOSTS)('%s finds out before it writes what comes again after its host was lost', async (name) => {
      const host = await hosts.start(name, { models, environment: DEBUG });
      const written = Promise.withResolvers<void>();
      let isLost = false;
      hosts.intercept(({ operation, queue }) => {
        if (isLost || operation !== 'SendMessageBatch' || queue !== host.results) return undefined;
        written.resolve();
        return 'silence';
      });
      const scored = scoreTogether(host, 'disturbed', await requestsOf(disturbedBy(), 120, rarely, 1));
      await written.promise;
      isLost = true;
      await host.kill();

      expect((await scored).wrong).toEqual([]);
      expect(await host.says('"BatchMismatch":1')).toMatchObject({ service: 'batchscore' });
    });

    it('"checkPercent": 0 turns the checks of real requests off', async () => {
      const environment = { ...DEBUG, BATCHSCORE_CHECK_PERCENT: '0' };
      const host = await hosts.start('the function', { models, environment });
      const { wrong } = await scoreTogether(host, 'disturbed', await requestsOf(disturbedBy(), 120, rarely, 1));

      expect(wrong).not.toEqual([]);
      expect(host.printed()).not.toContain('not batched any more');
    });
  });
});
