import * as z from 'zod';
import { describeError } from '../lambda/aws/awsError.ts';
import { type Failure, isFailure, preview } from '../lambda/core/failure.ts';
import { isObject, parseIfJson } from '../lambda/core/json.ts';
import { liesUnder, resultKeys } from '../lambda/core/places.ts';
import {
  MESSAGE_ID_ATTRIBUTE,
  type MessageRecord,
  type PayloadPointer,
  parsePointer,
  RESULTS_ATTRIBUTE,
} from '../lambda/core/record.ts';
import { DATATYPES, type Datatype, decodeAll, isBase64Data, type TensorData } from '../lambda/core/tensor.ts';
import { decodeData, decodeRaw } from '../lambda/core/values.ts';
import { ScoringError } from './clientErrors.ts';

/** Payload bucket, as the source of results that were too large for their store. */
export interface PayloadSource {
  readonly bucket: string;
  /** Prefix of the keys of results. Other keys are not read. */
  readonly resultKeys: string;
  get(pointer: PayloadPointer): Promise<string>;
}

/** S3 client, such as `new S3()` of `@aws-sdk/client-s3`. */
export interface S3Reader {
  getObject(input: { readonly Bucket: string; readonly Key: string }): Promise<{
    readonly Body?: { transformToString(encoding?: string): Promise<string> } | undefined;
  }>;
}

/** @param prefix of the deployment's keys in the bucket */
export function createPayloadSource(bucket: string, prefix: string, getObject: S3Reader['getObject']): PayloadSource {
  return {
    bucket,
    resultKeys: resultKeys(prefix),
    async get({ bucket: Bucket, key: Key }) {
      const { Body } = await getObject({ Bucket, Key });
      if (Body === undefined) throw new Error(`expected a body at s3://${Bucket}/${Key}, got none`);
      return await Body.transformToString('utf-8');
    },
  };
}

export interface ReadResult {
  readonly result: ScoringResult;
  /** False if its payload could not be fetched. The stored pointer must be kept, because it is the only one. */
  readonly complete: boolean;
}

/**
 * Reads the value that a result store has for a message ID, including its payload. Never throws because of a single
 * result.
 */
export type ReadStored = (messageId: string, stored: string) => Promise<ReadResult>;

/** @param payloads undefined if the deployment has no payload bucket */
export function createReader(payloads: PayloadSource | undefined): ReadStored {
  return async (messageId, stored) => {
    const document = parseIfJson(stored);
    const pointer = parsePointer(document);
    if (pointer === undefined) return { result: decodeText(messageId, stored, document), complete: true };
    if (isFailure(pointer)) return { result: invalidResult(messageId, pointer.message), complete: true };
    return await readPayload(messageId, pointer, payloads);
  };
}

async function readPayload(
  messageId: string,
  pointer: PayloadPointer,
  payloads: PayloadSource | undefined,
): Promise<ReadResult> {
  if (payloads?.bucket !== pointer.bucket) {
    const own = payloads === undefined ? 'none is configured' : `payloadBucket is '${payloads.bucket}'`;
    return unavailable(messageId, `it lies in the bucket '${pointer.bucket}', and ${own}; set payloadBucket`);
  }
  if (!liesUnder(payloads.resultKeys, pointer.key)) {
    const own = `results lie under '${payloads.resultKeys}'`;
    return unavailable(messageId, `it lies at '${pointer.key}' in the payload bucket, and ${own}; set payloadPrefix`);
  }
  try {
    return { result: decodeText(messageId, await payloads.get(pointer)), complete: true };
  } catch (cause) {
    const place = `s3://${pointer.bucket}/${pointer.key}`;
    return unavailable(messageId, `${place} could not be read: ${describeError(cause)}`, cause);
  }
}

function unavailable(messageId: string, reason: string, cause?: unknown): ReadResult {
  const message = `the result is too large for its store: ${reason}`;
  const error = new ScoringError('RESULT_UNAVAILABLE', message, { messageId, cause });
  return { result: { messageId, error }, complete: false };
}

/**
 * Output tensor. `data` is a typed array of `datatype`, row-major. Its length is the product of `shape`.
 * 64-bit integers are exact, in a BigInt64Array or BigUint64Array. BOOL is 0 and 1 in a Uint8Array. BYTES are strings.
 * You can use it as an input.
 */
export interface OutputTensor {
  readonly datatype: Datatype;
  /** `[rows, …]` */
  readonly shape: readonly number[];
  readonly data: TensorData;
}

export type OutputTensors = Readonly<Record<string, OutputTensor>>;

interface ResultHead {
  /** SQS message ID of the request. */
  readonly messageId: string;
  /** The request's own `id`, if it had one. */
  readonly id?: string | undefined;
}

interface AnswerHead extends ResultHead {
  readonly model?: string | undefined;
  readonly version?: string | undefined;
}

/** Answer to a request in the canonical form. */
export interface OutputsResult extends AnswerHead {
  readonly outputs: OutputTensors;
}

/** Answer to a request in the short form: one prediction per row, as parsed from JSON. */
export interface PredictionsResult extends AnswerHead {
  readonly predictions: readonly unknown[];
}

/** Answer of a model with a transform, as parsed from JSON. */
export interface TransformResult extends AnswerHead {
  readonly result: unknown;
}

/** Answer to a request that was not scored. */
export interface FailedResult extends ResultHead {
  readonly error: ScoringError;
}

export type SingleResult = OutputsResult | PredictionsResult | TransformResult | FailedResult;

/** Answers to the requests of a packed message, in order. */
export interface PackedResult {
  readonly messageId: string;
  readonly results: readonly SingleResult[];
}

/** Result of one message. Distinguish the forms by their key: `'error' in result`, `'outputs' in result`, … */
export type ScoringResult = SingleResult | PackedResult;

const HEAD = {
  id: z.string().optional(),
  model_name: z.string().optional(),
  model_version: z.string().optional(),
};
const DATATYPE = z.enum(Object.keys(DATATYPES) as [Datatype, ...Datatype[]]);
const SHAPE = z.array(z.int().nonnegative());
const OUTPUT = z.object({ name: z.string(), datatype: DATATYPE, shape: SHAPE, data: z.unknown().optional() });
const DOCUMENT = z.union([
  z.object({ id: HEAD.id, code: z.string(), error: z.string() }),
  z.object({ ...HEAD, outputs: z.array(OUTPUT), raw_output_contents: z.array(z.string()).optional() }),
  z.object({ ...HEAD, predictions: z.array(z.unknown()) }),
  z.object({ ...HEAD, result: z.unknown() }),
]);

type OutputsDocument = Extract<z.infer<typeof DOCUMENT>, { outputs: unknown }>;

function decodeText(messageId: string, text: string, document = parseIfJson(text)): ScoringResult {
  if (document === undefined) return invalidResult(messageId, `got ${text.length} characters that are not JSON`);
  return decodeResult(messageId, document);
}

/** Decodes the value that was stored under `messageId`. Never throws: a malformed value becomes a failed result. */
export function decodeResult(messageId: string, document: unknown): ScoringResult {
  if (!Array.isArray(document)) return decodeSingle(messageId, document);
  return { messageId, results: document.map((one) => decodeSingle(messageId, one)) };
}

/** @param reason expected and actual value */
export function invalidResult(messageId: string, reason: string, cause?: unknown): FailedResult {
  const message =
    `expected a result under message ID ${messageId}: ${reason}; ` +
    'check that the result store belongs to a batchscore deployment';
  return { messageId, error: new ScoringError('INVALID_RESULT', message, { messageId, cause }) };
}

function decodeSingle(messageId: string, document: unknown): SingleResult {
  const parsed = DOCUMENT.safeParse(document);
  if (!parsed.success) return invalidResult(messageId, 'got a JSON document of another form', parsed.error);
  const { data } = parsed;
  const { id } = data;
  const named = id === undefined ? { messageId } : { messageId, id };
  if ('code' in data) return { ...named, error: new ScoringError(data.code, data.error, named) };

  const head = { ...named, model: data.model_name, version: data.model_version };
  if ('predictions' in data) return { ...head, predictions: data.predictions };
  if ('result' in data) return { ...head, result: data.result };
  const outputs = decodeOutputs(data);
  return isFailure(outputs) ? invalidResult(messageId, outputs.message) : { ...head, outputs };
}

function decodeOutputs({ outputs, raw_output_contents: raw }: OutputsDocument): OutputTensors | Failure {
  const decoded: [string, OutputTensor][] = [];
  for (const [index, { name, datatype, shape, data: listed }] of outputs.entries()) {
    const data =
      raw === undefined
        ? decodeData(listed, datatype, shape, `outputs[${index}].data`)
        : decodeContents(raw[index], datatype, shape, `raw_output_contents[${index}]`);
    if (isFailure(data)) return data;
    decoded.push([name, { datatype, shape, data }]);
  }
  return Object.fromEntries(decoded);
}

function decodeContents(
  text: string | undefined,
  datatype: Datatype,
  shape: readonly number[],
  path: string,
): TensorData | Failure {
  const data = decodeRaw(text, datatype, shape, () => path);
  if (isFailure(data) || !isBase64Data(data)) return data;
  return decodeAll(data, datatype, shape);
}

/** Result in a message of a result queue. */
export interface StoredResult {
  readonly messageId: string;
  /** Decodes it. Uses `read` if it may be in the payload bucket. */
  read(read: ReadStored): Promise<ReadResult>;
}

/** Reason why a message cannot be read. None of it may be consumed, and it must be kept. */
interface Unreadable {
  readonly problem: string;
}

/** Returns the results in a message of a result queue, in order: one, or several if it is packed. */
export function readMessage({
  body,
  messageAttributes,
}: Pick<MessageRecord, 'body' | 'messageAttributes'>): readonly StoredResult[] | Unreadable {
  const count = messageAttributes[RESULTS_ATTRIBUTE]?.stringValue;
  const messageId = messageAttributes[MESSAGE_ID_ATTRIBUTE]?.stringValue;
  if (messageId !== undefined && count === undefined) return [{ messageId, read: (read) => read(messageId, body) }];
  if (count !== undefined) {
    const results = unpackResults(body, count);
    if ('problem' in results) return results;
    return results.map(({ messageId, document }) => ({
      messageId,
      read: async () => ({ result: decodeResult(messageId, document), complete: true }),
    }));
  }
  return {
    problem:
      `expected the message attribute ${MESSAGE_ID_ATTRIBUTE} or ${RESULTS_ATTRIBUTE}, got neither; ` +
      'use the result queue of a batchscore deployment',
  };
}

interface PackedDocument {
  readonly messageId: string;
  readonly document: unknown;
}

/**
 * Returns the results of a message with several: a JSON array of results, each with its own message ID. The result of a
 * packed request is itself an array, and all its answers have the same message ID.
 *
 * @param count value of the message's attribute `results`
 */
export function unpackResults(body: string, count: string): readonly PackedDocument[] | Unreadable {
  const documents = parseIfJson(body);
  if (documents === undefined) {
    return unreadable(`a JSON array of ${count} results`, `${body.length} characters that are not JSON`);
  }
  if (!Array.isArray(documents)) return unreadable(`a JSON array of ${count} results`, preview(documents));
  if (String(documents.length) !== count) return unreadable(`${count} results`, String(documents.length));
  const results: PackedDocument[] = [];
  for (const [index, document] of documents.entries()) {
    const messageId = messageIdOf(document);
    if (messageId === undefined) {
      return unreadable(`[${index}] to be a result with a message_id, or an array of answers with the same`, 'none');
    }
    results.push({ messageId, document });
  }
  return results;
}

/** Returns the message ID of a result. Undefined if it has none, or the answers in an array have different ones. */
function messageIdOf(document: unknown): string | undefined {
  const ids = Array.isArray(document) ? new Set(document.map(idIn)) : new Set([idIn(document)]);
  const [messageId] = ids;
  return ids.size === 1 ? messageId : undefined;
}

function idIn(document: unknown): string | undefined {
  const id = isObject(document) ? document.message_id : undefined;
  return typeof id === 'string' && id !== '' ? id : undefined;
}

function unreadable(expected: string, got: string): Unreadable {
  return { problem: `expected ${expected}, got ${got}` };
}

/**
 * Returns the result of the request `id` from the value that is stored for its message. An error of the whole message
 * applies to each of its requests. Never throws: a missing result becomes a failed result.
 */
export function resultOf(id: string, stored: ScoringResult): ScoringResult {
  const { messageId, position } = placeOf(id);
  if (position === undefined) return stored;
  if ('error' in stored) return named(id, stored);
  if (!('results' in stored)) return invalidResult(id, `got one answer under ${messageId}, which is no packed message`);
  const own = stored.results[position];
  if (own !== undefined) return named(id, own);
  return invalidResult(id, `got ${stored.results.length} answers under ${messageId}, so none at position ${position}`);
}

function named(messageId: string, result: SingleResult): SingleResult {
  if (!('error' in result)) return { ...result, messageId };
  const { code, message, id, retryable, cause } = result.error;
  return { ...result, messageId, error: new ScoringError(code, message, { messageId, id, retryable, cause }) };
}

/** Location of a request: its own message, or a position in a packed one. */
interface RequestPlace {
  readonly messageId: string;
  /** Position from 0. Undefined for a whole message. */
  readonly position: number | undefined;
}

/** Returns the ID of a request in a packed message: `<message ID>/<position>`. */
export function idInPacked(messageId: string, position: number): string {
  return `${messageId}/${position}`;
}

/** Returns the message IDs of these IDs, without duplicates. @throws TypeError as {@link placeOf} does */
export function messageIdsOf(ids: Iterable<string>): Set<string> {
  return new Set(Array.from(ids, (id) => placeOf(id).messageId));
}

const ID = /^([^/]+)(?:\/(0|[1-9]\d{0,8}))?$/;

/** @throws TypeError if `submit` cannot have returned this ID */
export function placeOf(id: string): RequestPlace {
  const [, messageId, position] = (typeof id === 'string' ? ID.exec(id) : null) ?? [];
  if (messageId !== undefined) {
    return { messageId, position: position === undefined ? undefined : Number(position) };
  }
  throw new TypeError(
    "expected a message ID, or '<message ID>/<position>' for a request of a packed message, got " +
      `${JSON.stringify(id)}; give the IDs as submit returned them`,
  );
}
