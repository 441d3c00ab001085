import { allThere, type MaybePromise } from '../base/maybePromise.ts';
import { failure } from '../contract/failure.ts';
import type { Observer } from '../contract/observer.ts';
import type { MessageRecord } from '../contract/record.ts';
import type { DecodedBody } from '../contract/request.ts';
import { type DecodeDependencies, decodeFromTemplate } from './decode.ts';
import { createTemplates, type Templates } from './template.ts';

export interface DecodeInOrderDependencies extends DecodeDependencies {
  readonly observer: Observer;
  /** A clock that never goes back, in milliseconds. */
  readonly now: () => number;
}

/** Bodies decoded before the event loop has its turn: a millisecond or two of work, enough for S3 and transforms. */
const DECODED_TOGETHER = 256;

export interface DecodedBodies {
  /** The record of the first body. */
  readonly from: number;
  readonly bodies: readonly DecodedBody[];
}

/** Bodies in the order of their records, some at a time. In between the event loop sees to runs and writes. */
export async function* decodeInOrder(
  records: readonly MessageRecord[],
  deps: DecodeInOrderDependencies,
  signal: AbortSignal,
): AsyncGenerator<DecodedBodies> {
  const templates = createTemplates();
  let decodeMs = 0;
  for (let from = 0; from < records.length && !signal.aborted; from += DECODED_TOGETHER) {
    const startedAt = deps.now();
    const bodies: MaybePromise<DecodedBody>[] = [];
    for (let record = from; record < records.length && bodies.length < DECODED_TOGETHER; record++) {
      bodies.push(decodeOne(templates, records[record] as MessageRecord, record, deps, signal));
    }
    const decoded = await allThere(bodies);
    decodeMs += deps.now() - startedAt;
    yield { from, bodies: decoded };
    if (from + DECODED_TOGETHER < records.length) await nextTurn();
  }
  deps.observer.decoded(decodeMs);
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function decodeOne(
  templates: Templates,
  { body }: MessageRecord,
  record: number,
  deps: DecodeInOrderDependencies,
  signal: AbortSignal,
): MaybePromise<DecodedBody> {
  try {
    const decoded = decodeFromTemplate(templates, body, record, deps, signal);
    return decoded instanceof Promise ? decoded.catch((error: unknown) => notDecoded(error, deps)) : decoded;
  } catch (error) {
    return notDecoded(error, deps);
  }
}

function notDecoded(error: unknown, { observer }: DecodeInOrderDependencies): DecodedBody {
  observer.problem(error);
  const failed = failure('INTERNAL', 'expected the decoder to answer; it threw; the record is handed back');
  return { id: undefined, failure: failed };
}
