import * as z from 'zod';
import { describeError } from '../lambda/aws/awsError.ts';
import { type Failure, isFailure, preview } from '../lambda/core/failure.ts';
import { isObject, parseIfJson } from '../lambda/core/json.ts';
import { liesUnder } from '../lambda/core/places.ts';
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

/** The deployment's bucket as far as results are read from it that were too large for their store. */
export interface PayloadSource {
  readonly bucket: string;
  /** What the keys of results begin with: no others are read. */
  readonly resultKeys: string;
  get(pointer: PayloadPointer): Promise<string>;
}

/** A stored result, read. */
export interface ReadResult {
  readonly result: ScoringResult;
  /** False where its payload could not be fetched: what is stored is the only trace of it and must be kept. */
  readonly complete: boolean;
}

/** Reads what a result store holds under a message ID, its payload included. Never throws because of one result. */
export type ReadStored = (messageId: string, stored: string) => Promise<ReadResult>;

/** @param payloads undefined in a deployment without a payload bucket */
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
 * One output: `data` holds the product of `shape` elements, row-major, in the typed array of `datatype`. 64-bit
 * integers are exact, in a BigInt64Array or BigUint64Array; BOOL is 0 and 1 in a Uint8Array; BYTES are strings.
 * It can be passed on as an input.
 */
export interface OutputTensor {
  readonly datatype: Datatype;
  /** `[rows, …]` */
  readonly shape: readonly number[];
  readonly data: TensorData;
}

export type OutputTensors = Readonly<Record<string, OutputTensor>>;

interface ResultHead {
  /** The SQS message ID of the request. */
  readonly messageId: string;
  /** The request's own `id`, if it had one. */
  readonly id?: string | undefined;
}

interface AnswerHead extends ResultHead {
  readonly model?: string | undefined;
  readonly version?: string | undefined;
}

/** The answer to a request in the canonical form. */
export interface OutputsResult extends AnswerHead {
  readonly outputs: OutputTensors;
}

/** The answer to a request in the short form: one prediction per row, as parsed from JSON. */
export interface PredictionsResult extends AnswerHead {
  readonly predictions: readonly unknown[];
}

/** The answer of a model with a transform, as parsed from JSON. */
export interface TransformResult extends AnswerHead {
  readonly result: unknown;
}

/** The request was not scored. */
export interface FailedResult extends ResultHead {
  readonly error: ScoringError;
}

export type SingleResult = OutputsResult | PredictionsResult | TransformResult | FailedResult;

/** The answers to the requests of a packed message, in their order. */
export interface PackedResult {
  readonly messageId: string;
  readonly results: readonly SingleResult[];
}

/** What became of one message. Tell the forms apart by their key: `'error' in result`, `'outputs' in result`, … */
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

/** Decodes what was written under `messageId`. What is malformed becomes a failed result; nothing is thrown. */
export function decodeResult(messageId: string, document: unknown): ScoringResult {
  if (!Array.isArray(document)) return decodeSingle(messageId, document);
  return { messageId, results: document.map((one) => decodeSingle(messageId, one)) };
}

/** @param reason what was expected and what came */
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

/** One result of a message of a result queue. */
export interface StoredResult {
  /** The message ID of its request. */
  readonly messageId: string;
  /** Decodes it, by `read` if it may lie in the payload bucket. */
  read(read: ReadStored): Promise<ReadResult>;
}

/** Why a message cannot be read. Nothing of it may be taken, and it must be kept. */
interface Unreadable {
  readonly problem: string;
}

/** Returns the results in a message of a result queue, in their order: one, or several if it is packed. */
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
 * The results of a message that holds several: a JSON array of them, each with its own message ID. The result of a
 * packed request is an array itself, of answers that all have its message ID.
 *
 * @param count what the message's attribute `results` says
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

/** The message ID that a result names; undefined where it names none, or answers of one array name several. */
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
 * The result of the request `id`, of what is stored for its message: an error of the whole message is that of each of its
 * requests. What is not there becomes a failed result; nothing is thrown.
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

/** Where a request is: in a message of its own, or at a position of a packed one. */
interface RequestPlace {
  readonly messageId: string;
  /** From 0 on; undefined for a message as a whole. */
  readonly position: number | undefined;
}

/** The ID of a request of a packed message: `<message ID>/<position>`. */
export function idInPacked(messageId: string, position: number): string {
  return `${messageId}/${position}`;
}

/** The messages of these IDs, each once. @throws TypeError as {@link placeOf} does */
export function messageIdsOf(ids: Iterable<string>): Set<string> {
  return new Set(Array.from(ids, (id) => placeOf(id).messageId));
}

const ID = /^([^/]+)(?:\/(0|[1-9]\d{0,8}))?$/;

/** @throws TypeError when an ID is none that `submit` gives */
export function placeOf(id: string): RequestPlace {
  const [, messageId, position] = ID.exec(id) ?? [];
  if (messageId !== undefined) {
    return { messageId, position: position === undefined ? undefined : Number(position) };
  }
  throw new TypeError(
    "expected a message ID, or '<message ID>/<position>' for a request of a packed message, got " +
      `${JSON.stringify(id)}; give the IDs as submit returned them`,
  );
}
