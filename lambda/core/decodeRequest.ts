import { decodeInputs } from './decodeInputs.ts';
import { decodeInstances } from './decodeInstances.ts';
import { decodeOutputs } from './decodeOutputs.ts';
import { type Failure, failure, isFailure, preview, reasonOf } from './failure.ts';
import { isObject, type JsonObject, refuseUnknownKeys, SEE_FORMAT } from './json.ts';
import type { Model, ModelRepository } from './model.ts';
import type { RefusedRequest, ReplyForm, RequestInput, ScoringRequest } from './request.ts';
import type { Transform } from './transform.ts';

export interface DecodeLimits {
  /** Most rows that one request may hold. */
  readonly maxRequestRows: number;
}

const COMMON_KEYS = ['id', 'model_name', 'model_version', 'parameters'];
const REQUEST_KEYS = [...COMMON_KEYS, 'inputs', 'outputs', 'raw_input_contents'];
const SHORT_KEYS = [...COMMON_KEYS, 'instances'];
const MAX_ID_CHARACTERS = 1024;

/** @param at where the request stands: `body`, or `[3]` inside a packed message */
export async function decodeRequest(
  value: unknown,
  at: string,
  models: ModelRepository,
  limits: DecodeLimits,
): Promise<ScoringRequest | RefusedRequest> {
  if (!isObject(value)) {
    const failed = failure(
      'INVALID_REQUEST',
      `${at}: expected a request object with inputs, got ${preview(value)}; ${SEE_FORMAT}`,
    );
    return { id: undefined, failure: failed };
  }
  const id = decodeId(value.id, fieldOf(at, 'id'));
  if (isFailure(id)) return { id: undefined, failure: id };
  const request = await decodeWithModel(value, at, models, limits);
  return isFailure(request) ? { id: id.value, failure: request } : { id: id.value, ...request };
}

/** The path of a request's field in messages: `inputs`, or `[3].inputs` inside a packed message. */
function fieldOf(at: string, field: string): string {
  return at.startsWith('[') ? `${at}.${field}` : field;
}

/** A transform's message, with the request's place in front where there are several. */
function within(at: string, message: string): string {
  return at.startsWith('[') ? `${at}: ${message}` : message;
}

function decodeId(id: unknown, path: string): { readonly value: string | undefined } | Failure {
  if (id === undefined) return { value: undefined };
  if (typeof id !== 'string' || id.length > MAX_ID_CHARACTERS) {
    const got = typeof id === 'string' ? `${id.length} characters` : preview(id);
    return failure(
      'INVALID_REQUEST',
      `${path}: expected a string of at most ${MAX_ID_CHARACTERS} characters, got ${got}; shorten it or leave it out`,
    );
  }
  return { value: id };
}

async function decodeWithModel(
  value: JsonObject,
  at: string,
  models: ModelRepository,
  limits: DecodeLimits,
): Promise<Omit<ScoringRequest, 'id'> | Failure> {
  const named = decodeModelName(value, at);
  if (isFailure(named)) return named;
  const parameters = decodeParameters(value.parameters, fieldOf(at, 'parameters'));
  if (isFailure(parameters)) return parameters;
  const model = await models.find(named.name, named.version);
  if (isFailure(model)) return model;

  const decoded = await decodeForm(value, at, model, parameters);
  if (isFailure(decoded)) return decoded;
  const rows = decoded.inputs[0]?.shape[0] ?? 0;
  if (rows <= limits.maxRequestRows) return { ...decoded, model, rows };
  return failure(
    'TOO_MANY_ROWS',
    `${fieldOf(at, 'inputs')}: expected at most ${limits.maxRequestRows} rows in a request, got ${rows}; send several requests`,
  );
}

function decodeModelName(
  request: JsonObject,
  at: string,
): { readonly name: string | undefined; readonly version: string | undefined } | Failure {
  const { model_name: name, model_version: version } = request;
  if (name !== undefined && typeof name !== 'string') {
    return failure(
      'INVALID_REQUEST',
      `${fieldOf(at, 'model_name')}: expected a string, got ${preview(name)}; ${SEE_FORMAT}`,
    );
  }
  if (version !== undefined && typeof version !== 'string') {
    const path = fieldOf(at, 'model_version');
    return failure(
      'INVALID_REQUEST',
      `${path}: expected a string such as "1", got ${preview(version)}; put it in quotes`,
    );
  }
  return { name, version };
}

interface Parameters {
  readonly binaryOutput: boolean | undefined;
}

/** Parameters are open to other servers' keys; batchscore reads `binary_data_output` alone. */
function decodeParameters(value: unknown, path: string): Parameters | Failure {
  if (value === undefined) return { binaryOutput: undefined };
  if (!isObject(value))
    return failure('INVALID_REQUEST', `${path}: expected an object, got ${preview(value)}; ${SEE_FORMAT}`);
  const binaryOutput = value.binary_data_output;
  if (binaryOutput === undefined || typeof binaryOutput === 'boolean') return { binaryOutput };
  return failure(
    'INVALID_REQUEST',
    `${path}.binary_data_output: expected true or false, got ${preview(binaryOutput)}; send one of them`,
  );
}

interface DecodedForm {
  readonly inputs: readonly RequestInput[];
  readonly outputs: readonly number[];
  readonly reply: ReplyForm;
}

/** A request comes in one of three forms: the model's own (its transform's), the short one, the canonical one. */
async function decodeForm(
  value: JsonObject,
  at: string,
  model: Model,
  { binaryOutput }: Parameters,
): Promise<DecodedForm | Failure> {
  if (model.transform?.decode !== undefined) return decodeOwnForm(value, at, model, model.transform, binaryOutput);
  if ('instances' in value) return decodeShortForm(value, at, model);

  const refused = refuseUnknownKeys(value, REQUEST_KEYS, at);
  if (refused !== undefined) return refused;
  const raw = { value: value.raw_input_contents, path: fieldOf(at, 'raw_input_contents') };
  const inputs = decodeInputs(value.inputs, fieldOf(at, 'inputs'), model, raw.value === undefined ? undefined : raw);
  if (isFailure(inputs)) return inputs;
  const outputs = decodeOutputs(value.outputs, fieldOf(at, 'outputs'), model);
  if (isFailure(outputs)) return outputs;
  const binary = binaryOutput ?? raw.value !== undefined;
  return { inputs, outputs, reply: binary ? 'binary' : 'json' };
}

function decodeShortForm(value: JsonObject, at: string, model: Model): DecodedForm | Failure {
  const refused = refuseUnknownKeys(value, SHORT_KEYS, at);
  if (refused !== undefined) return refused;
  const inputs = decodeInstances(value.instances, fieldOf(at, 'instances'), model);
  if (isFailure(inputs)) return inputs;
  return { inputs, outputs: model.outputs.map((_, index) => index), reply: 'predictions' };
}

/** What a transform gives is checked like anyone's inputs, and is its own failure. */
async function decodeOwnForm(
  value: JsonObject,
  at: string,
  model: Model,
  transform: Transform,
  binaryOutput: boolean | undefined,
): Promise<DecodedForm | Failure> {
  const outputs = decodeOutputs(value.outputs, fieldOf(at, 'outputs'), model);
  if (isFailure(outputs)) return outputs;
  let inputs: RequestInput[] | Failure;
  try {
    inputs = decodeInputs(await transform.decode?.(value), 'inputs', model, undefined);
  } catch (error) {
    return failure('TRANSFORM_FAILED', within(at, reasonOf(error)));
  }
  if (!isFailure(inputs)) return { inputs, outputs, reply: binaryOutput === true ? 'binary' : 'json' };
  return failure('TRANSFORM_FAILED', within(at, `what the transform of '${model.name}' decoded: ${inputs.message}`));
}
