import { encodeRequest } from '../../client/encodeRequest.ts';
import { messageOf } from '../../lambda/core/failure.ts';
import { isObject } from '../../lambda/core/json.ts';
import type { RequestInput } from '../../lambda/core/microBatch.ts';
import {
  axisInModel,
  type Model,
  type ModelDescription,
  shapeInModel,
  type TensorSpec,
  takesOwnForm,
} from '../../lambda/core/model.ts';
import type { ScoreBodies } from '../../lambda/core/score.ts';
import { DATATYPES, decodeAll, elementCount, isBase64Data, moveAxis } from '../../lambda/core/tensor.ts';
import { requestRows } from '../../lambda/jobs/rows.ts';
import { createRowScoring, type RowScoring } from '../../lambda/jobs/scoreRows.ts';
import { type AxisSizes, emptyPast, symbolicAxes } from '../../lambda/onnx/contract.ts';
import type { ModelLocation } from '../../lambda/onnx/findModels.ts';
import { locate } from '../../lambda/onnx/findModels.ts';
import { hasLoop, withGraph } from '../../lambda/onnx/graph.ts';
import { type ModelConfig, readModelConfig } from '../../lambda/onnx/modelConfig.ts';
import { checkModelFile } from '../../lambda/onnx/modelFile.ts';
import {
  decodeSamples,
  type Manner,
  makeUp,
  readSampleLines,
  rowShapes,
  type SampleLines,
} from '../../lambda/onnx/probes.ts';
import { SETTINGS } from '../../lambda/settings.ts';
import { openOffline } from '../offline/scoreCommand.ts';
import { printable } from '../terminal.ts';
import { type FileValue, notableOperators, readOnnxFile } from './onnxFile.ts';

/**
 * Opens a model as a host does, with its checks, and runs sample requests.
 *
 * @param path a model folder or a `.onnx` file
 * @param providers execution providers, first choice first, with commas between them
 * @throws Error if there is no complete ONNX file. If the model cannot be opened, the result contains the error.
 */
export async function inspectModel(path: string, providers: string) {
  const location = await locate(path);
  checkModelFile(location.path);
  const { inputs, outputs, operators, ...file } = readOnnxFile(location.path);
  const found = {
    model: location.name,
    version: location.version,
    path: location.path,
    file,
    operators,
    inputs,
    outputs,
  };
  try {
    const { hasLengths, ...opened } = await open(location, path, providers, outputs);
    return { ...found, ...opened, error: undefined, notableOperators: notableOperators(operators, hasLengths) };
  } catch (error) {
    const notable = notableOperators(operators, true);
    return { ...found, opened: undefined, error: messageOf(error), notableOperators: notable };
  }
}

async function open(
  { path: filePath, folder }: ModelLocation,
  path: string,
  providers: string,
  offered: readonly FileValue[],
) {
  const warnings: string[] = [];
  /** Number of rows that were run alone and in a batch at start. 0 if the graph decides. */
  let probes = 0;
  const { scorer, model } = await openOffline(path, {
    maxBatchRows: SETTINGS.maxBatchRows.default,
    providers,
    checkPercent: 0,
    warn: (warning) => warnings.push(warning.replace(`${filePath}: `, '')),
    loaded: (rows) => {
      probes = rows;
    },
  });
  try {
    const samples = await sampleRequests(model, scorer.score, filePath, folder);
    const { ragged } = model;
    const computed = new Set(model.outputs.map(({ name }) => name));
    /** Outputs that config.json leaves out. */
    const leftOut = offered.map(({ name }) => name).filter((name) => !computed.has(name));
    return {
      hasLengths: symbolicAxes(model).length > 0,
      inputs: model.inputs.map((spec, index) => valueFrom(spec, ragged?.inputs[index]?.axis)),
      outputs: model.outputs.map((spec, index) => valueFrom(spec, ragged?.outputs[index])),
      opened: { ...aboutModel(model), leftOut, probes, warnings, ...samples },
    };
  } finally {
    await scorer.close();
  }
}

function aboutModel(model: ModelDescription) {
  const { ragged, inputs, constants = [], maxBatchRows, allowedSizes } = model;
  const { independence = 'unknown', sharing, evidence = '' } = model;
  const raggedInputs = inputs.filter((_, index) => ragged?.inputs[index] !== undefined).map(({ name }) => name);
  return {
    /** Verdict on the independence of rows, from the graph, and its evidence with the node that decides. */
    verdict: independence,
    sharesRuns: sharing !== 'never',
    evidence,
    maxBatchRows,
    /** Row counts that the model accepts. Empty if it accepts any. */
    allowedSizes,
    ragged: ragged ? { axis: ragged.name, inputs: raggedInputs, allowedSizes: ragged.allowedSizes } : null,
    /** Axes of any size that requests in a run must share. */
    openAxes: symbolicAxes(model).filter((axis) => axis !== ragged?.name),
    constants,
    hasTransform: takesOwnForm(model),
    takesText: model.takesText === true,
  };
}

/** Describes a tensor. The shape is empty if the model does not declare it, which occurs for some outputs. */
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

/**
 * Inspection of a model, with the members of `--json`. If the model cannot be opened, it contains the facts of the
 * file.
 */
export type Inspection = Awaited<ReturnType<typeof inspectModel>>;

/** Input or output, with the shape that the model declares. */
export interface Value extends FileValue {
  readonly batchAxis?: number;
  /** Axis along which requests may differ in size. */
  readonly raggedAxis?: number;
}

export type Opened = NonNullable<Inspection['opened']>;

/** Request as one line of JSON in both forms. */
interface Texts {
  /** File and line of the request, or a note that it is generated. */
  readonly place: string;
  readonly json: string;
  /** Undefined if the model's transform has its own form. */
  readonly binary: string | undefined;
}

/** Request that the model did not answer in each of its forms. */
export interface FailedRequest extends Pick<Texts, 'place' | 'json'> {
  readonly reason: string;
}

/** Result without its message ID. */
export type SampleResult = Readonly<Record<string, unknown>>;

/** Request that the model has answered. */
export interface Sample extends Pick<Texts, 'json' | 'binary'> {
  readonly answer: SampleResult;
}

interface Samples {
  readonly samples: readonly Sample[];
  readonly isMadeUp: boolean;
  readonly noSample?: string | undefined;
  /** First request that ran without scores. */
  readonly failed?: FailedRequest | undefined;
}

/**
 * Returns requests that the model has answered, in both forms, with the answers as text. They come from
 * `samples.jsonl`, or are generated if there is none.
 *
 * @param score scores requests of the model
 * @param path path of the model's file
 * @param folder folder of its config.json and `samples.jsonl`
 */
export async function sampleRequests(
  description: ModelDescription,
  score: ScoreBodies,
  path: string,
  folder: string,
): Promise<Samples> {
  const { name, version } = description;
  const lines = await readSampleLines(folder);
  const scoring = createRowScoring({ score, observer: {}, defaults: { model: name, version } });
  const model = notRunHere(description);
  if (lines.lines.length > 0) {
    const { samples, failed } = await answered(await realTexts(model, takesOwnForm(description), lines), scoring);
    return { samples, isMadeUp: false, failed, ...(samples.length === 0 && { noSample: failed?.reason }) };
  }
  if (description.takesText) {
    const json = ownForm(model, JSON.stringify({ text: 'One example of a text.' }), 0);
    return { ...(await answered([{ place: 'a made-up request', json, binary: undefined }], scoring)), isMadeUp: true };
  }
  if (takesOwnForm(description)) {
    return none(
      'the model has a transform, which takes requests of its own: put one into samples.jsonl beside config.json',
    );
  }
  if (withGraph(path, hasLoop)) {
    return none(
      'the model has a loop, which may never end with made-up values: put a request into samples.jsonl beside config.json',
    );
  }
  let first: FailedRequest | undefined;
  for (const rows of madeUpInputs(model, readModelConfig(folder).warmup)) {
    const texts = rows.map((inputs, index) => textsOf(model, inputs, `sample-${index + 1}`, 'a made-up request'));
    const { samples, failed } = await answered(texts, scoring);
    if (samples.length > 0) return { samples, isMadeUp: true };
    first ??= failed;
  }
  if (first === undefined) {
    return none(
      `a row has over ${MAX_ELEMENTS.one} elements, or a run over ${MAX_ELEMENTS.run}, too many to make up: put a request into samples.jsonl beside config.json`,
    );
  }
  return {
    ...none('it answers none that was made up: put a request into samples.jsonl beside config.json'),
    failed: first,
  };
}

/** Returns a model that creates requests but cannot run. The requests run in another process. */
function notRunHere({ transform: _, ...description }: ModelDescription): Model {
  return { ...description, run: () => Promise.reject(new Error('model is open in another process')) };
}

function none(noSample: string): Samples {
  return { samples: [], isMadeUp: true, noSample };
}

/** Returns the requests that have scores in both forms. */
async function answered(texts: readonly Texts[], scoring: RowScoring): Promise<Pick<Samples, 'samples' | 'failed'>> {
  const samples: Sample[] = [];
  let first: FailedRequest | undefined;
  for (const { place, json, binary } of texts) {
    const forms = binary === undefined ? [json] : [json, binary];
    const { single } = await scoring.score(requestRows([...forms.keys()], forms));
    const failed = single.flatMap((result) => result?.failures ?? [])[0];
    const text = single[0]?.text;
    if (failed === undefined && text !== undefined) {
      const { message_id: _, ...answer } = JSON.parse(text);
      samples.push({ json, binary, answer });
    } else first ??= { place, json, reason: failed?.message ?? 'no answer' };
  }
  return { samples, failed: first };
}

/**
 * Returns the lines as producers send them if the model has a transform. Otherwise it converts them to the canonical
 * form.
 */
async function realTexts(model: Model, hasOwnForm: boolean, lines: SampleLines): Promise<Texts[]> {
  const placeOf = (index: number): string => `${lines.path}:${lines.lines[index]?.number}`;
  if (hasOwnForm) {
    return lines.lines.map(({ line }, index) => {
      return { place: placeOf(index), json: ownForm(model, line, index), binary: undefined };
    });
  }
  const requests = await decodeSamples(lines, model);
  return requests.map(({ inputs, id }, index) => textsOf(model, inputs, id ?? `sample-${index + 1}`, placeOf(index)));
}

/** Adds the model's name to a request, so that every deployment accepts it. */
function ownForm({ name }: Model, line: string, index: number): string {
  const body: unknown = JSON.parse(line);
  if (!isObject(body)) return line;
  const { model_version: _, ...rest } = body;
  return printable(encodeRequest({ body: { id: `sample-${index + 1}`, ...rest, model_name: name } }, 'json'));
}

function textsOf(model: Model, inputs: readonly RequestInput[], id: string, place: string): Texts {
  const tensors = model.inputs.map((spec, index): [string, RequestInput] => {
    const { datatype, shape, data } = inputs[index] as RequestInput;
    const elements = isBase64Data(data) ? decodeAll(data, datatype, shape) : data;
    return [spec.name, moveAxis({ datatype, shape, data: elements }, 0, spec.batchAxis ?? 0)];
  });
  const request = { id, model: model.name, inputs: Object.fromEntries(tensors) } as Parameters<typeof encodeRequest>[0];
  return {
    place,
    json: printable(encodeRequest(request, 'json')),
    binary: printable(encodeRequest(request, 'binary')),
  };
}

const MANNERS: readonly Manner[] = ['unit', 'ones', 'small', 'zeros'];
/** Lengths to try. Short ones are first, because users read the requests. */
const LENGTHS = [4, 8, 32, 128, 1];
const REQUESTS = 4;
/** Maximum number of elements of a made-up request, of all of them if there are several, and of the smallest run. */
const MAX_ELEMENTS = { one: 1_310_720, all: 262_144, run: 16_777_216 };
const DIGITS = 3;

/** Yields the inputs of a few generated requests with one row each. The likeliest values come first. */
function* madeUpInputs(model: Model, warmUp: ModelConfig['warmup']): Generator<readonly (readonly RequestInput[])[]> {
  const given = typeof warmUp === 'object' ? warmUp : {};
  const ragged = model.ragged?.name;
  const sizes = Object.fromEntries(Object.entries(given).filter(([axis]) => axis !== ragged));
  const isOpen = symbolicAxes(model).some((axis) => sizes[axis] === undefined);
  const max = model.ragged?.allowedSizes.at(-1) ?? Number.POSITIVE_INFINITY;
  const lengths = isOpen ? LENGTHS.filter((length) => length <= max) : [1];
  const [smallestRun = 1] = model.allowedSizes;
  const past = emptyPast(model);
  const choices: AxisSizes[] = past === undefined ? [sizes] : [sizes, { ...past, ...sizes }];
  for (const manner of MANNERS) {
    for (const length of lengths) {
      for (const choice of choices) {
        const shapes = rowShapes(model, choice, length);
        const elements = shapes.reduce((sum, shape) => sum + elementCount(shape), 0);
        if (elements > MAX_ELEMENTS.one || elements * smallestRun > MAX_ELEMENTS.run) continue;
        const count = Math.max(1, Math.min(REQUESTS, Math.floor(MAX_ELEMENTS.all / elements)));
        const rows = makeUp(model, shapes, Array<Manner>(count).fill(manner));
        yield rows.map(({ request }) => request.inputs.map(rounded));
      }
    }
  }
}

function rounded(input: RequestInput): RequestInput {
  const { datatype, data } = input;
  if (DATATYPES[datatype].kind !== 'float') return input;
  const floats = data as Float32Array;
  return { ...input, data: floats.map((value) => Number(value.toPrecision(DIGITS))) };
}
