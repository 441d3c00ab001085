import { type Cursor, createTemplates, type Templates } from './bodyTemplate.ts';
import {
  allThere,
  createMemoryBudget,
  type MaybePromise,
  type MemoryBudget,
  nextTurn,
  whenThere,
  withTimeout,
} from './concurrency.ts';
import { type Failure, failure, isFailure, messageOf, preview } from './failure.ts';
import { createHookBatch, type HookBatch } from './hookBatch.ts';
import { isObject, parseIfJson } from './json.ts';
import { textLookAlike } from './lookAlikes.ts';
import {
  type Body,
  bodySize,
  type DecodedBody,
  type DecodedRequest,
  isPacked,
  isRefused,
  type RefusedRequest,
  type TensorRequest,
} from './microBatch.ts';
import type { Model, TransformBody, TransformInput } from './model.ts';
import type { Observer } from './observer.ts';
import { isShort, MAX_KEYS, MAX_LEVELS, maxContainers, outlineAt, outlineOf } from './outline.ts';
import { type PayloadPointer, type PayloadReader, parsePointer, type TimeLimit } from './record.ts';
import type { KeyedBody } from './replies.ts';
import { type DecodeTogether, decodeRequest, idOf, mayHaveOwnForm, type RequestDependencies } from './request.ts';
import { type DecodeLimits, tooManyRequests } from './requestInputs.ts';
import { WHOLE_BODY } from './values.ts';

export interface DecodeDependencies extends RequestDependencies {
  /** Reads bodies that are too large for SQS. Undefined if there is no payload bucket. */
  readonly payloads?: PayloadReader | undefined;
}

export interface IndexedBody {
  readonly bodyIndex: number;
  readonly body: DecodedBody;
}

/** Bodies to decode before yielding to the event loop: one or two milliseconds of work. */
const BODIES_A_TURN = 256;
/** Size of bodies to decode before yielding to the event loop, in characters or bytes: some milliseconds of work. */
const SIZE_A_TURN = 256 * 1024;
/** Time without a decoded body after which the decoded ones are scored without waiting for slow objects. */
const STALLED_MS = 250;
/** Maximum number of bodies that wait for S3 or a transform, unless none of them arrives. */
const BODIES_UNDER_WAY = 256;
/**
 * Maximum number of decoded requests of packed bodies that the caller has not taken. Each may become an error a hundred
 * times as long as the request.
 */
const REQUESTS_UNTAKEN = 32 * 1024;
/** Length of the shortest request with its comma. */
const FEWEST_CHARACTERS = 2;

/**
 * Decodes bodies, and yields to the event loop for runs and writes in between. Bodies that wait for S3, a model or a
 * transform are yielded when they arrive. Bodies that wait for a batch hook come last: the hook is called when no other
 * body can join them, or memory is full.
 *
 * Yields an empty list while it waits: the caller should score the bodies that it has.
 *
 * @param payloadMemory memory of payloads by body. If one has to wait for memory, the decoded bodies are yielded, so
 *   that the caller can score them and release their memory
 */
export async function* decodeBodies(
  bodies: readonly KeyedBody[],
  deps: DecodeDependencies & { readonly observer: Observer; readonly now: () => number },
  payloadMemory: MemoryBudget,
  time: TimeLimit,
): AsyncGenerator<readonly IndexedBody[]> {
  const { signal } = time;
  const hooks = createDecodeHooks(time, deps);
  const reads = new Set<Promise<unknown>>();
  const ownDeps = { ...deps, decodeTogether: hooks.decode };
  const templates = createTemplates();
  let underWay = 0;
  /** Created for each wait. A single `Promise.race` would process all pending bodies at each arrival. */
  let arrival: PromiseWithResolvers<void> | undefined;
  const requestMemory = createMemoryBudget(REQUESTS_UNTAKEN);
  let decoded: IndexedBody[] = [];
  let given: readonly IndexedBody[] = [];
  let bodiesThisTurn = 0;
  let sizeThisTurn = 0;
  let stalled = false;
  const take = (): readonly IndexedBody[] => {
    release();
    given = decoded;
    decoded = [];
    return given;
  };
  /** A caller that asks for more has processed the bodies it got. */
  const release = (): void => {
    for (const { bodyIndex } of given) requestMemory.release(bodyIndex);
    given = [];
  };
  const options = {
    admit: async (bodyIndex: number, bytes: number) => payloadMemory.acquire(bodyIndex, bytes, signal),
    signal,
    reads,
    requestMemory,
  };
  // A decoder that throws is a bug, and the body is handed back.
  const notDecoded = (error: unknown): DecodedBody => {
    deps.observer.problem(error);
    return NOT_DECODED;
  };
  const decodeOne = ({ body, refused }: KeyedBody, bodyIndex: number): MaybePromise<DecodedBody> => {
    try {
      const one =
        refused === undefined
          ? decodeBody(body, bodyIndex, ownDeps, options, templates)
          : decodeBody(body, bodyIndex, ownDeps, { ...options, refused });
      return one instanceof Promise ? one.catch(notDecoded) : one;
    } catch (error) {
      return notDecoded(error);
    }
  };
  // Pending bodies may have arrived while the caller was busy.
  const progress = async (): Promise<void> => {
    release();
    if (decoded.length > 0 || underWay === 0) return;
    arrival = Promise.withResolvers();
    await withTimeout(Promise.race([arrival.promise, payloadMemory.nextWaiter()]), STALLED_MS);
  };

  for (const [bodyIndex, keyed] of bodies.entries()) {
    if (signal.aborted) break;
    const one = decodeOne(keyed, bodyIndex);
    if (one instanceof Promise) {
      underWay += 1;
      void one.then((late) => {
        decoded.push({ bodyIndex, body: late });
        underWay -= 1;
        arrival?.resolve();
      });
    } else decoded.push({ bodyIndex, body: one });
    bodiesThisTurn += 1;
    sizeThisTurn += bodySize(keyed.body);
    if (bodiesThisTurn >= BODIES_A_TURN || sizeThisTurn >= SIZE_A_TURN) {
      if (decoded.length > 0) yield take();
      await nextTurn();
      bodiesThisTurn = 0;
      sizeThisTurn = 0;
    }
    while (underWay - hooks.bodies.size >= BODIES_UNDER_WAY && !stalled) {
      await progress();
      stalled = decoded.length === 0;
      if (stalled) hooks.call();
      yield take();
    }
  }
  while (underWay > 0) {
    if (signal.aborted) return;
    if (hooks.bodies.size > 0) {
      if (reads.size > 0)
        await withTimeout(Promise.race([Promise.allSettled(reads), payloadMemory.nextWaiter()]), STALLED_MS);
      await hooks.waitUntilGathered();
      hooks.call();
      // Runs of other models start meanwhile.
      yield take();
      yield [];
    }
    await progress();
    yield take();
  }
  if (decoded.length > 0) yield take();
}

type DecodeBatch = HookBatch<TransformBody, readonly TransformInput[]>;

function createDecodeHooks(time: TimeLimit, deps: { readonly observer: Observer; readonly now: () => number }) {
  const batches = new Map<Model, DecodeBatch>();
  const bodies = new Set<number>();
  const size = (): number => batches.values().reduce((sum, batch) => sum + batch.size(), 0);
  const decode: DecodeTogether = (model, body, place) => {
    const hook = model.transform?.decodeBatch;
    const batch = batches.get(model) ?? createHookBatch('decodeBatch', hook, model, time, deps);
    batches.set(model, batch);
    // The first copy is made now, not all copies when the hook is called. A body that cannot be copied fails alone.
    let first: TransformBody | undefined = copyOf(body);
    bodies.add(place.bodyIndex);
    return batch.add(() => {
      const copy = first ?? copyOf(body);
      first = undefined;
      return copy;
    }, place);
  };
  return {
    bodies,
    decode,
    /** Resolves when a turn of the event loop adds no request. A large packed message takes many turns. */
    async waitUntilGathered(): Promise<void> {
      for (let before = -1; before < size(); ) {
        before = size();
        await nextTurn();
      }
    },
    call(): void {
      bodies.clear();
      for (const batch of batches.values()) void batch.call();
    },
  };
}

/**
 * Copies a value parsed from JSON.
 *
 * @throws Error if it has too many levels
 */
function copyOf<T>(value: T, level = 1): T {
  if (!isCompound(value)) return value;
  if (level > MAX_LEVELS) {
    throw new Error(`expected at most ${MAX_LEVELS} levels of arrays and objects, got more; send elements flat`);
  }
  const deeper = <V>(one: V): V => copyOf(one, level + 1);
  if (Array.isArray(value)) return (value.some(isCompound) ? value.map(deeper) : value.slice()) as T;
  const copy = { ...value };
  for (const key in copy) copy[key] = deeper(copy[key]);
  return copy;
}

function isCompound(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

const NOT_DECODED: DecodedBody = {
  id: undefined,
  failure: failure('INTERNAL', 'expected the decoder to answer; it threw; the body is handed back'),
};

const OUT_OF_TIME: DecodedBody = {
  id: undefined,
  failure: failure('DEADLINE', 'expected the body to be decoded before the deadline, it was not; raise the timeout'),
};

interface DecodeOptions {
  /** Waits for memory for the bytes of a payload. */
  readonly admit: (bodyIndex: number, bytes: number) => Promise<void>;
  readonly signal: AbortSignal;
  /** Collects the reads in progress. @default they are not collected */
  readonly reads?: Set<Promise<unknown>>;
  /** Limits the requests of packed bodies, by body: see {@link decodeText}. @default unlimited */
  readonly requestMemory?: MemoryBudget;
  /** Failures of packed requests that must not be decoded, by position. @default none */
  readonly refused?: ReadonlyMap<number, Failure>;
}

/**
 * Decodes and checks a body, synchronously if nothing has to be read or loaded first. It returns errors of requests and
 * never throws them.
 *
 * @param bodyIndex index of the body in the call
 * @param templates read requests that equal an earlier one except for id and elements. @default every request is
 *   decoded in full
 * @see docs/message-format.md
 */
export function decodeBody(
  body: Body,
  bodyIndex: number,
  deps: DecodeDependencies,
  options: DecodeOptions,
  templates?: Templates,
): MaybePromise<DecodedBody> {
  if (typeof body !== 'string') return decodeTensors(body, bodyIndex, deps);
  const read = templates?.read(body, bodyIndex);
  if (read !== undefined) return read;
  const decoded = decodeText(body, WHOLE_BODY, bodyIndex, deps, options, templates);
  // A template matches bodies, so it does not learn a text from S3, which arrives later.
  if (!(decoded instanceof Promise || isPacked(decoded) || isRefused(decoded))) templates?.learn(body, decoded);
  return decoded;
}

/** Checks a request of tensors like one of JSON. */
function decodeTensors(
  { inputs, reply }: TensorRequest,
  bodyIndex: number,
  deps: DecodeDependencies,
): MaybePromise<DecodedRequest> {
  return whenThere(decodeRequest({ inputs }, { path: WHOLE_BODY, bodyIndex, position: 0 }, deps), (request) =>
    isRefused(request) ? request : { ...request, reply },
  );
}

/**
 * Decodes a text. A text that may hold many requests waits for memory for all of them first. Afterwards it holds memory
 * for its actual requests until they are taken, but none while it waits for an object, a model or a transform.
 *
 * @param where source of the text: the whole body, or an object that it points to
 */
function decodeText(
  text: string,
  where: string,
  bodyIndex: number,
  deps: DecodeDependencies,
  options: DecodeOptions,
  templates: Templates | undefined,
): MaybePromise<DecodedBody> {
  const { requestMemory, signal } = options;
  const decode = (): MaybePromise<DecodedBody> =>
    whenThere(readPacked(text, bodyIndex, deps, signal, templates), (packed) => {
      if (packed !== undefined) return packed;
      const parsed = parseJson(text, where, deps.limits);
      if (isFailure(parsed)) return refusedBody(parsed);
      const pointer = parsePointer(parsed);
      if (pointer === undefined) {
        return Array.isArray(parsed)
          ? decodePacked(parsed, bodyIndex, deps, options)
          : decodeRequest(parsed, { path: WHOLE_BODY, bodyIndex, position: 0 }, deps);
      }
      if (where !== WHOLE_BODY) {
        const wrong = 'expected a request, got another pointer; point to the request itself';
        return refusedBody(failure('INVALID_POINTER', `${where}: ${wrong}`));
      }
      if (isFailure(pointer)) return refusedBody(pointer);
      requestMemory?.release(bodyIndex);
      return decodePayload(pointer, bodyIndex, deps, options, templates);
    });
  const max = Math.min(Math.ceil(text.length / FEWEST_CHARACTERS), deps.limits.maxRequestsPerMessage);
  if (requestMemory === undefined || max <= REQUESTS_A_TURN || !isList(text)) return decode();
  return whenThere(requestMemory.acquire(bodyIndex, max, signal), () => {
    if (signal.aborted) return OUT_OF_TIME;
    return whenThere(decode(), (decoded) => {
      requestMemory.release(bodyIndex);
      requestMemory.hold(bodyIndex, isPacked(decoded) ? decoded.length : 1);
      return decoded;
    });
  });
}

function decodePayload(
  pointer: PayloadPointer,
  bodyIndex: number,
  deps: DecodeDependencies,
  decodeOptions: DecodeOptions,
  templates: Templates | undefined,
): MaybePromise<DecodedBody> {
  const { admit, signal, reads } = decodeOptions;
  const { payloads } = deps;
  if (payloads === undefined) {
    const wrong = 'expected a request, got a pointer to S3; this deployment has no payload bucket';
    return refusedBody(failure('INVALID_POINTER', `body: ${wrong}`));
  }
  const options = { admit: (bytes: number) => admit(bodyIndex, bytes), signal };
  const reading = payloads.read(pointer, options).finally(() => reads?.delete(reading));
  reads?.add(reading);
  return reading.then((text) =>
    isFailure(text)
      ? refusedBody(text)
      : decodeText(text, `s3 object ${preview(pointer.key)}`, bodyIndex, deps, decodeOptions, templates),
  );
}

function refusedBody(failed: Failure): RefusedRequest {
  return { id: undefined, failure: failed };
}

/** Packed requests to decode before yielding to the event loop. */
const REQUESTS_A_TURN = 256;

function decodePacked(
  values: readonly unknown[],
  bodyIndex: number,
  deps: DecodeDependencies,
  { requestMemory, signal, refused }: DecodeOptions,
): MaybePromise<DecodedBody> {
  if (values.length === 0) {
    const message = 'body: expected at least one request in a packed message, got none; put one into the array';
    return refusedBody(failure('INVALID_REQUEST', message));
  }
  if (values.length > deps.limits.maxRequestsPerMessage) {
    return refusedBody(tooManyRequests(values.length, WHOLE_BODY, deps.limits));
  }
  const decodeSome = (from: number): MaybePromise<DecodedRequest>[] =>
    values.slice(from, from + REQUESTS_A_TURN).map((value, index) => {
      const position = from + index;
      const failed = refused?.get(position);
      if (failed !== undefined) return { id: idOf(value), failure: failed };
      return decodeRequest(value, { path: `[${position}]`, bodyIndex, position }, deps);
    });
  const allDecoded = (decoded: MaybePromise<DecodedRequest>[]): MaybePromise<DecodedBody> => {
    const all = allThere(decoded);
    // A body that waits for a model or a transform must not block others.
    if (all instanceof Promise) requestMemory?.release(bodyIndex);
    return all;
  };
  const decodeByTurns = async (): Promise<DecodedBody> => {
    const decoded: MaybePromise<DecodedRequest>[] = [];
    for (let from = 0; from < values.length; from += REQUESTS_A_TURN) {
      for (const request of decodeSome(from)) decoded.push(request);
      await nextTurn();
      if (signal.aborted) return OUT_OF_TIME;
    }
    return allDecoded(decoded);
  };
  return values.length <= REQUESTS_A_TURN ? allDecoded(decodeSome(0)) : decodeByTurns();
}

function parseJson(text: string, path: string, limits: DecodeLimits): unknown {
  const { levels, containers, keys, elements } = outlineOf(text);
  const max = maxContainers(text);
  if (levels > MAX_LEVELS || containers > max || keys > MAX_KEYS) {
    const allowed = `${max} arrays and objects, on ${MAX_LEVELS} levels, and ${MAX_KEYS} keys in an object`;
    return failure('INVALID_REQUEST', `${path}: expected at most ${allowed}, got more; send elements flat`);
  }
  // Checked before parsing: millions of requests that are numbers would take more memory than there is.
  if (elements > limits.maxRequestsPerMessage) return tooManyRequests(elements, path, limits);
  try {
    return JSON.parse(text);
  } catch (error) {
    return failure('INVALID_JSON', `${path}: expected one JSON request, got ${notJson(text, messageOf(error))}`);
  }
}

/** @param reason V8's error message */
function notJson(text: string, reason: string): string {
  const [position, index] = /at position (\d+)/.exec(reason) ?? [];
  const got = `${text.length} characters that are not JSON${position === undefined ? '' : ` (${position})`}`;
  const other = textLookAlike(text);
  if (other !== undefined) return other;
  const isCutShort = /Unterminated|end of JSON input/.test(reason) || Number(index) === text.length;
  if (isCutShort) return `${got}: it is cut short; send all of it`;
  return `${got}; ${/NaN|Infinity/.test(text) ? 'NaN and Infinity are written as strings' : 'correct it'}`;
}

const COMMA = 44;
const OPEN_ARRAY = 91;
const CLOSE_ARRAY = 93;
const OPEN_OBJECT = 123;

/** Progress: `end` of the text, `more` to read, or `odd`: the text must be decoded in full. */
type Reached = 'end' | 'more' | 'odd';

/**
 * Reads the requests of a packed body one after the other, by a template if one matches. The results and refusals equal
 * those of a full decode. A hundred requests of 64 floats take 0.7 µs each instead of 3 from base64, and 2.6 instead of
 * 8 from JSON (two cores, Node 24).
 *
 * Returns undefined if the body must be decoded in full: it is not a valid list of objects, templates do not match, or
 * it exceeds a limit.
 */
function readPacked(
  body: string,
  bodyIndex: number,
  deps: RequestDependencies,
  signal: AbortSignal,
  templates: Templates | undefined,
): MaybePromise<DecodedBody | undefined> {
  if (templates === undefined || !isList(body)) return undefined;
  const cursor: Cursor = { bodyIndex, position: 0, at: afterSpace(body, body.indexOf('[') + 1), containers: 1 };
  const requests: DecodedRequest[] = [];
  /** Reads one turn's requests. It starts and ends between requests. */
  const readSome = (): Reached => {
    const turnEnds = cursor.at + SIZE_A_TURN;
    for (let read = 0; read < REQUESTS_A_TURN && cursor.at < turnEnds; read++) {
      if (requests.length === deps.limits.maxRequestsPerMessage) return 'odd';
      const request = templates.readNext(body, cursor) ?? decodeNext(body, cursor, templates, deps);
      if (request === undefined) return 'odd';
      requests.push(request);
      const behind = afterSpace(body, cursor.at);
      const code = body.charCodeAt(behind);
      cursor.at = afterSpace(body, behind + 1);
      if (code === CLOSE_ARRAY) return cursor.at === body.length ? 'end' : 'odd';
      if (code !== COMMA) return 'odd';
    }
    return 'more';
  };
  const given = (reached: Reached): readonly DecodedRequest[] | undefined => {
    const allowed = isShort(body) || cursor.containers <= maxContainers(body);
    return reached === 'end' && allowed ? requests : undefined;
  };
  const readTheRest = async (): Promise<DecodedBody | undefined> => {
    let reached: Reached = 'more';
    while (reached === 'more') {
      await nextTurn();
      if (signal.aborted) return OUT_OF_TIME;
      reached = readSome();
    }
    return given(reached);
  };
  const reached = readSome();
  return reached === 'more' ? readTheRest() : given(reached);
}

function decodeNext(
  body: string,
  cursor: Cursor,
  templates: Templates,
  deps: RequestDependencies,
): DecodedRequest | undefined {
  const { bodyIndex, position, at } = cursor;
  if (body.charCodeAt(at) !== OPEN_OBJECT || !templates.isLearning()) return undefined;
  const { end, levels, containers } = outlineAt(body, at);
  // A packed request has one level more.
  if (end > body.length || levels >= MAX_LEVELS) return undefined;
  const text = body.slice(at, end);
  const value = parseIfJson(text);
  if (!isObject(value) || !Array.isArray(value.inputs) || mayHaveOwnForm(value, deps)) return undefined;
  const request = decodeRequest(value, { path: `[${position}]`, bodyIndex, position }, deps);
  if (request instanceof Promise) return undefined;
  if (!isRefused(request)) templates.learn(text, request);
  cursor.position = position + 1;
  cursor.at = end;
  cursor.containers += containers;
  return request;
}

function isList(text: string): boolean {
  return text.charCodeAt(afterSpace(text, 0)) === OPEN_ARRAY;
}

const SPACE = 32;
const TAB = 9;
const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;

function afterSpace(text: string, from: number): number {
  let at = from;
  for (let code = text.charCodeAt(at); isSpace(code); code = text.charCodeAt(at)) at += 1;
  return at;
}

function isSpace(code: number): boolean {
  return code === SPACE || code === LINE_FEED || code === TAB || code === CARRIAGE_RETURN;
}

/** Length of the head in which the name is searched. Producers write it among the first fields. */
const HEAD_CHARACTERS = 512;
const MODEL_NAME = /"model_name"\s*:\s*"([^"\\]+)"/;

/**
 * Guesses the model of a body without decoding it, or returns undefined. It may be wrong, for example for a packed
 * message with several models: the guess only affects which bodies are batched together.
 */
export function modelHint(body: string): string | undefined {
  return MODEL_NAME.exec(body.slice(0, HEAD_CHARACTERS))?.[1];
}
