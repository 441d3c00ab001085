import { allocateFromSlab, DATATYPE_NAMES, isDatatype } from './datatype.ts';
import { decodeData } from './decodeData.ts';
import { type AxisSizes, decodeShape } from './decodeShape.ts';
import { type Failure, failure, isFailure, preview } from './failure.ts';
import { isObject, type JsonObject, refuseUnknownKeys, SEE_FORMAT } from './json.ts';
import { listNames, type Model, type TensorSpec } from './model.ts';
import { decodeRaw } from './rawData.ts';
import type { RequestInput } from './request.ts';

const INPUT_KEYS = ['name', 'datatype', 'shape', 'data', 'parameters'];

/** A field of a request and where it stands, for messages. */
export interface Field {
  readonly value: unknown;
  readonly path: string;
}

/**
 * One input per model input, in the model's order, all with the same number of rows.
 *
 * @param raw the request's `raw_input_contents`; undefined when the inputs carry `data`
 */
export function decodeInputs(
  value: unknown,
  path: string,
  model: Model,
  raw: Field | undefined,
): RequestInput[] | Failure {
  if (!Array.isArray(value)) {
    return failure(
      'INVALID_REQUEST',
      `${path}: expected an array with ${listNames(model.inputs)}, got ${preview(value)}; add it`,
    );
  }
  const byName = matchInputs(value, path, model, raw);
  if (isFailure(byName)) return byName;

  const sizes: AxisSizes = new Map();
  const inputs: RequestInput[] = [];
  for (const spec of model.inputs) {
    const found = byName.get(spec.name);
    if (found === undefined) return missingInputs(byName, path, model);
    const input = decodeInput(found, spec, sizes);
    if (isFailure(input)) return input;
    inputs.push(input);
  }
  return inputs;
}

/** One entry of `inputs`, and the field that holds its elements. */
interface FoundInput {
  readonly input: JsonObject;
  readonly path: string;
  readonly contents: Field & { readonly raw: boolean };
}

function matchInputs(
  entries: readonly unknown[],
  path: string,
  model: Model,
  raw: Field | undefined,
): Map<string, FoundInput> | Failure {
  const contents = raw === undefined ? undefined : decodeRawList(raw, entries.length);
  if (isFailure(contents)) return contents;
  const byName = new Map<string, FoundInput>();
  for (const [index, input] of entries.entries()) {
    const at = `${path}[${index}]`;
    if (!isObject(input))
      return failure('INVALID_REQUEST', `${at}: expected an input object, got ${preview(input)}; ${SEE_FORMAT}`);
    const refused = refuseUnknownKeys(input, INPUT_KEYS, at) ?? refuseInputName(input.name, at, model, byName);
    if (refused !== undefined) return refused;
    if (raw !== undefined && 'data' in input) {
      return failure(
        'INVALID_REQUEST',
        `${at}.data: expected none beside ${raw.path}; send the elements in one of the two`,
      );
    }
    const field =
      contents === undefined
        ? { value: input.data, path: `${at}.data`, raw: false }
        : { value: contents[index], path: `${raw?.path}[${index}]`, raw: true };
    byName.set(String(input.name), { input, path: at, contents: field });
  }
  return byName;
}

function decodeRawList(raw: Field, inputs: number): readonly unknown[] | Failure {
  if (Array.isArray(raw.value) && raw.value.length === inputs) return raw.value;
  const got = Array.isArray(raw.value) ? raw.value.length : preview(raw.value);
  return failure(
    'INVALID_REQUEST',
    `${raw.path}: expected an array of ${inputs} base64 strings, one per input, got ${got}`,
  );
}

function refuseInputName(
  name: unknown,
  at: string,
  model: Model,
  seen: ReadonlyMap<string, unknown>,
): Failure | undefined {
  if (typeof name !== 'string') {
    return failure('INVALID_REQUEST', `${at}.name: expected a string, got ${preview(name)}; ${SEE_FORMAT}`);
  }
  if (seen.has(name)) {
    return failure('DUPLICATE_INPUT', `${at}.name: expected each input once, got ${preview(name)} again; send it once`);
  }
  if (model.inputs.some((spec) => spec.name === name)) return undefined;
  return failure(
    'UNKNOWN_INPUT',
    `${at}.name: expected ${listNames(model.inputs)} of model '${model.name}', got ${preview(name)}; use the model's names`,
  );
}

function missingInputs(found: ReadonlyMap<string, unknown>, path: string, model: Model): Failure {
  const missing = model.inputs.filter((spec) => !found.has(spec.name));
  return failure(
    'MISSING_INPUT',
    `${path}: expected ${listNames(model.inputs)} of model '${model.name}', got no ${listNames(missing)}; add what is missing`,
  );
}

function decodeInput(
  { input, path, contents }: FoundInput,
  spec: TensorSpec,
  sizes: AxisSizes,
): RequestInput | Failure {
  const { datatype } = spec;
  if (input.datatype !== datatype) {
    const known = isDatatype(input.datatype) ? '' : `, which is none of ${DATATYPE_NAMES.join(', ')}`;
    return failure(
      'INVALID_DATATYPE',
      `${path}.datatype ('${spec.name}'): expected "${datatype}", got ${preview(input.datatype)}${known}; nothing is converted, send the model's own`,
    );
  }
  const shape = decodeShape(input.shape, `${path}.shape`, spec, sizes);
  if (isFailure(shape)) return shape;
  const data = contents.raw
    ? decodeRaw(contents.value, datatype, shape, contents.path)
    : decodeData(contents.value, datatype, shape, contents.path, allocateFromSlab);
  return isFailure(data) ? data : { datatype, shape, data };
}
