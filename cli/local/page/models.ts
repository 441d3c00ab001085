import { join } from 'node:path';
import { isFailure } from '../../../lambda/core/failure.ts';
import { type Model, shapeInModel, type TensorSpec } from '../../../lambda/core/model.ts';

import { readSampleLines } from '../../../lambda/onnx/probes.ts';
import type { LocalStack } from '../stack.ts';
import type { ModelSeen, TensorSeen } from './wire.ts';

/** The models of a stack as a page shows them. */
export interface ModelsSeen {
  all(): readonly ModelSeen[];
  /** Texts of requests of a model; none where it has no samples. */
  samplesOf(name: string): readonly string[];
}

const MOST_SAMPLE_CHARACTERS = 32_768;

/** Takes them from the repository that the function has opened: none is loaded twice. */
export async function lookAtModels(
  { models, scoring }: Pick<LocalStack, 'models' | 'scoring'>,
  modelsDirectory: string,
): Promise<ModelsSeen> {
  const samples = new Map<string, readonly string[]>();
  const found: Model[] = [];
  for (const { name, version } of models) {
    if (!samples.has(name)) samples.set(name, await samplesIn(modelsDirectory, name));
    const model = await scoring.models.find(name, version);
    if (!isFailure(model)) found.push(model);
  }
  const samplesOf = (name: string): readonly string[] => samples.get(name) ?? [];
  return {
    samplesOf,
    all: () => found.map((model) => seenOf(model, scoring.batching.batchingOf(model), samplesOf(model.name)[0])),
  };
}

/** Each is given the model's name, so that it is a request of this model among others. */
async function samplesIn(modelsDirectory: string, name: string): Promise<string[]> {
  const { lines } = await readSampleLines(join(modelsDirectory, name));
  return lines
    .filter(({ line }) => line.length <= MOST_SAMPLE_CHARACTERS)
    .flatMap(({ line }) => {
      const request: unknown = JSON.parse(line);
      const isObject = typeof request === 'object' && request !== null && !Array.isArray(request);
      return isObject ? [JSON.stringify({ model_name: name, ...request })] : [];
    });
}

function seenOf(model: Model, batching: ModelSeen['batching'], sample: string | undefined): ModelSeen {
  const { name, version, inputs, outputs, maxBatchRows, ladder, ragged, transform, independence = 'trusted' } = model;
  return {
    name,
    version,
    inputs: inputs.map(tensorOf),
    outputs: outputs.map(tensorOf),
    independence,
    batching,
    maxBatchRows,
    ladder,
    raggedAxis: ragged?.name,
    hasTransform: transform !== undefined,
    sample,
  };
}

function tensorOf(spec: TensorSpec): TensorSeen {
  return { name: spec.name, datatype: spec.datatype, shape: shapeInModel(spec, spec.shape) };
}
