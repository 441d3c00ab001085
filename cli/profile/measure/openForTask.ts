import { isFailure } from '../../../lambda/core/failure.ts';
import { RANGES } from '../../../lambda/core/limits.ts';
import type { Model } from '../../../lambda/core/model.ts';

import type { ModelLocation } from '../../../lambda/onnx/findModels.ts';
import type { ModelStart } from '../../../lambda/onnx/loadModel.ts';
import { type ModelConfig, readModelConfig } from '../../../lambda/onnx/modelConfig.ts';
import { readGraph } from '../../../lambda/onnx/modelFile.ts';
import { decodeSamples, readSampleLines } from '../../../lambda/onnx/probes.ts';
import { openModelAlone } from '../../../lambda/onnx/repository.ts';
import type { Target, Told } from './messages.ts';
import { createRowMaker, type RowMaker } from './rowMaker.ts';

/** A model that is open, and what it can be run with. */
export interface OpenModel {
  readonly model: Model;
  readonly location: ModelLocation;
  readonly config: ModelConfig;
  readonly rows: RowMaker;
  /** Of the first real request; undefined where there is none. */
  readonly requestBytes: number | undefined;
}

export interface OpenOptions {
  readonly isThorough?: boolean;
  /** What is to hold in place of config.json. */
  readonly adapt?: (config: ModelConfig) => ModelConfig;
  readonly loaded?: (start: ModelStart) => void;
}

/** Opens the model of a task. It is open for as long as the process runs. */
export async function openForTask(
  { path, maxBatchRows, providers }: Target,
  tell: (told: Told) => void,
  options: OpenOptions,
): Promise<OpenModel> {
  const models = await openModelAlone(path, {
    maxBatchRows,
    maxBatchElements: RANGES.maxBatchElements.default,
    providers,
    allowProviderFallback: false,
    ignoreProfile: true,
    warn: (text) => tell({ kind: 'warning', text }),
    ...options,
  });
  const [location] = models.models as readonly [ModelLocation];
  const model = await models.find(undefined, undefined);
  if (isFailure(model)) throw new Error(model.message);
  const config = readModelConfig(location.folder);
  const lines = await readSampleLines(location.folder);
  const samples = await decodeSamples(lines, model);
  const rows = createRowMaker(model, samples, readGraph(location.path), config.warmup);
  const [first] = lines.lines;
  return { model, location, config, rows, requestBytes: first && Buffer.byteLength(first.line) };
}

/** As `config.json` says, but with no more than so many rows in a run, or as few as its ladder has. */
export function limitedTo(rows: number): (config: ModelConfig) => ModelConfig {
  return ({ ladder, ...config }) => {
    if (ladder === undefined) return { ...config, maxBatchRows: rows };
    const least = Math.min(...ladder);
    return {
      ...config,
      ladder: [least, ...ladder.filter((rung) => rung > least && rung <= rows)],
      maxBatchRows: Math.max(least, rows),
    };
  };
}

/** As `config.json` says, without the warm-up and its checks, and with what the start has found. */
export function unchecked(ladder: readonly number[], threads?: number): (config: ModelConfig) => ModelConfig {
  return ({ ladder: _, maxBatchRows: __, ...config }) => ({
    ...config,
    ...(ladder.length === 0 ? {} : { ladder: [...ladder] }),
    warmup: false,
    sessionOptions: { ...config.sessionOptions, ...(threads === undefined ? {} : { intraOpNumThreads: threads }) },
  });
}
