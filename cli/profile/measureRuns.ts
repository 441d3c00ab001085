import { availableParallelism } from 'node:os';
import { readModelConfig } from '../../lambda/adapters/onnx/config/modelConfig.ts';
import { readGraph } from '../../lambda/adapters/onnx/config/modelGraph.ts';
import { decodeSamples, readSampleLines } from '../../lambda/adapters/onnx/config/samples.ts';
import { openModelAlone } from '../../lambda/adapters/onnx/repository/openModelAlone.ts';
import type { OnnxModelRepository } from '../../lambda/adapters/onnx/repository/repository.ts';
import { realProbes } from '../../lambda/adapters/onnx/startup/probeSets.ts';
import { type Manner, makeUp, rowShapes } from '../../lambda/adapters/onnx/startup/probes.ts';
import { isFailure, messageOf } from '../../lambda/core/contract/failure.ts';
import type { Model } from '../../lambda/core/contract/model.ts';
import { elementsPerRowAt, microBatchOf, type Part } from '../../lambda/core/plan/microBatch.ts';
import { stack } from '../../lambda/core/stack/stack.ts';
import { RANGES } from '../../lambda/limits/configuration.ts';
import type { RunCost } from './settings/runTimes.ts';
import { timeRuns } from './timeRuns.ts';

export interface MeasureOptions {
  readonly maxBatchRows: number;
  /** Execution providers, first choice first. */
  readonly providers: readonly string[];
  readonly warn: (message: string) => void;
  /** Told how many of all runs' sizes are done. */
  readonly onProgress: (done: number, all: number) => void;
}

/** What was measured of a model. */
export interface MeasuredModel {
  readonly model: string;
  readonly safety: Safety;
  readonly table: readonly RunCost[];
  /** Seconds to load the model, to warm it up and to check it. */
  readonly loadSeconds: number;
  /** Bytes of a real request; undefined where there are no samples. */
  readonly requestBytes: number | undefined;
}

/** Whether rows may share a run, as the checks at start found it. */
export interface Safety {
  readonly verdict: 'independent' | 'trusted' | 'unknown' | 'dependent' | 'alone';
  /** The largest difference between answers that was taken for rounding, as a share; null where nothing was compared. */
  readonly maxDifference: number | null;
}

/**
 * Times runs of 1, 2, 4, … rows on this machine, on one thread and on all, of one length.
 *
 * @param path a model folder or a .onnx file
 * @throws Error when it cannot be opened, or does not run
 */
export async function measureRuns(path: string, options: MeasureOptions): Promise<MeasuredModel> {
  const startedAt = performance.now();
  const models = await open(path, options, undefined);
  const loadSeconds = (performance.now() - startedAt) / 1000;
  try {
    const [location] = models.models;
    if (location === undefined) throw new Error(`${path}: expected a model, got none`);
    const config = readModelConfig(location.folder);
    const given = config.sessionOptions?.intraOpNumThreads;
    const threads = typeof given === 'number' && given > 0 ? given : availableParallelism();
    const model = await find(models);
    const samples = await readSampleLines(location.folder);
    const real = realProbes(await decodeSamples(samples, model));
    const runs = real.length > 0 ? real : await madeUpRows(model, await readGraph(location.path), config.warmup);
    const counts = rowCounts(model, runs[0]);
    const isAlsoAlone = threads > 1 && given === undefined && options.providers[0] === 'cpu';
    const all = counts.length * (isAlsoAlone ? 2 : 1);
    const measure = { counts, warn: options.warn, onProgress: (done: number) => options.onProgress(done, all) };
    const table = await timeRuns(model, runs, { ...measure, threads, done: 0 });
    if (isAlsoAlone) {
      const single = await open(path, { ...options, warn: () => {} }, 1);
      try {
        const rest = { ...measure, threads: 1, done: counts.length };
        table.push(...(await timeRuns(await find(single), runs, rest)));
      } finally {
        await single.close();
      }
    }
    return {
      model: model.name,
      safety: safetyOf(model, config.batching),
      table,
      loadSeconds,
      requestBytes: samples.lines[0] && Buffer.byteLength(samples.lines[0].line),
    };
  } finally {
    await models.close();
  }
}

function open(path: string, options: MeasureOptions, threads: number | undefined): Promise<OnnxModelRepository> {
  const { maxBatchRows, providers, warn } = options;
  const maxBatchElements = RANGES.maxBatchElements.default;
  return openModelAlone(path, {
    maxBatchRows,
    maxBatchElements,
    providers,
    allowProviderFallback: false,
    warn,
    threads,
  });
}

async function find(models: OnnxModelRepository): Promise<Model> {
  const model = await models.find(undefined, undefined);
  if (isFailure(model)) throw new Error(model.message);
  return model;
}

function safetyOf({ independence, maxBatchRows, largestDifference }: Model, batching: string | undefined): Safety {
  if (independence === 'proved') return { verdict: 'independent', maxDifference: largestDifference ?? null };
  if (independence === 'unproven') return { verdict: 'unknown', maxDifference: null };
  const alone = batching === 'alone' ? 'alone' : 'dependent';
  return { verdict: independence === undefined && maxBatchRows === 1 ? alone : 'trusted', maxDifference: null };
}

const MANNERS: readonly (readonly Manner[])[] = [
  ['unit', 'large', 'small', 'unit'],
  ['ones', 'small', 'ones', 'small'],
];
/** What axes without a given size are tried at: an ordinary text first. */
const SIZES = [32, 4, 1, 128];

/** Rows that the model runs with, where it has no samples. */
async function madeUpRows(
  model: Model,
  graph: Awaited<ReturnType<typeof readGraph>>,
  warmup: boolean | Readonly<Record<string, number>> | undefined,
): Promise<Part[]> {
  const given = typeof warmup === 'object' ? warmup : {};
  let reason = '';
  for (const size of SIZES) {
    for (const manners of MANNERS) {
      const rows = makeUp(model, rowShapes(model, given, size), manners, graph);
      try {
        await model.run(stack(microBatchOf(model, rows.slice(0, 1), 'end')));
        return rows;
      } catch (error) {
        reason ||= messageOf(error);
      }
    }
  }
  throw new Error(
    `expected the model to run with made-up values, got: ${reason}; put real requests into samples.jsonl beside config.json`,
  );
}

/** The rungs of its ladder; else 1, 2, 4, … and the most. */
function rowCounts(model: Model, sample: Part | undefined): number[] {
  const { ladder, maxBatchRows } = model;
  const powers = Array.from({ length: Math.ceil(Math.log2(maxBatchRows)) }, (_, power) => 2 ** power);
  const counts = ladder.length > 0 ? [...ladder] : [...powers, maxBatchRows];
  const elements = sample === undefined ? 1 : elementsPerRowAt(sample.request, sample.request.length);
  return counts.filter((rows, index) => index === 0 || rows * elements <= RANGES.maxBatchElements.default);
}
