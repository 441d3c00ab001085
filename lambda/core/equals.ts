import { crc32 } from 'node:zlib';
import { isFramedAlike, isSameList } from './encode.ts';
import type { Part, RequestInput, ScoringRequest } from './microBatch.ts';
import type { Model } from './model.ts';
import { isBase64Data } from './tensor.ts';

/** Groups of requests with equal inputs within one call. The first of a group runs, and its outputs answer all. */
export interface Equals {
  /**
   * Returns true if a request joins an equal one, and needs no run of its own. One of a packed message joins only those
   * of its message, because early answers to many messages would be kept until each message is complete.
   */
  join(request: ScoringRequest, isPacked: boolean): boolean;
  /** Returns a request and those that joined it. No more requests join it. */
  close(request: ScoringRequest): readonly ScoringRequest[];
  /** Returns the requests that a run of parts answers. */
  answeredBy(parts: readonly Part[]): readonly ScoringRequest[];
}

/** Share of repeated requests by model, to look for them only if they are frequent. It lives as long as the process. */
export type RepeatCounts = WeakMap<Model, Repeats>;

interface Repeats {
  requests: number;
  joined: number;
  areRare: boolean;
  calls: number;
}

const MIN_SHARE = 0.02;
const REQUESTS_TO_DECIDE = 512;
/** If repeats are rare, one call of this many is examined. */
const CALLS_TO_EXAMINE_ONE = 16;

interface Group {
  readonly hash: number;
  /** Groups of the model that requests may join, by hash. */
  readonly open: Map<number, Group>;
  readonly requests: ScoringRequest[];
}

/**
 * @param counts counts of the process. @default no request joins another
 * @param mayRepeat returns true if requests of its model may join others. Called with the first of each model
 */
export function createEquals(
  counts: RepeatCounts | undefined,
  mayRepeat: (request: ScoringRequest) => boolean,
): Equals {
  const examined = new Map<Model, { readonly repeats: Repeats; readonly open: Group['open'] } | undefined>();
  const groups = new WeakMap<ScoringRequest, Group>();
  let isMerging = false;
  return {
    join(request, isPacked) {
      const { model } = request;
      if (!examined.has(model)) examined.set(model, counts && mayRepeat(request) ? examine(model, counts) : undefined);
      const ofModel = examined.get(model);
      if (ofModel === undefined) return false;
      const { repeats, open } = ofModel;
      repeats.requests += 1;
      const hash = hashOf(request);
      const found = open.get(hash);
      const [first] = found?.requests ?? [];
      const mayJoin = first !== undefined && (!isPacked || first.bodyIndex === request.bodyIndex);
      if (found !== undefined && mayJoin && areEqual(first, request)) {
        repeats.joined += 1;
        found.requests.push(request);
        return true;
      }
      isMerging = true;
      const group = { hash, open, requests: [request] };
      open.set(hash, group);
      groups.set(request, group);
      return false;
    },
    close(request) {
      const group = isMerging ? groups.get(request) : undefined;
      if (group === undefined) return [request];
      if (group.open.get(group.hash) === group) group.open.delete(group.hash);
      return group.requests;
    },
    answeredBy(parts) {
      if (!isMerging) return parts.map(({ request }) => request);
      return parts.flatMap(({ request }) => groups.get(request)?.requests ?? request);
    },
  };
}

/** Returns undefined if repeats of the model are rare, except for some calls. */
function examine(model: Model, counts: RepeatCounts) {
  const repeats = counts.get(model) ?? { requests: 0, joined: 0, areRare: false, calls: 0 };
  counts.set(model, repeats);
  if (repeats.requests >= REQUESTS_TO_DECIDE) {
    repeats.areRare = repeats.joined < MIN_SHARE * repeats.requests;
    repeats.requests = 0;
    repeats.joined = 0;
  }
  repeats.calls += 1;
  return repeats.areRare && repeats.calls % CALLS_TO_EXAMINE_ONE !== 0 ? undefined : { repeats, open: new Map() };
}

function hashOf({ inputs }: ScoringRequest): number {
  let hash = 0;
  for (const { data } of inputs) {
    if (Array.isArray(data)) for (const element of data) hash = crc32(element, hash);
    else hash = crc32(isBase64Data(data) ? data.base64 : data, hash);
  }
  return hash | 0;
}

function areEqual(a: ScoringRequest, b: ScoringRequest): boolean {
  return isFramedAlike(a, b) && a.inputs.every((input, index) => isSameInput(input, b.inputs[index] as RequestInput));
}

/** Compares bits: equal NaNs are equal, and zeros of different sign are not. */
function isSameInput({ shape, data }: RequestInput, other: RequestInput): boolean {
  if (!isSameList(shape, other.shape)) return false;
  if (Array.isArray(data)) return Array.isArray(other.data) && isSameList(data, other.data);
  if (isBase64Data(data)) return isBase64Data(other.data) && data.base64 === other.data.base64;
  return ArrayBuffer.isView(other.data) && bytesOf(data).equals(bytesOf(other.data));
}

function bytesOf({ buffer, byteOffset, byteLength }: NodeJS.ArrayBufferView): Buffer {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);
}
