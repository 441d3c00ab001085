import { isObject, type JsonObject } from '../base/json.ts';
import { type Failure, failure, isFailure, preview } from '../contract/failure.ts';
import { listNames, type Model, type TensorSpec } from '../contract/model.ts';
import type { RequestInput } from '../contract/request.ts';
import { allocateFromSlab, DATATYPE_NAMES, isDatatype } from '../tensor/datatype.ts';
import { decodeData } from './decodeData.ts';
import { decodeRaw } from './decodeRaw.ts';
import { decodeShape, noSharedSizes, type SharedSizes } from './decodeShape.ts';
import { fieldOf, pathWithin } from './fieldPath.ts';
import { type DecodeLimits, tooManyRows } from './limits.ts';
import { rowsFirst } from './rowsFirst.ts';
import { unknownInput } from './unknownInput.ts';
import { refuseUnknownKeys, SEE_FORMAT } from './unknownKeys.ts';

const INPUT_KEYS = ['name', 'datatype', 'shape', 'data', 'parameters'];

/**
 * One input per model input, in the model's order, all with the same number of rows.
 *
 * @param at where the request stands
 * @param raw the request's `raw_input_contents`; undefined when the inputs carry `data`
 */
export function decodeInputs(
  value: unknown,
  path: string,
  model: Model,
  raw: unknown,
  limits: DecodeLimits,
): RequestInput[] | Failure {
  if (!Array.isArray(value)) {
    return failure(
      'INVALID_REQUEST',
      `${fieldOf(path, 'inputs')}: expected an array with ${listNames(model.inputs)}, got ${preview(value)}; add it`,
    );
  }
  const indexes = matchInputs(value, path, model, raw);
  if (isFailure(indexes)) return indexes;
  const sizes = noSharedSizes(model);
  const inputs: RequestInput[] = [];
  for (const [position, spec] of model.inputs.entries()) {
    const index = indexes[position] as number;
    const input = decodeInput(value[index], { path, index, raw }, spec, sizes, limits);
    if (isFailure(input)) return input;
    inputs.push(input);
  }
  return inputs;
}

/** By model input: the index of its entry in `inputs`. */
function matchInputs(
  entries: readonly unknown[],
  path: string,
  model: Model,
  raw: unknown,
): readonly number[] | Failure {
  if (raw !== undefined) {
    const refused = refuseRawList(raw, entries.length, path);
    if (refused !== undefined) return refused;
  }
  const indexes: number[] = [];
  for (let index = 0; index < entries.length; index++) {
    const input = entries[index];
    if (!isObject(input)) {
      return failure(
        'INVALID_REQUEST',
        `${inputPath(path, index)}: expected an input object, got ${preview(input)}; ${SEE_FORMAT}`,
      );
    }
    const position = model.inputs.findIndex((spec) => spec.name === input.name);
    const refused =
      refuseUnknownKeys(input, INPUT_KEYS, () => inputPath(path, index)) ??
      refuseInputName(input.name, position, path, index, model, indexes[position]);
    if (refused !== undefined) return refused;
    if (raw !== undefined && 'data' in input) {
      const contents = fieldOf(path, 'raw_input_contents');
      return failure(
        'INVALID_REQUEST',
        `${inputPath(path, index)}.data: expected none beside ${contents}; send the elements in one of the two`,
      );
    }
    indexes[position] = index;
  }
  const missing = model.inputs.filter((_, position) => indexes[position] === undefined);
  return missing.length === 0 ? indexes : missingInputs(missing, path, model);
}

function inputPath(path: string, index: number): string {
  return `${fieldOf(path, 'inputs')}[${index}]`;
}

function refuseRawList(raw: unknown, inputs: number, path: string): Failure | undefined {
  if (Array.isArray(raw) && raw.length === inputs) return undefined;
  const got = Array.isArray(raw) ? raw.length : preview(raw);
  return failure(
    'INVALID_REQUEST',
    `${fieldOf(path, 'raw_input_contents')}: expected an array of ${inputs} base64 strings, one per input, got ${got}; send one for each`,
  );
}

function refuseInputName(
  name: unknown,
  position: number,
  path: string,
  index: number,
  model: Model,
  seenAt: number | undefined,
): Failure | undefined {
  if (typeof name !== 'string') {
    return failure(
      'INVALID_REQUEST',
      `${inputPath(path, index)}.name: expected a string, got ${preview(name)}; ${SEE_FORMAT}`,
    );
  }
  if (seenAt !== undefined) {
    return failure(
      'DUPLICATE_INPUT',
      `${inputPath(path, index)}.name: expected each input once, got ${preview(name)} again; send it once`,
    );
  }
  if (position >= 0) return undefined;
  return unknownInput(`${inputPath(path, index)}.name`, name, model);
}

function missingInputs(missing: readonly TensorSpec[], path: string, model: Model): Failure {
  return failure(
    'MISSING_INPUT',
    `${fieldOf(path, 'inputs')}: expected ${listNames(model.inputs)} of model '${model.name}', got no ${listNames(missing)}; add what is missing`,
  );
}

/** Where an input stands in its request. */
interface InputPlace {
  readonly path: string;
  readonly index: number;
  /** The request's `raw_input_contents`, proved to be an array with an entry for each input, or undefined. */
  readonly raw: unknown;
}

function decodeInput(
  input: JsonObject,
  { path, index, raw }: InputPlace,
  spec: TensorSpec,
  sizes: SharedSizes,
  limits: DecodeLimits,
): RequestInput | Failure {
  const { datatype, batchAxis = 0 } = spec;
  if (input.datatype !== datatype) {
    const known = isDatatype(input.datatype) ? '' : `, which is none of ${DATATYPE_NAMES.join(', ')}`;
    return failure(
      'INVALID_DATATYPE',
      `${inputPath(path, index)}.datatype ('${spec.name}'): expected "${datatype}", got ${preview(input.datatype)}${known}; nothing is converted, send the model's own`,
    );
  }
  const shape = decodeShape(input.shape, () => `${inputPath(path, index)}.shape`, spec, sizes, batchAxis);
  if (isFailure(shape)) return shape;
  const rows = shape[batchAxis] as number;
  if (rows > limits.maxRequestRows) return tooManyRows(rows, path, limits);
  const data = Array.isArray(raw)
    ? decodeRaw(raw[index], datatype, shape, () => `${fieldOf(path, 'raw_input_contents')}[${index}]`)
    : decodeData(
        input.data,
        datatype,
        shape,
        (position) => pathWithin(`${inputPath(path, index)}.data`)(position),
        allocateFromSlab,
      );
  return isFailure(data) ? data : rowsFirst({ datatype, shape, data }, batchAxis);
}
