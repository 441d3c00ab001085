import { DATATYPE_NAMES, isDatatype } from './datatype.ts';
import { decodeData } from './decodeData.ts';
import { type Failure, failure, isFailure, preview } from './failure.ts';
import type { Model, ModelRepository, TensorSpec } from './model.ts';
import type { DecodedBody, RefusedRequest, RequestInput, ScoringRequest } from './request.ts';

export interface DecodeLimits {
  /** Most rows that one request may hold. */
  readonly maxRequestRows: number;
}

const REQUEST_KEYS = ['id', 'model_name', 'model_version', 'inputs', 'outputs', 'parameters'];
const INPUT_KEYS = ['name', 'datatype', 'shape', 'data', 'parameters'];
const OUTPUT_KEYS = ['name', 'parameters'];
const MAX_ID_CHARACTERS = 1024;

type JsonObject = Readonly<Record<string, unknown>>;

/**
 * A record's body, decoded and proved valid. What is wrong with a request is in the answer, never thrown.
 *
 * @see docs/message-format.md
 */
export async function decodeBody(body: string, models: ModelRepository, limits: DecodeLimits): Promise<DecodedBody> {
  const parsed = parseJson(body);
  if (isFailure(parsed)) return { packed: false, requests: [{ id: undefined, failure: parsed }] };
  if (!Array.isArray(parsed.value)) {
    return { packed: false, requests: [await decodeRequest(parsed.value, WHOLE_BODY, models, limits)] };
  }
  if (parsed.value.length === 0) {
    const empty = failure('INVALID_REQUEST', 'expected at least one request in a packed message, got an empty array');
    return { packed: false, requests: [{ id: undefined, failure: empty }] };
  }
  const requests: (ScoringRequest | RefusedRequest)[] = [];
  for (const [index, value] of parsed.value.entries()) {
    requests.push(await decodeRequest(value, `[${index}]`, models, limits));
  }
  return { packed: true, requests };
}

function parseJson(body: string): { readonly value: unknown } | Failure {
  try {
    return { value: JSON.parse(body) };
  } catch (error) {
    const position = error instanceof SyntaxError ? /at position \d+/.exec(error.message)?.[0] : undefined;
    return failure(
      'INVALID_JSON',
      `expected the body to be one JSON request, got ${body.length} characters that are not JSON` +
        `${position === undefined ? '' : ` (${position})`}; NaN and Infinity are written as strings`,
    );
  }
}

const WHOLE_BODY = 'body';

/** The path of a request's field in messages: `inputs`, or `[3].inputs` inside a packed message. */
function fieldOf(at: string, field: string): string {
  return at === WHOLE_BODY ? field : `${at}.${field}`;
}

/** @param at where the request stands: `body`, or `[3]` inside a packed message */
async function decodeRequest(
  value: unknown,
  at: string,
  models: ModelRepository,
  limits: DecodeLimits,
): Promise<ScoringRequest | RefusedRequest> {
  if (!isObject(value)) {
    const got = preview(value);
    return {
      id: undefined,
      failure: failure('INVALID_REQUEST', `${at}: expected a request object with inputs, got ${got}`),
    };
  }
  const id = decodeId(value.id, fieldOf(at, 'id'));
  if (isFailure(id)) return { id: undefined, failure: id };
  const refuse = (failed: Failure): RefusedRequest => ({ id: id.value, failure: failed });

  const unknownKey = findUnknownKey(value, REQUEST_KEYS);
  if (unknownKey !== undefined) {
    return refuse(failure('INVALID_REQUEST', unknownKeyMessage(at, unknownKey, REQUEST_KEYS)));
  }
  const named = decodeModelName(value, at);
  if (isFailure(named)) return refuse(named);
  const model = await models.find(named.name, named.version);
  if (isFailure(model)) return refuse(model);

  const inputs = decodeInputs(value.inputs, fieldOf(at, 'inputs'), model);
  if (isFailure(inputs)) return refuse(inputs);
  const outputs = decodeOutputs(value.outputs, fieldOf(at, 'outputs'), model);
  if (isFailure(outputs)) return refuse(outputs);

  const rows = inputs[0]?.shape[0] ?? 0;
  if (rows > limits.maxRequestRows) {
    return refuse(
      failure(
        'TOO_MANY_ROWS',
        `${fieldOf(at, 'inputs')}: expected at most ${limits.maxRequestRows} rows in a request, got ${rows}; send several requests`,
      ),
    );
  }
  return { id: id.value, model, rows, inputs, outputs };
}

function decodeId(id: unknown, path: string): { readonly value: string | undefined } | Failure {
  if (id === undefined) return { value: undefined };
  if (typeof id !== 'string' || id.length > MAX_ID_CHARACTERS) {
    const got = typeof id === 'string' ? `${id.length} characters` : preview(id);
    return failure(
      'INVALID_REQUEST',
      `${path}: expected a string of at most ${MAX_ID_CHARACTERS} characters, got ${got}`,
    );
  }
  return { value: id };
}

function decodeModelName(
  request: JsonObject,
  at: string,
): { readonly name: string | undefined; readonly version: string | undefined } | Failure {
  const { model_name: name, model_version: version } = request;
  if (name !== undefined && typeof name !== 'string') {
    return failure('INVALID_REQUEST', `${fieldOf(at, 'model_name')}: expected a string, got ${preview(name)}`);
  }
  if (version !== undefined && typeof version !== 'string') {
    return failure(
      'INVALID_REQUEST',
      `${fieldOf(at, 'model_version')}: expected a string such as "1", got ${preview(version)}`,
    );
  }
  return { name, version };
}

/** One input per model input, in the model's order, all with the same number of rows. */
function decodeInputs(value: unknown, path: string, model: Model): RequestInput[] | Failure {
  if (!Array.isArray(value)) {
    return failure(
      'INVALID_REQUEST',
      `${path}: expected an array with ${listNames(model.inputs)}, got ${preview(value)}`,
    );
  }
  const byName = matchInputs(value, path, model);
  if (isFailure(byName)) return byName;

  const sizes = new Map<string, number>();
  const inputs: RequestInput[] = [];
  for (const spec of model.inputs) {
    const found = byName.get(spec.name);
    if (found === undefined) return missingInputs(byName, path, model);
    const input = decodeInput(found.value, found.path, spec, sizes);
    if (isFailure(input)) return input;
    inputs.push(input);
  }
  return inputs;
}

type FoundInput = { readonly value: JsonObject; readonly path: string };

function matchInputs(entries: readonly unknown[], path: string, model: Model): Map<string, FoundInput> | Failure {
  const byName = new Map<string, FoundInput>();
  for (const [index, entry] of entries.entries()) {
    const at = `${path}[${index}]`;
    if (!isObject(entry)) return failure('INVALID_REQUEST', `${at}: expected an input object, got ${preview(entry)}`);
    const unknownKey = findUnknownKey(entry, INPUT_KEYS);
    if (unknownKey !== undefined) {
      return failure('INVALID_REQUEST', unknownKeyMessage(at, unknownKey, INPUT_KEYS));
    }
    const { name } = entry;
    if (typeof name !== 'string') {
      return failure('INVALID_REQUEST', `${at}.name: expected a string, got ${preview(name)}`);
    }
    if (!model.inputs.some((spec) => spec.name === name)) {
      return failure(
        'UNKNOWN_INPUT',
        `${at}.name: expected ${listNames(model.inputs)} of model '${model.name}', got ${preview(name)}`,
      );
    }
    if (byName.has(name)) {
      return failure(
        'DUPLICATE_INPUT',
        `${at}.name: expected each input once, got ${preview(name)} again; send it once`,
      );
    }
    byName.set(name, { value: entry, path: at });
  }
  return byName;
}

function missingInputs(found: ReadonlyMap<string, unknown>, path: string, model: Model): Failure {
  const missing = model.inputs.filter((spec) => !found.has(spec.name));
  return failure(
    'MISSING_INPUT',
    `${path}: expected ${listNames(model.inputs)} of model '${model.name}', got no ${listNames(missing)}; add what is missing`,
  );
}

/** @param sizes the sizes that symbolic axes have taken in this request so far; added to */
function decodeInput(
  input: JsonObject,
  path: string,
  spec: TensorSpec,
  sizes: Map<string, number>,
): RequestInput | Failure {
  if (input.datatype !== spec.datatype) {
    const known = isDatatype(input.datatype) ? '' : `, which is none of ${DATATYPE_NAMES.join(', ')}`;
    return failure(
      'INVALID_DATATYPE',
      `${path}.datatype ('${spec.name}'): expected "${spec.datatype}", got ${preview(input.datatype)}${known}`,
    );
  }
  const shape = decodeShape(input.shape, `${path}.shape`, spec, sizes);
  if (isFailure(shape)) return shape;
  const data = decodeData(input.data, spec.datatype, shape, `${path}.data`);
  if (isFailure(data)) return data;
  return { datatype: spec.datatype, shape, data };
}

/** Stands for axis 0 among the symbolic axes, whatever the model calls it. */
const BATCH_AXIS = '';

function decodeShape(
  value: unknown,
  path: string,
  spec: TensorSpec,
  sizes: Map<string, number>,
): readonly number[] | Failure {
  const refuse = (detail = ''): Failure => {
    const expected = ['rows', ...spec.shape.slice(1)].join(', ');
    return failure(
      'INVALID_SHAPE',
      `${path} ('${spec.name}'): expected [${expected}]${detail}, got ${previewShape(value)}`,
    );
  };
  if (!Array.isArray(value) || value.length !== spec.shape.length) return refuse();

  const shape: number[] = [];
  for (let axis = 0; axis < value.length; axis++) {
    const dim: unknown = value[axis];
    if (!isPositiveInteger(dim)) return refuse(', every dim a whole number of at least 1');
    const wanted = axis === 0 ? BATCH_AXIS : spec.shape[axis];
    if (typeof wanted === 'number' && dim !== wanted) return refuse();
    if (typeof wanted === 'string') {
      const size = sizes.get(wanted) ?? dim;
      if (dim !== size) return refuse(`, where '${wanted || 'rows'}' is ${size} in this request's other inputs`);
      sizes.set(wanted, size);
    }
    shape.push(dim);
  }
  return shape;
}

function isPositiveInteger(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1;
}

const MAX_DIMS_SHOWN = 16;

function previewShape(value: unknown): string {
  if (!Array.isArray(value)) return preview(value);
  return `[${value.slice(0, MAX_DIMS_SHOWN).map(preview).join(', ')}${value.length > MAX_DIMS_SHOWN ? ', …' : ''}]`;
}

/** Indexes of the outputs asked for, in that order; all of the model's when none are named. */
function decodeOutputs(value: unknown, path: string, model: Model): number[] | Failure {
  const all = model.outputs.map((_, index) => index);
  if (value === undefined) return all;
  if (!Array.isArray(value)) {
    return failure('INVALID_REQUEST', `${path}: expected an array of {"name": …}, got ${preview(value)}`);
  }
  const chosen: number[] = [];
  for (const [index, entry] of value.entries()) {
    const at = `${path}[${index}]`;
    if (!isObject(entry)) return failure('INVALID_REQUEST', `${at}: expected {"name": …}, got ${preview(entry)}`);
    const unknownKey = findUnknownKey(entry, OUTPUT_KEYS);
    if (unknownKey !== undefined) {
      return failure('INVALID_REQUEST', unknownKeyMessage(at, unknownKey, OUTPUT_KEYS));
    }
    const found = model.outputs.findIndex((spec) => spec.name === entry.name);
    if (found < 0) {
      return failure(
        'UNKNOWN_OUTPUT',
        `${at}.name: expected ${listNames(model.outputs)} of model '${model.name}', got ${preview(entry.name)}`,
      );
    }
    if (chosen.includes(found)) {
      return failure('INVALID_REQUEST', `${at}.name: expected each output once, got ${preview(entry.name)} again`);
    }
    chosen.push(found);
  }
  return chosen.length === 0 ? all : chosen;
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function findUnknownKey(object: JsonObject, known: readonly string[]): string | undefined {
  for (const key in object) if (!known.includes(key)) return key;
  return undefined;
}

function unknownKeyMessage(at: string, key: string, known: readonly string[]): string {
  return `${at}: expected only the keys ${known.join(', ')}, got ${preview(key)}`;
}

function listNames(specs: readonly TensorSpec[]): string {
  return specs.map((spec) => `'${spec.name}'`).join(', ');
}
