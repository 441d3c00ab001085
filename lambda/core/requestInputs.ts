import { type Failure, failure, isFailure, plural, preview } from './failure.ts';
import { isObject, type JsonObject } from './json.ts';
import type { RequestInput } from './microBatch.ts';
import { listNames, type Model, type TensorSpec } from './model.ts';
import {
  allocateFromSlab,
  DATATYPE_NAMES,
  decodeAll,
  elementCount,
  isBase64Data,
  isDatatype,
  keepsOrder,
  moveAxis,
  moveDim,
} from './tensor.ts';
import { decodeData, decodeRaw, fieldOf, pathWithin, replacementOf } from './values.ts';
import { nearestName } from './wrongValue.ts';

const INPUT_KEYS = ['name', 'datatype', 'shape', 'data', 'parameters'];

/** Parts of a model that its inputs are checked against. */
type InputsOf = Pick<Model, 'name' | 'inputs'> & Partial<Pick<Model, 'constants' | 'ragged'>>;

/**
 * Decodes one input per model input, in the model's order, all with the same number of rows.
 *
 * @param path place of the request
 * @param raw the request's `raw_input_contents`, or undefined if the inputs have `data`
 */
export function decodeInputs(
  value: unknown,
  path: string,
  model: InputsOf,
  raw: unknown,
  limits: DecodeLimits,
): RequestInput[] | Failure {
  if (!Array.isArray(value)) {
    const wrong = `expected an array with ${listNames(model.inputs)}, got ${preview(value)}; add it`;
    return failure('INVALID_REQUEST', `${fieldOf(path, 'inputs')}: ${wrong}`);
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

/** Returns the index of each model input in `inputs`. */
function matchInputs(
  entries: readonly unknown[],
  path: string,
  model: InputsOf,
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
      const wrong = `expected an input object, got ${preview(input)}; ${SEE_FORMAT}`;
      return failure('INVALID_REQUEST', `${inputPath(path, index)}: ${wrong}`);
    }
    const position = model.inputs.findIndex((spec) => spec.name === input.name);
    const refused =
      refuseUnknownKeys(input, INPUT_KEYS, () => inputPath(path, index)) ??
      refuseInputName(input.name, position, path, index, model, indexes[position]);
    if (refused !== undefined) return refused;
    if (raw !== undefined && 'data' in input) {
      const contents = fieldOf(path, 'raw_input_contents');
      const wrong = `expected none beside ${contents}; send the elements in one of the two`;
      return failure('INVALID_REQUEST', `${inputPath(path, index)}.data: ${wrong}`);
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
  const wrong = `expected an array of ${inputs} base64 strings, one per input, got ${got}; send one for each`;
  return failure('INVALID_REQUEST', `${fieldOf(path, 'raw_input_contents')}: ${wrong}`);
}

function refuseInputName(
  name: unknown,
  position: number,
  path: string,
  index: number,
  model: InputsOf,
  seenAt: number | undefined,
): Failure | undefined {
  if (typeof name !== 'string') {
    const wrong = `expected a string, got ${preview(name)}; ${SEE_FORMAT}`;
    return failure('INVALID_REQUEST', `${inputPath(path, index)}.name: ${wrong}`);
  }
  if (seenAt !== undefined) {
    const wrong = `expected each input once, got ${preview(name)} again; send it once`;
    return failure('DUPLICATE_INPUT', `${inputPath(path, index)}.name: ${wrong}`);
  }
  if (position >= 0) return undefined;
  return unknownInput(`${inputPath(path, index)}.name`, name, model);
}

function missingInputs(missing: readonly TensorSpec[], path: string, model: InputsOf): Failure {
  return failure(
    'MISSING_INPUT',
    `${fieldOf(path, 'inputs')}: expected ${listNames(model.inputs)} of model '${model.name}', got no ${listNames(missing)}; add what is missing`,
  );
}

interface InputPlace {
  readonly path: string;
  readonly index: number;
  /** The request's `raw_input_contents`, checked to be an array with an entry for each input, or undefined. */
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
      `${inputPath(path, index)}.datatype ('${spec.name}'): expected "${datatype}", got ${preview(input.datatype)}${known}; send the model's datatype, because nothing is converted`,
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

/**
 * Decodes the short form: an array of instances, one per row. An instance is a nested array (or a scalar) for a model
 * with one input, or an object by input name. It has the input's axes without the batch axis.
 *
 * @see https://www.tensorflow.org/tfx/serving/api_rest#request_format_2 the row format
 */
export function decodeInstances(value: unknown, path: string, model: InputsOf): RequestInput[] | Failure {
  if (!Array.isArray(value) || value.length === 0) {
    const [got, cure] = Array.isArray(value)
      ? ['an empty one', 'send one for each row']
      : [preview(value), 'wrap it in an array'];
    return failure('INVALID_REQUEST', `${path}: expected an array of at least one instance, got ${got}; ${cure}`);
  }
  const byName = isObject(value[0]);
  if (!byName && model.inputs.length > 1) {
    return failure(
      'MISSING_INPUT',
      `${path}[0]: expected an object with ${listNames(model.inputs)} of model '${model.name}', got ${preview(value[0])}; name the inputs`,
    );
  }
  if (byName) {
    const refused = refuseOddInstances(value, path, model);
    if (refused !== undefined) return refused;
  }
  const sizes = noSharedSizes(model);
  const inputs: RequestInput[] = [];
  for (const spec of model.inputs) {
    const rows = byName ? value.map((instance: JsonObject) => instance[spec.name]) : value;
    const input = decodeColumn(rows, spec, sizes, instancePath(path, byName ? spec.name : undefined));
    if (isFailure(input)) return input;
    inputs.push(input);
  }
  return inputs;
}

function refuseOddInstances(instances: readonly unknown[], path: string, model: InputsOf): Failure | undefined {
  for (const [index, instance] of instances.entries()) {
    const at = `${path}[${index}]`;
    if (!isObject(instance)) {
      const wrong = `expected an object by input name like the others, got ${preview(instance)}; make them alike`;
      return failure('INVALID_REQUEST', `${at}: ${wrong}`);
    }
    for (const name in instance) {
      if (model.inputs.some((spec) => spec.name === name)) continue;
      return unknownInput(at, name, model);
    }
    const missing = model.inputs.filter((spec) => !Object.hasOwn(instance, spec.name));
    if (missing.length > 0) {
      const wrong = `expected ${listNames(model.inputs)}, got no ${listNames(missing)}; add what is missing`;
      return failure('MISSING_INPUT', `${at}: ${wrong}`);
    }
  }
  return undefined;
}

/** Formats `instances[3][5]`, or `instances[3].image[5]` if instances are objects. */
function instancePath(path: string, name: string | undefined): (position: readonly number[]) => string {
  return ([row, ...rest]) => {
    const steps = rest.map((index) => `[${index}]`).join('');
    const within = name === undefined ? '' : `.${name}`;
    return row === undefined ? path : `${path}[${row}]${within}${steps}`;
  };
}

/** Returns the sizes of an instance. After an empty array they are the model's, or 0 if the model leaves them open. */
function sizesOf(instance: unknown, { shape }: TensorSpec): number[] {
  const sizes = nestingOf(instance, shape.length - 1);
  if (sizes.at(-1) !== 0) return sizes;
  return [...sizes, ...shape.slice(1 + sizes.length).map((dim) => (typeof dim === 'number' ? dim : 0))];
}

/** Decodes the values of one input in all instances as one tensor. The first instance determines the shape. */
function decodeColumn(
  rows: readonly unknown[],
  spec: TensorSpec,
  sizes: SharedSizes,
  pathOf: (position: readonly number[]) => string,
): RequestInput | Failure {
  const [first] = rows;
  if (!Array.isArray(first) && spec.shape.length > 1 && first !== undefined) {
    const wrong = `expected an array of the shape [${spec.shape.slice(1).join(', ')}], got ${preview(first)}`;
    const cure =
      spec.shape.length === 2 && spec.shape[1] === 1
        ? `write [${replacementOf(first, spec.datatype)}]`
        : 'send that shape';
    return failure('INVALID_SHAPE', `${pathOf([0])} ('${spec.name}'): ${wrong}; ${cure}`);
  }
  const nesting = [rows.length, ...sizesOf(first, spec)];
  const shape = decodeShape(nesting, () => pathOf([0]), spec, sizes, 0);
  if (isFailure(shape)) return shape;
  const data = decodeData(rows, spec.datatype, shape, pathOf, allocateFromSlab);
  return isFailure(data) ? data : { datatype: spec.datatype, shape, data };
}

function unknownInput(path: string, name: string, model: InputsOf): Failure {
  const isConstant = model.constants?.includes(name) ?? false;
  const got = isConstant ? `${preview(name)}, a constant of the deployment` : preview(name);
  const cure = isConstant ? 'leave it out' : "use the model's names";
  const wrong = `expected ${listNames(model.inputs)} of model '${model.name}', got ${got}; ${cure}`;
  return failure('UNKNOWN_INPUT', `${path}: ${wrong}`);
}

/**
 * Sizes that the inputs of a request must agree on: the rows, and the length of the ragged axis. Other symbolic axes
 * may differ: exporters give one name to different axes, and ONNX Runtime accepts them.
 */
interface SharedSizes {
  rows: number | undefined;
  length: number | undefined;
  readonly ragged: string | undefined;
}

function noSharedSizes({ ragged }: InputsOf): SharedSizes {
  return { rows: undefined, length: undefined, ragged: ragged?.name };
}

/**
 * Maximum number of elements of an empty tensor if its axes of size 0 had size 1. The request does not bound its other
 * sizes, and padding makes them real.
 */
const MAX_BESIDE_NOTHING = 1_048_576;

/**
 * Decodes a `shape` and checks it against the model's: at least one row, and other axes of size 0 only if the model
 * leaves them open.
 *
 * @param known receives the new sizes
 * @param batchAxis axis of the rows in `value`
 */
function decodeShape(
  value: unknown,
  pathOf: () => string,
  spec: TensorSpec,
  known: SharedSizes,
  batchAxis: number,
): number[] | Failure {
  const refuse = (detail = ''): Failure => refuseShape(value, pathOf, spec, batchAxis, detail);
  if (!Array.isArray(value) || value.length !== spec.shape.length) return refuse();
  const shape: number[] = [];
  for (let axis = 0; axis < value.length; axis++) {
    const dim: unknown = value[axis];
    if (!isSize(dim, axis === batchAxis ? 1 : 0)) return refuse(', whole numbers, rows at least 1');
    if (axis === batchAxis) {
      known.rows ??= dim;
      if (dim !== known.rows) return refuse(elsewhere('rows', known.rows));
    } else {
      const wanted = spec.shape[axis < batchAxis ? axis + 1 : axis];
      if (typeof wanted === 'number') {
        if (dim !== wanted) return refuse();
      } else if (wanted === known.ragged) {
        known.length ??= dim;
        if (dim !== known.length) return refuse(elsewhere(wanted as string, known.length));
      }
    }
    shape.push(dim);
  }
  if (shape.includes(0) && elementCount(shape.map((dim) => dim || 1)) > MAX_BESIDE_NOTHING) {
    return refuse(`, at most ${MAX_BESIDE_NOTHING} elements beside an axis of size 0`);
  }
  return shape;
}

function elsewhere(name: string, size: number): string {
  return `, where '${name}' is ${size} in this request's other inputs`;
}

function refuseShape(
  value: unknown,
  pathOf: () => string,
  { name, shape }: TensorSpec,
  batchAxis: number,
  detail: string,
): Failure {
  const expected = moveDim(['rows', ...shape.slice(1)], 0, batchAxis).join(', ');
  const wrong = `expected [${expected}]${detail}, got ${previewShape(value)}; send that shape`;
  return failure('INVALID_SHAPE', `${pathOf()} ('${name}'): ${wrong}`);
}

function isSize(value: unknown, min: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= min;
}

const MAX_DIMS_SHOWN = 16;

function previewShape(value: unknown): string {
  if (!Array.isArray(value)) return preview(value);
  return `[${value.slice(0, MAX_DIMS_SHOWN).map(preview).join(', ')}${value.length > MAX_DIMS_SHOWN ? ', …' : ''}]`;
}

/** Returns the lengths of the first arrays, outermost first, at most `depth` deep. */
export function nestingOf(value: unknown, depth: number): number[] {
  const lengths: number[] = [];
  for (let inner = value; Array.isArray(inner) && lengths.length < depth; inner = inner[0]) lengths.push(inner.length);
  return lengths;
}

/**
 * Moves the rows of an input first.
 *
 * @param input as it was sent, with its rows on `batchAxis`
 */
export function rowsFirst(input: RequestInput, batchAxis = 0): RequestInput {
  if (batchAxis === 0) return input;
  const { datatype, shape, data } = input;
  if (keepsOrder(shape, batchAxis, 0)) return { datatype, shape: moveDim(shape, batchAxis, 0), data };
  const elements = isBase64Data(data) ? decodeAll(data, datatype, shape) : data;
  return moveAxis({ datatype, shape, data: elements }, batchAxis, 0, allocateFromSlab);
}

export interface DecodeLimits {
  readonly maxRequestRows: number;
  readonly maxRequestsPerMessage: number;
}

export function tooManyRows(rows: number, path: string, { maxRequestRows }: DecodeLimits): Failure {
  const wrong = `expected at most ${plural(maxRequestRows, 'row')} in a request, got ${rows}; send several requests`;
  return failure('TOO_MANY_ROWS', `${fieldOf(path, 'inputs')}: ${wrong}`);
}

export function tooManyRequests(requests: number, path: string, { maxRequestsPerMessage }: DecodeLimits): Failure {
  return failure(
    'TOO_MANY_REQUESTS',
    `${path}: expected at most ${plural(maxRequestsPerMessage, 'request')} in a packed message, got ${requests}; ` +
      'send several messages',
  );
}

export const SEE_FORMAT = 'see docs/message-format.md of batchscore';

/**
 * Returns a failure that names the first unknown key of `object`, if there is one.
 *
 * @param keysOf describes the known keys, if the object may have several forms
 */
export function refuseUnknownKeys(
  object: JsonObject,
  known: readonly string[],
  pathOf: () => string,
  keysOf = () => known.join(', '),
): Failure | undefined {
  for (const key in object) {
    if (known.includes(key)) continue;
    const nearest = nearestName(key, known);
    const cure = nearest === undefined ? 'fix its name or remove it' : `did you mean ${nearest}?`;
    return failure('INVALID_REQUEST', `${pathOf()}: expected only the keys ${keysOf()}, got ${preview(key)}; ${cure}`);
  }
  return undefined;
}
