import { beforeAll, describe, expect, it } from '@jest/globals';
import * as ort from 'onnxruntime-node';
import { graphOf, model } from '../helpers/graph.ts';
import { type Answer, HOSTS, type Host, useHosts } from '../helpers/hosts.ts';
import { dynamicLabelModel, MIXING, SOUND } from '../helpers/mixingModels.ts';
import type { RepositoryFiles } from '../helpers/openModels.ts';
import { scorersOf } from '../helpers/processes.ts';

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

function graph(text: string, x: string, y: string): Uint8Array {
  const { nodes, constants } = graphOf(text);
  return model(`x ${x}`, `y ${y}`, nodes, constants);
}

/** Its graph does not tell, and no row that is tried at start is near 150,000: `others` counts the rest that are. */
const RARELY =
  'd = Det x; above = Greater d 123456.0; below = Less d 160000.0; is = And above below; large = Cast is to=1; ' +
  'count = ReduceSum large keepdims=1; others = Sub count large; double = Add d d';
const ONE = ['FP32[batch,1,1]', 'FP32[batch]'] as const;
/** Twice a row, less 1 for each other one of the run that is large. */
const DISTURBED = graph(`${RARELY}; y = Sub double others`, ...ONE);
/** Twice a row, and no number if another one of the run is large. */
const TURNED_TO_NAN = graph(
  `${RARELY}; beside = Greater others 0.5; none = Div 0.0 0.0; y = Where beside none double`,
  ...ONE,
);
/** A row; in runs of more than 50 rows, twice of it. */
const BY_ROW_COUNT = graph(
  'shape = Shape x; rows = Gather shape 0; count = Cast rows to=1; is = Greater count 50.0; many = Cast is to=1; ' +
    'more = Mul x many; y = Add x more',
  'FP32[batch,1]',
  'FP32[batch,1]',
);

describe('3. A batched answer is the answer to that request alone', () => {
  describe('where the graph of a model tells', () => {
    let host: Host;
    beforeAll(async () => {
      const checked = Object.entries({ ...MIXING, ...SOUND }).map(([what, bytes]) => modelOf(nameOf(what), bytes()));
      const models: RepositoryFiles = Object.assign({}, ...checked, {
        ...modelOf('alone', SOFTMAX, { batching: 'alone' }),
        ...modelOf('not-checked', SOFTMAX, { warmup: false }),
        ...modelOf('few-rows', SOFTMAX, { maxBatchRows: 4 }),
        ...modelOf('label', dynamicLabelModel()),
        ...modelOf('by-row-count', BY_ROW_COUNT),
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
      ['that is not run at start', 'not-checked', SOFTMAX, 24, 6],
      ['that is quantised dynamically and answers with labels', 'label', dynamicLabelModel(), 300, 1],
      ['in which only many rows change answers, of few requests', 'by-row-count', BY_ROW_COUNT, 300, 1],
      ['in which only many rows change answers, each a request', 'by-row-count', BY_ROW_COUNT, 80, 80],
    ])('a model %s', async (_, name, bytes, count, maxRows) => {
      const requests = await requestsOf(bytes, count, ORDINARY, maxRows);

      expect((await scoreTogether(host, name, requests)).wrong).toEqual([]);
    });

    it('never splits a request of a model whose rows depend on each other, however few rows a run may have', async () => {
      const requests = await requestsOf(SOFTMAX, 9, ORDINARY, 9);

      expect((await scoreTogether(host, 'few-rows', requests)).wrong).toEqual([]);
    });
  });

  describe('where it does not, and one request in forty disturbs its run', () => {
    const rarely: ValueFor = (_, random) => (random() < 1 / 40 ? 150_000 : Math.floor(random() * 90));
    const models = { ...modelOf('disturbed', DISTURBED), ...modelOf('turned', TURNED_TO_NAN) };

    it.each(HOSTS)('%s compares what it turned to NaN before that is written, and batches no more', async (name) => {
      const host = await hosts.start(name, { models, environment: DEBUG, batchSize: 3 });

      expect((await scoreTogether(host, 'turned', await requestsOf(TURNED_TO_NAN, 250, rarely, 1))).wrong).toEqual([]);
      expect(await host.says('no longer batched')).toMatchObject({ level: 'ERROR', model: 'turned' });
      for (const next of ['this process', 'the next']) {
        if (next === 'the next') for (const pid of scorersOf(host.pid())) process.kill(pid, 'SIGKILL');
        const again = await scoreTogether(host, 'turned', await requestsOf(TURNED_TO_NAN, 50, rarely, 1));
        expect([next, again]).toEqual([next, { wrong: [], shared: 0 }]);
      }
      expect(await host.says('"BatchMismatch":1')).toMatchObject({ service: 'batchscore' });
    });

    it.each(HOSTS)('%s does so for what comes again after its host was lost', async (name) => {
      const host = await hosts.start(name, { models, environment: DEBUG });
      const written = Promise.withResolvers<void>();
      let isLost = false;
      hosts.intercept(({ operation, queue }) => {
        if (isLost || operation !== 'SendMessageBatch' || queue !== host.results) return undefined;
        written.resolve();
        return 'silence';
      });
      const scored = scoreTogether(host, 'turned', await requestsOf(TURNED_TO_NAN, 120, rarely, 1));
      await written.promise;
      isLost = true;
      await host.kill();

      expect((await scored).wrong).toEqual([]);
      expect(await host.says('"BatchMismatch":1')).toMatchObject({ service: 'batchscore' });
    });

    it('the first request that is compared and differs sets off the alarm, and its model is batched no more', async () => {
      const environment = { ...DEBUG, BATCHSCORE_CHECK_PERCENT: '50' };
      const host = await hosts.start('the function', { models, environment });
      const requests = await requestsOf(DISTURBED, 120, rarely, 1);
      for (let time = 0; time < 50 && !host.printed().includes('no longer batched'); time++)
        await scoreTogether(host, 'disturbed', requests);

      expect(await host.says('no longer batched')).toMatchObject({ level: 'ERROR', model: 'disturbed' });
      expect(await scoreTogether(host, 'disturbed', requests)).toEqual({ wrong: [], shared: 0 });
    });

    it('"checkPercent": 0 turns comparing off', async () => {
      const environment = { ...DEBUG, BATCHSCORE_CHECK_PERCENT: '0' };
      const host = await hosts.start('the function', { models, environment });
      const { wrong } = await scoreTogether(host, 'turned', await requestsOf(TURNED_TO_NAN, 120, rarely, 1));

      expect(wrong).not.toEqual([]);
      expect(host.printed()).not.toContain('no longer batched');
    });
  });
});
