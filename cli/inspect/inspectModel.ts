import { isFailure, messageOf } from '../../lambda/core/failure.ts';
import { RANGES } from '../../lambda/core/limits.ts';
import { axisInModel, type Model, shapeInModel, type TensorSpec } from '../../lambda/core/model.ts';

import { symbolicAxes } from '../../lambda/onnx/contract.ts';
import type { ModelLocation } from '../../lambda/onnx/findModels.ts';
import { type ModelConfig, readModelConfig } from '../../lambda/onnx/modelConfig.ts';
import { checkModelFile, type ModelGraph, readGraph } from '../../lambda/onnx/modelFile.ts';
import { readSampleLines } from '../../lambda/onnx/probes.ts';
import { locate, openModelAlone } from '../../lambda/onnx/repository.ts';
import type { Inspection, Opened, Value, Verdict } from './inspection.ts';
import { notableOperators } from './notableOperators.ts';
import { type OnnxFile, readOnnxFile } from './onnxFile.ts';
import { sampleRequests } from './sampleRequests.ts';

/**
 * Opens a model as a host does, with its checks, and has it answer sample requests.
 *
 * @param path a model folder or a `.onnx` file
 * @param providers execution providers, first choice first
 * @throws Error when there is no whole ONNX file; of one that does not open, the error is in the answer
 */
export async function inspectModel(path: string, providers: readonly string[]): Promise<Inspection> {
  const location = await locate(path);
  checkModelFile(location.path);
  const file = readOnnxFile(location.path);
  const graph = readGraph(location.path);
  const { name: model, version, path: filePath } = location;
  const found = { model, version, path: filePath, ...aboutFile(file) };
  try {
    const { opened, inputs, outputs, hasLengths } = await open(
      location,
      path,
      providers,
      graph,
      file.outputs.map(({ name }) => name),
    );
    return { ...found, inputs, outputs, opened, notableOperators: notableOperators(file, graph, hasLengths) };
  } catch (error) {
    const { inputs, outputs } = file;
    return {
      ...found,
      inputs,
      outputs,
      error: messageOf(error),
      notableOperators: notableOperators(file, graph, true),
    };
  }
}

function aboutFile({ inputs: _, outputs: __, operators, ...file }: OnnxFile) {
  return { file, nodes: operators.reduce((sum, { count }) => sum + count, 0), operators };
}

interface Found {
  readonly opened: Opened;
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  readonly hasLengths: boolean;
}

async function open(
  { path: filePath, folder }: ModelLocation,
  path: string,
  providers: readonly string[],
  graph: ModelGraph,
  offered: readonly string[],
): Promise<Found> {
  const warnings: string[] = [];
  let probes = 0;
  const models = await openModelAlone(path, {
    maxBatchRows: RANGES.maxBatchRows.default,
    maxBatchElements: RANGES.maxBatchElements.default,
    providers,
    allowProviderFallback: false,
    warn: (warning) => warnings.push(warning.replace(`${filePath}: `, '')),
    loaded: (start) => {
      probes = start.probes;
    },
  });
  try {
    const model = await models.find(undefined, undefined);
    if (isFailure(model)) throw new Error(model.message);
    const config = readModelConfig(folder);
    const samples = await sampleRequests(model, await readSampleLines(folder), graph, config.warmup);
    const { ragged } = model;
    const computed = model.outputs.map(({ name }) => name);
    const leftOut = offered.filter((name) => !computed.includes(name));
    return {
      hasLengths: symbolicAxes(model).length > 0,
      inputs: model.inputs.map((spec, index) => valueFrom(spec, ragged?.inputs[index]?.axis)),
      outputs: model.outputs.map((spec, index) => valueFrom(spec, ragged?.outputs[index])),
      opened: { ...aboutModel(model, config), leftOut, probes, warnings, ...samples },
    };
  } finally {
    await models.close();
  }
}

function aboutModel(
  model: Model,
  config: ModelConfig,
): Omit<Opened, 'leftOut' | 'probes' | 'warnings' | 'samples' | 'isMadeUp'> {
  const { ragged, inputs, constants = [], maxBatchRows, ladder, largestDifference = null, transform } = model;
  return {
    verdict: verdictOf(model, config),
    largestDifference,
    maxBatchRows,
    ladder,
    ragged:
      ragged === undefined
        ? null
        : {
            axis: ragged.name,
            inputs: inputs.filter((_, index) => ragged.inputs[index] !== undefined).map(({ name }) => name),
            ladder: ragged.ladder,
          },
    openAxes: symbolicAxes(model).filter((axis) => axis !== ragged?.name),
    constants,
    hasTransform: transform?.decode !== undefined,
  };
}

function verdictOf({ independence = 'trusted' }: Model, { batching }: ModelConfig): Verdict {
  return independence === 'dependent' && batching === 'alone' ? 'alone' : VERDICTS[independence];
}

const VERDICTS = { proved: 'independent', unproven: 'unknown', trusted: 'trusted', dependent: 'dependent' } as const;

/** Its shape is empty where the model does not say it, as that of some outputs. */
function valueFrom(spec: TensorSpec, raggedAxis: number | undefined): Value {
  const { name, datatype, shape } = spec;
  const batchAxis = axisInModel(spec, 0);
  return {
    name,
    datatype,
    shape: shape.length === 0 ? undefined : [...shapeInModel(spec, shape)],
    batchAxis,
    ...(raggedAxis !== undefined && { raggedAxis: axisInModel(spec, raggedAxis) }),
  };
}
