import { allThere, type MaybePromise, whenThere } from '../base/maybePromise.ts';
import { nextTurn } from '../base/nextTurn.ts';
import { type Failure, failure, isFailure, preview } from '../contract/failure.ts';
import type { ModelRepository } from '../contract/model.ts';
import type { PayloadPointer, PayloadReader } from '../contract/payload.ts';
import { parsePointer } from '../contract/pointer.ts';
import {
  type DecodedBody,
  type DecodedRequest,
  isPacked,
  isRefused,
  type RefusedRequest,
} from '../contract/request.ts';
import { decodeRequest } from './decodeRequest.ts';
import { WHOLE_BODY } from './fieldPath.ts';
import { type DecodeLimits, tooManyRequests } from './limits.ts';
import { MOST_KEYS, MOST_LEVELS, mostContainers, outlineOf } from './outline.ts';
import { readPacked } from './readPacked.ts';
import type { Templates } from './template.ts';

export interface DecodeDependencies {
  readonly models: ModelRepository;
  /** Where bodies too large for SQS are read from; undefined in a deployment without a payload bucket. */
  readonly payloads?: PayloadReader | undefined;
  readonly limits: DecodeLimits;
}

export interface DecodeOptions {
  /** Waits for memory for so many bytes of a record's payload. */
  readonly admit: (record: number, bytes: number) => Promise<void>;
  readonly signal: AbortSignal;
}

/** {@link decodeBody}, the short way where a request is the same text as one before but for its id and elements. */
export function decodeFromTemplate(
  templates: Templates,
  body: string,
  record: number,
  deps: DecodeDependencies,
  options: DecodeOptions,
): MaybePromise<DecodedBody> {
  const read = templates.read(body, record);
  if (read !== undefined) return read;
  const decoded = decodeBody(body, record, deps, options, templates);
  // What was there at once was in the body itself, not in an object that it points to.
  if (!(decoded instanceof Promise || isPacked(decoded) || isRefused(decoded))) templates.learn(body, decoded);
  return decoded;
}

/**
 * A record's body, decoded and proved valid: at once where nothing has to be read or loaded first. What is wrong with
 * a request is in the answer, never thrown.
 *
 * @param record which record of the invocation it is
 * @param templates for the requests of a packed body. @default each is decoded in full
 * @see docs/message-format.md
 */
export function decodeBody(
  body: string,
  record: number,
  deps: DecodeDependencies,
  options: DecodeOptions,
  templates?: Templates,
): MaybePromise<DecodedBody> {
  return whenThere(packedIn(body, record, deps, templates), (packed) => {
    if (packed !== undefined) return packed;
    const parsed = parseJson(body, WHOLE_BODY, deps.limits);
    if (isFailure(parsed)) return refusedBody(parsed);
    const pointer = parsePointer(parsed.value);
    if (pointer === undefined) return decodeValue(parsed.value, record, deps);
    return isFailure(pointer) ? refusedBody(pointer) : decodePayload(pointer, record, deps, options, templates);
  });
}

function packedIn(
  text: string,
  record: number,
  deps: DecodeDependencies,
  templates: Templates | undefined,
): MaybePromise<readonly DecodedRequest[] | undefined> {
  return templates === undefined ? undefined : readPacked(templates, text, record, deps);
}

/** The object that a body points to. */
function decodePayload(
  pointer: PayloadPointer,
  record: number,
  deps: DecodeDependencies,
  { admit, signal }: DecodeOptions,
  templates: Templates | undefined,
): MaybePromise<DecodedBody> {
  const { payloads, limits } = deps;
  if (payloads === undefined) {
    const wrong = 'expected a request, got a pointer to S3; this deployment has no payload bucket';
    return refusedBody(failure('INVALID_POINTER', `body: ${wrong}`));
  }
  const options = { admit: (bytes: number) => admit(record, bytes), signal };
  return payloads.read(pointer, options).then(async (text): Promise<DecodedBody> => {
    if (isFailure(text)) return refusedBody(text);
    const packed = await packedIn(text, record, deps, templates);
    if (packed !== undefined) return packed;
    const parsed = parsePayload(text, pointer, limits);
    return isFailure(parsed) ? refusedBody(parsed) : decodeValue(parsed.value, record, deps);
  });
}

function decodeValue(value: unknown, record: number, deps: DecodeDependencies): MaybePromise<DecodedBody> {
  return Array.isArray(value)
    ? decodePacked(value, record, deps)
    : decodeRequest(value, { path: WHOLE_BODY, record, position: 0 }, deps);
}

function refusedBody(failed: Failure): RefusedRequest {
  return { id: undefined, failure: failed };
}

/** Requests of a packed message that are decoded before the event loop has its turn. */
const REQUESTS_A_TURN = 256;

function decodePacked(values: readonly unknown[], record: number, deps: DecodeDependencies): MaybePromise<DecodedBody> {
  if (values.length === 0) {
    const message = 'body: expected at least one request in a packed message, got none; put one into the array';
    return refusedBody(failure('INVALID_REQUEST', message));
  }
  if (values.length > deps.limits.maxRequestsPerMessage) {
    return refusedBody(tooManyRequests(values.length, WHOLE_BODY, deps.limits));
  }
  const decodeSome = (from: number): MaybePromise<DecodedRequest>[] =>
    values
      .slice(from, from + REQUESTS_A_TURN)
      .map((value, index) => decodeRequest(value, { path: `[${from + index}]`, record, position: from + index }, deps));
  return values.length <= REQUESTS_A_TURN ? allThere(decodeSome(0)) : decodeByTurns(values.length, decodeSome);
}

async function decodeByTurns(
  requests: number,
  decodeSome: (from: number) => MaybePromise<DecodedRequest>[],
): Promise<DecodedBody> {
  const decoded: MaybePromise<DecodedRequest>[] = [];
  for (let from = 0; from < requests; from += REQUESTS_A_TURN) {
    for (const request of decodeSome(from)) decoded.push(request);
    await nextTurn();
  }
  return allThere(decoded);
}

interface Parsed {
  readonly value: unknown;
}

function parsePayload(text: string, { key }: PayloadPointer, limits: DecodeLimits): Parsed | Failure {
  const where = `s3 object ${preview(key)}`;
  const parsed = parseJson(text, where, limits);
  if (isFailure(parsed) || parsePointer(parsed.value) === undefined) return parsed;
  return failure('INVALID_POINTER', `${where}: expected a request, got another pointer; point to the request itself`);
}

function parseJson(text: string, path: string, limits: DecodeLimits): Parsed | Failure {
  const { levels, containers, keys, elements } = outlineOf(text);
  const most = mostContainers(text);
  if (levels > MOST_LEVELS || containers > most || keys > MOST_KEYS) {
    const allowed = `${most} arrays and objects, on ${MOST_LEVELS} levels, and ${MOST_KEYS} keys in an object`;
    return failure('INVALID_REQUEST', `${path}: expected at most ${allowed}, got more; send elements flat`);
  }
  if (elements > limits.maxRequestsPerMessage) return tooManyRequests(elements, path, limits);
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    const position = error instanceof SyntaxError ? /at position \d+/.exec(error.message)?.[0] : undefined;
    return failure(
      'INVALID_JSON',
      `${path}: expected one JSON request, got ${text.length} characters that are not JSON` +
        `${position === undefined ? '' : ` (${position})`}; NaN and Infinity are written as strings`,
    );
  }
}
