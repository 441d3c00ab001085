import { type MaybePromise, whenThere } from './concurrency.ts';
import { type Failure, failure, isFailure, plural, preview, transformFailure } from './failure.ts';
import { createHookBatch } from './hookBatch.ts';
import { isObject, type JsonObject, parseIfJson } from './json.ts';
import { lookAlike } from './lookAlikes.ts';
import type { Body, RefusedRequest, ReplyForm, RequestInput, ScoringRequest } from './microBatch.ts';
import {
  listNames,
  type Model,
  type ModelRepository,
  type TransformBody,
  type TransformInput,
  takesOwnForm,
} from './model.ts';
import type { Observer, RequestPlace } from './observer.ts';
import { NO_DEADLINE } from './record.ts';
import {
  type DecodeLimits,
  decodeInputs,
  decodeInstances,
  refuseUnknownKeys,
  SEE_FORMAT,
  tooManyRows,
} from './requestInputs.ts';
import { fieldOf, WHOLE_BODY } from './values.ts';

const COMMON_KEYS = ['id', 'model_name', 'model_version', 'parameters'];
const LONG_FORM_KEYS = ['inputs', 'outputs', 'raw_input_contents'];
const REQUEST_KEYS = [...COMMON_KEYS, ...LONG_FORM_KEYS];
const SHORT_KEYS = [...COMMON_KEYS, 'instances'];

function keysOfBothForms(): string {
  return `${COMMON_KEYS.join(', ')} and either ${LONG_FORM_KEYS.join(', ')} or instances`;
}

const SEND_OBJECT = 'send an object such as {"instances": [[1, 2]]}';

interface Place extends RequestPlace {
  /** Prefix in messages: `body`, or `[3]` inside a packed message. */
  readonly path: string;
}

export interface RequestDependencies {
  readonly models: ModelRepository;
  readonly limits: DecodeLimits;
  /** Decodes requests together by the batch hook of their model. @default each alone */
  readonly decodeTogether?: DecodeTogether | undefined;
  /** Takes calls of a transform. @default none */
  readonly observer?: Observer | undefined;
  /** True if requests do not expire, because they are samples. @default false */
  readonly areSamples?: boolean;
}

export type DecodeTogether = (
  model: Model,
  body: TransformBody,
  place: RequestPlace,
) => Promise<readonly TransformInput[]>;

/** Decodes a sample when a model is loaded. */
const decodeAlone: DecodeTogether = (model, body) => {
  const alone = createHookBatch('decodeBatch', model.transform?.decodeBatch, model, NO_DEADLINE);
  const decoded = alone.add(() => body);
  void alone.call();
  return decoded;
};

export function decodeRequest(
  value: unknown,
  place: Place,
  deps: RequestDependencies,
): MaybePromise<ScoringRequest | RefusedRequest> {
  const { path } = place;
  if (!isObject(value)) {
    const failed = failure(
      'INVALID_REQUEST',
      `${path}: expected a request, got ${lookAlike(value) ?? `${preview(value)}; ${SEND_OBJECT}`}`,
    );
    return { id: undefined, failure: failed };
  }
  const id = decodeId(value.id, path);
  if (isFailure(id)) return { id: undefined, failure: id };
  return whenThere(decodeWithModel(value, id, place, deps), (request) =>
    isFailure(request) ? { id, failure: explainEnvelope(request, value, path) } : request,
  );
}

/** Adds a hint if the body is an envelope, an event or a pointer instead of a request. */
function explainEnvelope(failed: Failure, value: JsonObject, path: string): Failure {
  const envelope = lookAlike(value);
  if (envelope === undefined) return failed;
  if (failed.code === 'TRANSFORM_FAILED') return failure(failed.code, `${failed.message}; the body is ${envelope}`);
  if (failed.code !== 'INVALID_REQUEST' && failed.code !== 'UNKNOWN_MODEL') return failed;
  return failure('INVALID_REQUEST', `${path}: expected a request, got ${envelope}`);
}

/** Prefixes a transform's message with the request's place in a packed message. */
function within(path: string, message: string): string {
  return path.startsWith('[') ? `${path}: ${message}` : message;
}

function decodeWithModel(
  value: JsonObject,
  id: string | undefined,
  place: Place,
  deps: RequestDependencies,
): MaybePromise<ScoringRequest | Failure> {
  const { path, bodyIndex, position } = place;
  const refused = refuseModelName(value, path);
  if (refused !== undefined) return refused;
  const binaryOutput = decodeParameters(value.parameters, fieldOf(path, 'parameters'), deps);
  if (isFailure(binaryOutput)) return binaryOutput;
  return whenThere(modelOf(value, deps), (model) => {
    if (isFailure(model)) return model;
    return whenThere(decodeForm(value, place, model, binaryOutput, deps), (decoded) => {
      if (isFailure(decoded)) return decoded;
      const { inputs, outputs, reply } = decoded;
      const rows = inputs[0]?.shape[0] ?? 0;
      const length = lengthOf(model, inputs);
      const tooLong = refuseLength(length, path, model);
      return tooLong ?? { bodyIndex, position, id, model, rows, length, inputs, outputs, reply };
    });
  });
}

function modelOf({ model_name, model_version }: JsonObject, { models }: RequestDependencies) {
  return models.find(model_name as string | undefined, model_version as string | undefined);
}

/** Returns true if a transform decodes the request, or if that is unknown until its model is loaded. */
export function mayHaveOwnForm(value: JsonObject, deps: RequestDependencies): boolean {
  if (refuseModelName(value, '') !== undefined) return false;
  const model = modelOf(value, deps);
  return model instanceof Promise || (!isFailure(model) && takesOwnForm(model));
}

/** Returns the size of the ragged axis. Decoding has checked that it is the same in every input. */
function lengthOf({ ragged }: Model, inputs: readonly RequestInput[]): number {
  if (ragged === undefined) return 1;
  const index = ragged.inputs.findIndex((input) => input !== undefined);
  return inputs[index]?.shape[ragged.inputs[index]?.axis ?? 0] ?? 1;
}

function refuseLength(length: number, path: string, { ragged }: Model): Failure | undefined {
  const max = ragged?.allowedSizes.at(-1);
  if (ragged === undefined || max === undefined || length <= max) return undefined;
  const wrong = `expected at most ${max} along '${ragged.name}', got ${length}; send a shorter one`;
  return failure('INVALID_SHAPE', `${fieldOf(path, 'inputs')}: ${wrong}`);
}

interface DecodedForm {
  readonly inputs: readonly RequestInput[];
  readonly outputs: readonly number[];
  readonly reply: ReplyForm;
}

/** Decodes one of the three forms of requests: the model's own (by its transform), the short one, the canonical one. */
function decodeForm(
  value: JsonObject,
  place: Place,
  model: Model,
  binaryOutput: boolean | undefined,
  deps: RequestDependencies,
): MaybePromise<DecodedForm | Failure> {
  const [{ path }, { limits }] = [place, deps];
  if (takesOwnForm(model)) return decodeOwnForm(value, place, model, binaryOutput, deps);
  if ('instances' in value) return decodeShortForm(value, path, model, limits);

  const refused =
    refuseInputsAsKeys(value, path, model) ?? refuseUnknownKeys(value, REQUEST_KEYS, () => path, keysOfBothForms);
  if (refused !== undefined) return refused;
  const raw = value.raw_input_contents;
  const inputs = decodeInputs(value.inputs, path, model, raw, limits);
  if (isFailure(inputs)) return inputs;
  const outputs = decodeOutputs(value.outputs, path, model);
  if (isFailure(outputs)) return outputs;
  const binary = binaryOutput ?? raw !== undefined;
  return { inputs, outputs, reply: binary ? 'binary' : 'json' };
}

/** Refuses a plain object with the model's inputs as keys, which is a row of a file. */
function refuseInputsAsKeys(value: JsonObject, path: string, { inputs }: Model): Failure | undefined {
  const name = inputs.find((input) => !REQUEST_KEYS.includes(input.name) && Object.hasOwn(value, input.name))?.name;
  if (name === undefined || 'inputs' in value) return undefined;
  const wrong = `expected inputs or instances, got ${preview(name)}, an input of the model`;
  return failure('INVALID_REQUEST', `${path}: ${wrong}; write {"instances": [{${preview(name)}: …}]}`);
}

function decodeShortForm(value: JsonObject, path: string, model: Model, limits: DecodeLimits): DecodedForm | Failure {
  const ofOtherForm = LONG_FORM_KEYS.find((key) => Object.hasOwn(value, key));
  if (ofOtherForm !== undefined) {
    const got = `${preview(ofOtherForm)} beside instances`;
    const message = `${path}: expected only the keys ${keysOfBothForms()}, got ${got}; leave one of them out`;
    return failure('INVALID_REQUEST', message);
  }
  const refused = refuseUnknownKeys(value, SHORT_KEYS, () => path, keysOfBothForms);
  if (refused !== undefined) return refused;
  const rows = Array.isArray(value.instances) ? value.instances.length : 0;
  if (rows > limits.maxRequestRows) return tooManyRows(rows, path, limits);
  const inputs = decodeInstances(value.instances, fieldOf(path, 'instances'), model);
  if (isFailure(inputs)) return inputs;
  return { inputs, outputs: everyOutput(model), reply: 'predictions' };
}

/** Decodes by the model's transform. Its inputs are checked, and errors in them are the transform's failure. */
async function decodeOwnForm(
  value: JsonObject,
  { path, bodyIndex, position }: Place,
  model: Model,
  binaryOutput: boolean | undefined,
  { limits, decodeTogether = decodeAlone, observer }: RequestDependencies,
): Promise<DecodedForm | Failure> {
  const outputs = decodeOutputs(value.outputs, path, model);
  if (isFailure(outputs)) return outputs;
  let inputs: RequestInput[] | Failure;
  const { decode } = model.transform ?? {};
  const place = { bodyIndex, position };
  const end = decode && observer?.begins?.({ isRun: false, model: model.name, expectedMs: 0, requests: [place] });
  try {
    const soon = decode === undefined ? decodeTogether(model, value, place) : decode(value);
    // An available result is copied synchronously, because the transform may reuse the array.
    inputs = decodeInputs(soon instanceof Promise ? await soon : soon, WHOLE_BODY, model, undefined, limits);
  } catch (error) {
    return transformFailure(model.name, error, (reason) => within(path, reason));
  } finally {
    end?.();
  }
  if (!isFailure(inputs)) return { inputs, outputs, reply: binaryOutput === true ? 'binary' : 'json' };
  return failure('TRANSFORM_FAILED', within(path, `inputs from the transform of '${model.name}': ${inputs.message}`));
}

/** Returns the id of a request that is not decoded, if it has one. */
export function idOf(value: unknown): string | undefined {
  return isObject(value) && typeof value.id === 'string' ? value.id : undefined;
}

/** Returns the id of a body that is not decoded, if it is one request with an id. */
export function idInBody(body: Body): string | undefined {
  return typeof body === 'string' ? idOf(parseIfJson(body)) : undefined;
}

const MAX_ID_CHARACTERS = 1024;

function decodeId(id: unknown, path: string): string | undefined | Failure {
  if (id === undefined) return undefined;
  if (typeof id !== 'string' || id.length > MAX_ID_CHARACTERS) {
    const [got, cure] = wrongId(id);
    const wrong = `expected a string of at most ${MAX_ID_CHARACTERS} characters, got ${got}; ${cure}`;
    return failure('INVALID_REQUEST', `${fieldOf(path, 'id')}: ${wrong}`);
  }
  return id;
}

/** The parser has rounded a number that is no safe integer, so its digits are not shown. */
function wrongId(id: unknown): readonly [got: string, cure: string] {
  if (typeof id === 'string') return [`${id.length} characters`, 'shorten it'];
  if (typeof id !== 'number') return [preview(id), 'write a string, or leave it out'];
  return Number.isSafeInteger(id) ? [`${id}`, `write "${id}"`] : ['a number', 'put its digits in quotes'];
}

function refuseModelName({ model_name: name, model_version: version }: JsonObject, path: string): Failure | undefined {
  if (name !== undefined && typeof name !== 'string') {
    const wrong = `expected a string, got ${preview(name)}; ${SEE_FORMAT}`;
    return failure('INVALID_REQUEST', `${fieldOf(path, 'model_name')}: ${wrong}`);
  }
  if (version !== undefined && typeof version !== 'string') {
    const versionPath = fieldOf(path, 'model_version');
    const wrong = `expected a string such as "1", got ${preview(version)}; put it in quotes`;
    return failure('INVALID_REQUEST', `${versionPath}: ${wrong}`);
  }
  return undefined;
}

/**
 * Returns `binary_data_output`, and refuses a request past its `expires_at`. Other parameters, which other servers use,
 * are ignored.
 */
function decodeParameters(
  value: unknown,
  path: string,
  { areSamples = false }: RequestDependencies,
): boolean | undefined | Failure {
  if (value === undefined) return undefined;
  if (!isObject(value))
    return failure('INVALID_REQUEST', `${path}: expected an object, got ${preview(value)}; ${SEE_FORMAT}`);
  const { binary_data_output: binaryOutput, expires_at: expiresAt } = value;
  if (binaryOutput !== undefined && typeof binaryOutput !== 'boolean') {
    const wrong = `expected true or false, got ${preview(binaryOutput)}; send one of them`;
    return failure('INVALID_REQUEST', `${path}.binary_data_output: ${wrong}`);
  }
  const expired = areSamples ? undefined : refuseExpired(expiresAt, `${path}.expires_at`);
  return expired ?? binaryOutput;
}

function refuseExpired(value: unknown, path: string): Failure | undefined {
  if (value === undefined) return undefined;
  const expiresAt = timeIn(value);
  if (expiresAt === undefined) {
    const wrong = `expected epoch seconds, or a time such as "2026-01-31T12:00:00Z", got ${preview(value)}`;
    return failure('INVALID_REQUEST', `${path}: ${wrong}; milliseconds are too large, and a text needs its time zone`);
  }
  const lateMs = Date.now() - expiresAt;
  if (lateMs < 0) return undefined;
  const wrong = `expected a time that is not over, got one ${plural(Math.floor(lateMs / 1000), 'second')} ago`;
  return failure('EXPIRED', `${path}: ${wrong}; send the request again if its scores are still of use`);
}

/** ISO 8601 with date, time and time zone. `Date.parse` takes more, some of it in the zone of the host. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d:?\d\d)$/;
/** End of the year 9999 in epoch seconds. Milliseconds of any year since 1978 are beyond it. */
const MAX_EPOCH_SECONDS = 253_402_300_799;

/** Returns epoch milliseconds. Undefined if the value is no time. */
function timeIn(value: unknown): number | undefined {
  if (typeof value === 'number') return Math.abs(value) <= MAX_EPOCH_SECONDS ? 1000 * value : undefined;
  const time = typeof value === 'string' && TIME.test(value) ? Date.parse(value.replace(',', '.')) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}

const OUTPUT_KEYS = ['name', 'parameters'];

function everyOutput(model: Model): readonly number[] {
  return model.outputs.map((_, index) => index);
}

/** Returns the indexes of the requested outputs, in order, or all outputs if none are named. */
function decodeOutputs(value: unknown, path: string, model: Model): readonly number[] | Failure {
  if (value === undefined) return everyOutput(model);
  const outputsPath = fieldOf(path, 'outputs');
  if (!Array.isArray(value)) {
    const wrong = `expected an array of {"name": …}, got ${preview(value)}; ${SEE_FORMAT}`;
    return failure('INVALID_REQUEST', `${outputsPath}: ${wrong}`);
  }
  const chosen: number[] = [];
  for (const [index, entry] of value.entries()) {
    const place = `${outputsPath}[${index}]`;
    if (!isObject(entry))
      return failure('INVALID_REQUEST', `${place}: expected {"name": …}, got ${preview(entry)}; ${SEE_FORMAT}`);
    const refused = refuseUnknownKeys(entry, OUTPUT_KEYS, () => place);
    if (refused !== undefined) return refused;
    const found = model.outputs.findIndex((spec) => spec.name === entry.name);
    if (found < 0) {
      return failure(
        'UNKNOWN_OUTPUT',
        `${place}.name: expected ${listNames(model.outputs)} of model '${model.name}', got ${preview(entry.name)}; use the model's names`,
      );
    }
    if (chosen.includes(found)) {
      const wrong = `expected each output once, got ${preview(entry.name)} again; name it once`;
      return failure('INVALID_REQUEST', `${place}.name: ${wrong}`);
    }
    chosen.push(found);
  }
  return chosen.length === 0 ? everyOutput(model) : chosen;
}
