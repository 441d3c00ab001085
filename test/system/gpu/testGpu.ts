/**
 * Right answers and faults on a GPU, from outside: `npm run test:gpu`. `PROVIDER=cpu npm run test:gpu` rehearses all of it
 * on a processor. Needs no Jest, so that it runs where only the packages of the product are.
 */
import assert from 'node:assert/strict';
import { cp, readFile, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import * as ort from 'onnxruntime-node';
import { createRandom } from '../../../bench/workload/random.ts';
import { readGpus } from '../../../lambda/onnx/provider.ts';
import { type Generated, generateGraph } from '../../fuzz/generateGraph.ts';
import { feedsOf, type Input, requestTo } from '../../fuzz/graphs.ts';
import type { Answer } from '../../helpers/hosts.ts';
import { CULPRIT, culpritModel, lookupModel } from '../../helpers/onnxModels.ts';
import { type GpuWorker, PROVIDER, removeModels, startGpuWorker, writeModels } from './gpuWorker.ts';

const REPOSITORY = fileURLToPath(new URL('../../../', import.meta.url));
const GENERATED = 20;
const REQUESTS = 12;
/** docs/models.md: floats of FP32 on a GPU, which may use TF32. */
const RELATIVE = 0.01;
const ABSOLUTE = 1e-3;
/** A changed input must change an answer by less than a tenth of the bound, or rounding alone would pass it. */
const NUDGE = 1e-4;

interface Case {
  readonly body: object;
  readonly model: string;
}

describe(`answers on ${PROVIDER}`, () => {
  let models: string;
  let cases: readonly Case[];
  let reference: readonly Answer[];
  before(async () => {
    const graphs = await steadyGraphs();
    models = await writeModels(
      Object.fromEntries(
        graphs.flatMap(({ graph: { bytes, config } }, index) => [
          [`g${index}/1/model.onnx`, bytes],
          [`g${index}/config.json`, config],
        ]),
      ),
    );
    await cp(join(REPOSITORY, 'models/digits'), join(models, 'digits'), { recursive: true });
    await cp(join(REPOSITORY, 'models/tickets'), join(models, 'tickets'), { recursive: true });
    cases = [
      ...(await bundled('digits')),
      ...(await bundled('tickets')),
      ...graphs.flatMap(({ requests }, index) =>
        requests.map((inputs) => ({ model: `g${index}`, body: { model_name: `g${index}`, inputs } })),
      ),
    ];
    reference = await answersOf({ BATCHSCORE_PROVIDERS: 'cpu' });
  });
  after(() => removeModels(models));

  async function answersOf(settings: Readonly<Record<string, string>>): Promise<Answer[]> {
    const used = await memoryUsedMib();
    await using worker = await startGpuWorker(models, settings);
    const answers = await worker.answers(worker.send(cases.map(({ body }) => body)));
    const isOnCard = (settings.BATCHSCORE_PROVIDERS ?? PROVIDER) !== 'cpu';
    if (isOnCard)
      assert.ok((await memoryUsedMib()) > used + MODELS_MIB, 'expected the models to be in the memory of the card');
    return answers;
  }

  it(`are those on the processor, of digits, tickets and ${GENERATED} generated models`, async () => {
    compare(cases, await answersOf({}), reference);
  });

  it('are those of each row alone', async () => {
    const [together, alone] = [await answersOf({}), await answersOf({ BATCHSCORE_MAX_BATCH_ROWS: '1' })];

    const largest = compare(cases, together, alone);
    console.log(`largest difference between batches and single rows: ${largest.toExponential(1)} of the value or of 1`);
  });
});

async function bundled(model: string): Promise<Case[]> {
  const lines = (await readFile(join(REPOSITORY, 'models', model, 'samples.jsonl'), 'utf8')).split('\n');
  return lines
    .filter((line) => line !== '')
    .slice(0, REQUESTS)
    .map((line) => {
      return { model, body: { model_name: model, ...JSON.parse(line) } };
    });
}

interface Steady {
  readonly graph: Generated;
  readonly requests: readonly (readonly Input[])[];
}

/** Returns graphs whose rows are independent, and whose answers change little if their inputs do. */
async function steadyGraphs(): Promise<Steady[]> {
  const found: Steady[] = [];
  for (let seed = 1; found.length < GENERATED; seed++) {
    const random = createRandom(seed);
    const graph = generateGraph(random);
    if (graph === undefined || graph.outputs.some(({ isMixed }) => isMixed)) continue;
    if (graph.inputs.some(({ dims }) => dims.includes('length'))) continue;
    const requests = Array.from({ length: REQUESTS }, () => requestTo(graph, random));
    const isSteady = await changesLittle(graph, requests).catch(() => false);
    if (isSteady) found.push({ graph, requests });
  }
  return found;
}

async function changesLittle({ bytes }: Generated, requests: Steady['requests']): Promise<boolean> {
  const session = await ort.InferenceSession.create(bytes, { logSeverityLevel: 4, intraOpNumThreads: 1 });
  for (const inputs of requests) {
    const nudged = inputs.map((input) => {
      const data = input.datatype === 'FP32' ? input.data.map((value) => Number(value) * (1 + NUDGE)) : input.data;
      return { ...input, data };
    });
    const [one, other] = [await session.run(feedsOf(inputs)), await session.run(feedsOf(nudged))];
    for (const [name, { data }] of Object.entries(one)) {
      const changed = other[name]?.data as ArrayLike<number>;
      const isFar = (value: number, at: number) => !(differenceOf(value, Number(changed[at])) < RELATIVE / 10);
      if (Array.from(data as ArrayLike<number>, Number).some(isFar)) return false;
    }
  }
  return true;
}

/** Returns a difference in units of the value, or of 1 if the value is less than that. */
function differenceOf(one: number, other: number): number {
  if (Object.is(one, other) || one === other) return 0;
  return Math.abs(one - other) / Math.max(ABSOLUTE / RELATIVE, Math.abs(other));
}

/** @returns the largest difference */
function compare(cases: readonly Case[], got: readonly Answer[], expected: readonly Answer[]): number {
  return Math.max(
    ...cases.map(({ model }, index) => {
      const [{ message_id: _, ...one }, { message_id: __, ...other }] = [
        got[index] as Answer,
        expected[index] as Answer,
      ];
      assert.equal(other.code, undefined, `${model}: ${other.error}`);
      return compareValues(one, other, model);
    }),
  );
}

/** Compares numbers within the bound, and everything else exactly. @returns the largest difference of the numbers */
function compareValues(got: unknown, expected: unknown, at: string): number {
  if (typeof expected === 'object' && expected !== null && typeof got === 'object' && got !== null) {
    assert.deepEqual(Object.keys(got), Object.keys(expected), at);
    const others = Object.values(expected);
    return Math.max(
      0,
      ...Object.entries(got).map(([key, value], place) => compareValues(value, others[place], `${at}.${key}`)),
    );
  }
  const areNumbers = typeof got === 'number' && typeof expected === 'number';
  const difference = areNumbers ? differenceOf(got, expected) : Number(got !== expected);
  assert.ok(difference < RELATIVE, `${at}: expected ${expected}, got ${got}`);
  return difference;
}

/** Library that is moved away to simulate a lost device. Without a GPU the model is moved away. */
const PROVIDER_LIBRARY = join(
  REPOSITORY,
  `node_modules/onnxruntime-node/bin/napi-v6/linux/x64/libonnxruntime_providers_${PROVIDER}.so`,
);
/** Memory that contexts of ended processes may leave to the driver for a moment. */
const SLACK_MIB = 512;
/** Memory that a context of CUDA and the models take at least. */
const MODELS_MIB = 100;
const MESSAGES = 40;
const LOST_MS = 3_000;

describe(`faults on ${PROVIDER}`, () => {
  let models: string;
  let usedBefore: number;
  before(async () => {
    models = await writeModels({
      'lookup/1/model.onnx': lookupModel(),
      'culprit/1/model.onnx': culpritModel(),
      'culprit/config.json': { batching: 'trust', sessionOptions: { logSeverityLevel: 4 } },
    });
    usedBefore = await memoryUsedMib();
  });
  after(() => removeModels(models));

  const toCulprit = (index: number) => ({
    model_name: 'culprit',
    inputs: [{ name: 'index', datatype: 'INT64', shape: [1], data: [index] }],
  });
  const toLookup = (index: number) => ({
    model_name: 'lookup',
    inputs: [{ name: 'index', datatype: 'INT64', shape: [1], data: [index] }],
  });
  const innocents = (count: number) => Array.from({ length: count }, (_, index) => toCulprit(index));
  const valuesOf = (answers: readonly Answer[]) => answers.map(({ code, outputs }) => code ?? outputs?.[0]?.data[0]);
  const tens = (count: number) => Array.from({ length: count }, (_, index) => 10 * index);

  /** Starts a worker, has it work, and expects the card to be free when it has ended. */
  async function withWorker(work: (worker: GpuWorker) => Promise<void>): Promise<void> {
    {
      await using worker = await startGpuWorker(models);
      await work(worker);
      assert.equal(worker.dead(), 0);
    }
    await untilFree();
  }

  async function untilFree(): Promise<void> {
    for (let tries = 0; tries < 50 && (await memoryUsedMib()) > usedBefore + SLACK_MIB; tries++) await sleep(200);
    assert.ok((await memoryUsedMib()) <= usedBefore + SLACK_MIB, 'expected the memory of the card to be free again');
  }

  it('answers OUT_OF_MEMORY to a request that needs more than the card has, and scores to its neighbours', () =>
    withWorker(async (worker) => {
      const ids = worker.send([toCulprit(CULPRIT.fills), ...innocents(MESSAGES)]);

      assert.deepEqual(valuesOf(await worker.answers(ids)), ['OUT_OF_MEMORY', ...tens(MESSAGES)]);
      assert.deepEqual(new Set(worker.receives(ids.slice(1))), new Set([1]));
    }));

  it('answers RUN_TIMED_OUT to a request whose run never ends, and scores to its neighbours', () =>
    withWorker(async (worker) => {
      const ids = worker.send([toCulprit(CULPRIT.hangs), ...innocents(MESSAGES)]);

      assert.deepEqual(valuesOf(await worker.answers(ids)), ['RUN_TIMED_OUT', ...tens(MESSAGES)]);
      assert.deepEqual(new Set(worker.receives(ids.slice(1))), new Set([1]));
    }));

  it('answers everything at its first receive if the scorer is killed in the middle of a run', () =>
    withWorker(async (worker) => {
      const ids = worker.send([toCulprit(CULPRIT.hangs), ...innocents(MESSAGES)]);
      await untilReceived(worker, ids);
      for (const scorer of worker.scorers()) process.kill(scorer, 'SIGKILL');

      assert.deepEqual(valuesOf(await worker.answers(ids)).slice(1), tens(MESSAGES));
      assert.deepEqual(new Set(worker.receives(ids.slice(1))), new Set([1]));
    }));

  it('hands requests back while the device is lost, and answers them when it is there again', () =>
    withWorker(async (worker) => {
      await worker.answers(worker.send(innocents(1)));
      const lost = PROVIDER === 'cpu' ? dirname(join(models, 'culprit/1/model.onnx')) : PROVIDER_LIBRARY;
      await rename(lost, `${lost}.away`);
      let id = '';
      try {
        for (const scorer of worker.scorers()) process.kill(scorer, 'SIGKILL');
        [id = ''] = worker.send([toCulprit(1)]);
        await sleep(LOST_MS);
        assert.equal(worker.isAnswered(id), false);
      } finally {
        await rename(`${lost}.away`, lost);
      }

      assert.deepEqual(valuesOf(await worker.answers([id])), [10]);
    }));

  it('goes on with one model on the card while a run of another hangs', () =>
    withWorker(async (worker) => {
      const hung = worker.send([toCulprit(CULPRIT.hangs)]);
      await untilReceived(worker, hung);

      const ids = worker.send([0, 1, 2].map(toLookup));
      assert.deepEqual(valuesOf(await worker.answers(ids)), [10, 20, 30]);
      assert.equal(worker.isAnswered(hung[0] as string), false);
    }));

  it('goes on in one scorer on the card while that of another host runs out of memory', () =>
    withWorker(async (worker) => {
      await using other = await startGpuWorker(models);
      const full = other.send(Array.from({ length: 3 }, () => toCulprit(CULPRIT.fills)));
      const ids = worker.send(innocents(MESSAGES));

      assert.deepEqual(valuesOf(await worker.answers(ids)), tens(MESSAGES));
      assert.deepEqual(new Set(worker.receives(ids)), new Set([1]));
      assert.deepEqual(new Set(valuesOf(await other.answers(full))), new Set(['OUT_OF_MEMORY']));
    }));
});

async function untilReceived(worker: GpuWorker, ids: readonly string[]): Promise<void> {
  while (worker.receives(ids).includes(0)) await sleep(5);
}

async function memoryUsedMib(): Promise<number> {
  if (PROVIDER === 'cpu') return 0;
  const [gpu] = await readGpus();
  if (gpu?.memoryUsedMib === undefined)
    throw new Error('expected nvidia-smi to report the memory of the card, got none');
  return gpu.memoryUsedMib;
}
