import { isObject, parseIfJson } from '../base/json.ts';
import type { MaybePromise } from '../base/maybePromise.ts';
import { nextTurn } from '../base/nextTurn.ts';
import { type DecodedRequest, isRefused } from '../contract/request.ts';
import { decodeRequest, type RequestDependencies } from './decodeRequest.ts';
import { isShort, MOST_LEVELS, mostContainers, outlineAt } from './outline.ts';
import type { Cursor } from './readTemplate.ts';
import type { Templates } from './template.ts';

/** Requests and characters of a packed body that are read before the event loop has its turn. */
const REQUESTS_A_TURN = 256;
const CHARACTERS_A_TURN = 256 * 1024;

/**
 * The requests of a packed body one after the other, each by a template where it is like one before. What they are, and
 * what is refused, is exactly what a full decode of the body gives: a hundred requests of 64 floats take 0.7 µs each in
 * place of 3 from base64, and 2.6 in place of 8 from JSON (two cores, Node 24).
 *
 * Undefined where the body must be decoded in full: it is not a list of objects, or not one of valid JSON, or templates do
 * not help with it, or it has more of anything than is allowed.
 */
export function readPacked(
  templates: Templates,
  body: string,
  record: number,
  deps: RequestDependencies,
): MaybePromise<readonly DecodedRequest[] | undefined> {
  const start = afterSpace(body, 0);
  if (body.charCodeAt(start) !== OPEN_ARRAY) return undefined;
  const reading: Reading = {
    body,
    cursor: { record, position: 0, at: afterSpace(body, start + 1), containers: 1 },
    requests: [],
    templates,
    deps,
  };
  const reached = readSome(reading);
  return reached === 'more' ? readTheRest(reading) : given(reached, reading);
}

interface Reading {
  readonly body: string;
  readonly cursor: Cursor;
  readonly requests: DecodedRequest[];
  readonly templates: Templates;
  readonly deps: RequestDependencies;
}

/** `end`: all is read. `more`: there is more to read. `odd`: it must be decoded in full. */
type Reached = 'end' | 'more' | 'odd';

async function readTheRest(reading: Reading): Promise<readonly DecodedRequest[] | undefined> {
  for (;;) {
    await nextTurn();
    const reached = readSome(reading);
    if (reached !== 'more') return given(reached, reading);
  }
}

function given(reached: Reached, { body, cursor, requests }: Reading): readonly DecodedRequest[] | undefined {
  const allowed = isShort(body) || cursor.containers <= mostContainers(body);
  return reached === 'end' && allowed ? requests : undefined;
}

const COMMA = 44;
const OPEN_ARRAY = 91;
const CLOSE_ARRAY = 93;
const OPEN_OBJECT = 123;

/** Reads a turn's worth, from the beginning of a request to the beginning of another. */
function readSome({ body, cursor, requests, templates, deps }: Reading): Reached {
  const turnEnds = cursor.at + CHARACTERS_A_TURN;
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
}

/** Decodes the request at the cursor in full, and moves the cursor behind it. */
function decodeNext(
  body: string,
  cursor: Cursor,
  templates: Templates,
  deps: RequestDependencies,
): DecodedRequest | undefined {
  const { record, position, at } = cursor;
  if (body.charCodeAt(at) !== OPEN_OBJECT || !templates.isLearning()) return undefined;
  const { end, levels, containers } = outlineAt(body, at);
  // As one of a packed body it has one level more.
  if (end > body.length || levels >= MOST_LEVELS) return undefined;
  const text = body.slice(at, end);
  const value = parseIfJson(text);
  if (!isObject(value) || !Array.isArray(value.inputs)) return undefined;
  const request = decodeRequest(value, { path: `[${position}]`, record, position }, deps);
  // What has to wait for its model or a transform, all of its neighbours are likely to wait for.
  if (request instanceof Promise) return undefined;
  if (!isRefused(request)) templates.learn(text, request);
  cursor.position = position + 1;
  cursor.at = end;
  cursor.containers += containers;
  return request;
}

const SPACE = 32;
const TAB = 9;
const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;

/** Where what follows JSON's white space begins. */
function afterSpace(text: string, from: number): number {
  let at = from;
  for (let code = text.charCodeAt(at); isSpace(code); code = text.charCodeAt(at)) at += 1;
  return at;
}

function isSpace(code: number): boolean {
  return code === SPACE || code === LINE_FEED || code === TAB || code === CARRIAGE_RETURN;
}
