import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as ort from 'onnxruntime-node';
import type { GraphNode } from '../../bench/workload/encodeModel.ts';
import { createRandom, type Random } from '../../bench/workload/random.ts';
import { messageOf } from '../../lambda/core/failure.ts';
import type { Datatype } from '../../lambda/core/tensor.ts';
import { requestRows } from '../../lambda/jobs/rows.ts';
import { createRowScoring } from '../../lambda/jobs/scoreRows.ts';
import { openRepository } from '../../lambda/onnx/repository.ts';
import { scoreModels } from '../helpers/scoring.ts';
import { type Generated, generateGraph, type Value, WORDS } from './generateGraph.ts';
import { pick } from './mutate.ts';
import { putFiles, type Target } from './target.ts';

export interface Input {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly data: readonly (number | string)[];
}

export function requestTo({ inputs }: Generated, random: Random): Input[] {
  const rows = 1 + random.below(3);
  const length = 1 + random.below(5);
  return inputs.map(({ name, datatype, dims }) => {
    const shape = dims.map((dim) => (dim === 'batch' ? rows : dim === 'length' ? length : dim));
    const count = shape.reduce((product, size) => product * size, 1);
    const one = (): number | string => {
      if (datatype === 'BYTES') return pick(random, WORDS);
      return datatype === 'INT64' ? random.below(4) : Math.fround(random.normal() * pick(random, [1, 1, 1, 10]));
    };
    return { name, datatype, shape, data: Array.from({ length: count }, one) };
  });
}

const ORT_TYPE = { FP32: 'float32', INT64: 'int64', BYTES: 'string' } as const;

function toTensor({ datatype, shape, data }: Input): ort.Tensor {
  if (datatype === 'INT64') return new ort.Tensor('int64', BigInt64Array.from(data, BigInt), shape);
  if (datatype === 'BYTES') return new ort.Tensor('string', data as string[], shape);
  return new ort.Tensor(ORT_TYPE.FP32, Float32Array.from(data, Number), shape);
}

export function feedsOf(inputs: readonly Input[]): Record<string, ort.Tensor> {
  return Object.fromEntries(inputs.map((input) => [input.name, toTensor(input)]));
}

/** Requests of one wave are scored together; after the first some have been compared by the host itself. */
const WAVES = [24, 40, 40] as const;
const LIMITS = {
  maxRequestRows: 100,
  maxRequestsPerMessage: 100,
  maxAnswerCharacters: 1_000_000,
  maxBatchElements: 1_000_000,
  deadlineMarginMs: 1,
};

/**
 * Generated models: what each request is answered among others is compared with what ONNX Runtime itself gives for it
 * alone. A model may be refused when it is opened; an answer may not differ.
 */
export async function openGraphs(): Promise<Target> {
  const answers: Record<string, number> = {};
  const count = (what: string): void => {
    answers[what] = (answers[what] ?? 0) + 1;
  };
  return {
    answers,
    isUnlimited: true,
    make: (random) => String(random.below(2 ** 31)),
    async check(inputs) {
      const found: (string | undefined)[] = [];
      for (const seed of inputs) found.push(await checkGraph(createRandom(Number(seed)), count));
      return found;
    },
  };
}

async function checkGraph(random: Random, count: (what: string) => void): Promise<string | undefined> {
  const graph = generateGraph(random);
  if (graph === undefined) return undefined;
  const kind = graph.outputs.some(({ isMixed }) => isMixed) ? 'mixing' : 'sound';
  const options = { logSeverityLevel: 4, intraOpNumThreads: 1 } as const;
  const session = await ort.InferenceSession.create(graph.bytes, options).catch(messageOf);
  if (typeof session === 'string') {
    count('invalid');
    return undefined;
  }
  const directory = await mkdtemp(join(tmpdir(), 'batchscore-fuzz-'));
  try {
    await putFiles(directory, { 'm/1/model.onnx': graph.bytes, 'm/config.json': JSON.stringify(graph.config) });
    const said: string[] = [];
    const repository = await openRepository({
      directory,
      maxBatchRows: 128,
      maxBatchElements: LIMITS.maxBatchElements,
      providers: ['cpu'],
      allowProviderFallback: false,
      preload: true,
      warn: () => {},
      inform: (line) => void said.push(line),
    }).catch(messageOf);
    if (typeof repository === 'string') {
      count(`${kind}, refused`);
      return undefined;
    }
    let shared = 0;
    const observer = { microBatch: ({ requests }: { requests: number }) => void (requests > 1 && shared++) };
    const scoring = createRowScoring({ score: scoreModels(repository, LIMITS, 1), observer });
    let wrong: string | undefined;
    // Some answer the same request differently each time, such as those that change what they hold when they are run.
    const isSteady = async (): Promise<boolean> => {
      const again = createRandom(1);
      const requests = Array.from({ length: WAVES[0] }, () => requestTo(graph, again));
      const answers = async (): Promise<string> => {
        const all: string[] = [];
        for (const inputs of requests) {
          const outputs = await session.run(feedsOf(inputs)).catch(() => ({}));
          for (const { data } of Object.values<ort.Tensor>(outputs)) all.push(Array.from(data, String).join());
        }
        return all.join(';');
      };
      const [first, second] = [await answers(), await answers()];
      return first === second;
    };
    for (const size of WAVES) {
      const requests = Array.from({ length: size }, () => requestTo(graph, random));
      const texts = requests.map((inputs) => JSON.stringify({ inputs }));
      const { single } = await scoring.score(requestRows([...texts.keys()], texts));
      for (const [index, inputs] of requests.entries()) {
        const alone = await session.run(feedsOf(inputs)).catch(messageOf);
        const answer = single[index]?.text ?? '{}';
        wrong ??= differenceOf(answer, alone);
      }
    }
    await repository.close();
    if (wrong !== undefined && !(await isSteady())) {
      count('random');
      return undefined;
    }
    count(`${kind}, ${shared > 0 ? 'batched' : 'alone'}`);
    return wrong && `${wrong}; ${kind}, ${shared} shared runs, ${said.join('; ')}; ${described(graph)}`;
  } finally {
    await rm(directory, { recursive: true });
    await session.release();
  }
}

function described({ nodes, inputs, outputs, config }: Generated): string {
  const value = ({ name, datatype, dims, isMixed }: Value) => `${name} ${datatype}[${dims}]${isMixed ? ' mixed' : ''}`;
  const one = ({ op, inputs, outputs, attributes }: GraphNode) =>
    `${outputs} = ${op}(${inputs}) ${JSON.stringify(attributes)}`;
  return `${inputs.map(value).join(', ')}: ${nodes.map(one).join('; ')}: ${outputs.map(value).join(', ')}; ${JSON.stringify(config)}`;
}

/** Of the largest of a value and 1. */
const ROUNDING = 2e-3;

function differenceOf(answer: string, alone: ort.InferenceSession.OnnxValueMapType | string): string | undefined {
  const { outputs = [], code, error } = JSON.parse(answer);
  if (typeof alone === 'string') return code === 'RUN_FAILED' ? undefined : `expected ${alone}, got ${answer}`;
  if (code !== undefined) return `expected scores, got ${error}`;
  if (outputs.length !== Object.keys(alone).length) return `expected ${Object.keys(alone)}, got ${answer}`;
  for (const { name, shape, data } of outputs) {
    const due = alone[name] as ort.Tensor;
    if (`${due.dims}` !== `${shape}`) return `${name}: expected the shape ${due.dims}, got ${shape}`;
    const wanted = Array.from(due.data as ArrayLike<number | bigint>, Number);
    const limit = due.type === 'float32' ? ROUNDING : 0;
    const at = wanted.findIndex((one, index) => {
      const got = Number(data[index]);
      return !(Object.is(got, one) || got === one || Math.abs(got - one) <= limit * Math.max(1, Math.abs(one)));
    });
    if (at >= 0) return `${name}[${at}]: expected ${wanted[at]}, got ${data[at]}`;
  }
  return undefined;
}
