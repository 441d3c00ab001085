import type { MaybePromise } from '../base/maybePromise.ts';
import { nextTurn } from '../base/nextTurn.ts';
import type { Room } from '../base/room.ts';
import { within } from '../base/within.ts';
import { failure } from '../contract/failure.ts';
import type { Observer } from '../contract/observer.ts';
import type { MessageRecord } from '../contract/record.ts';
import type { DecodedBody } from '../contract/request.ts';
import { type DecodeDependencies, decodeFromTemplate } from './decode.ts';
import { createTemplates } from './template.ts';

export interface DecodeInOrderDependencies extends DecodeDependencies {
  readonly observer: Observer;
  /** A clock that never goes back, in milliseconds. */
  readonly now: () => number;
}

export interface DecodedRecord {
  readonly record: number;
  readonly body: DecodedBody;
}

/** Bodies decoded before the event loop has its turn: a millisecond or two of work, enough for S3 and transforms. */
const BODIES_A_TURN = 256;
/** Characters of bodies decoded before the event loop has its turn: some milliseconds of work. */
const CHARACTERS_A_TURN = 256 * 1024;
/** Nothing came for so long: what was decoded is not to wait for a slow object. */
const STALLED_MS = 250;
/** Bodies that wait for S3 or a transform at the same time, unless none of them comes. */
const BODIES_UNDER_WAY = 256;

/**
 * Decodes the bodies of `records` at the positions `order`, some at a time; those that wait for something are given
 * when they are there. In between the event loop sees to runs and writes.
 *
 * Gives an empty list when it waits: what was decoded before had better be scored meanwhile.
 *
 * @param room for payloads, by record. When they wait for it, what was decoded is given at once, so that it can be
 *   scored and its room released
 */
export async function* decodeInOrder(
  records: readonly MessageRecord[],
  order: readonly number[],
  deps: DecodeInOrderDependencies,
  room: Room,
  signal: AbortSignal,
): AsyncGenerator<readonly DecodedRecord[]> {
  const templates = createTemplates();
  const underWay = new Set<Promise<void>>();
  let decoded: DecodedRecord[] = [];
  let characters = 0;
  let stalled = false;
  const take = (): readonly DecodedRecord[] => {
    const taken = decoded;
    decoded = [];
    characters = 0;
    return taken;
  };
  const options = { admit: (record: number, bytes: number) => room.take(record, bytes, signal), signal };
  // A decoder that throws is a bug: the record is handed back.
  const notDecoded = (error: unknown): DecodedBody => {
    deps.observer.problem(error);
    return NOT_DECODED;
  };
  const decodeOne = (body: string, record: number): MaybePromise<DecodedBody> => {
    try {
      const one = decodeFromTemplate(templates, body, record, deps, options);
      return one instanceof Promise ? one.catch(notDecoded) : one;
    } catch (error) {
      return notDecoded(error);
    }
  };
  // What was under way may have arrived while the caller was busy.
  const progress = async (): Promise<void> => {
    if (decoded.length > 0 || underWay.size === 0) return;
    await within(STALLED_MS, Promise.race([...underWay, room.nextWaiter()]));
  };

  for (const record of order) {
    if (signal.aborted) break;
    const { body } = records[record] as MessageRecord;
    const one = decodeOne(body, record);
    if (one instanceof Promise) {
      const arrival = one.then((late) => {
        decoded.push({ record, body: late });
        underWay.delete(arrival);
      });
      underWay.add(arrival);
    } else decoded.push({ record, body: one });
    characters += body.length;
    if (decoded.length >= BODIES_A_TURN || characters >= CHARACTERS_A_TURN) {
      yield take();
      await nextTurn();
    }
    while (underWay.size >= BODIES_UNDER_WAY && !stalled) {
      await progress();
      stalled = decoded.length === 0;
      yield take();
    }
  }
  while (underWay.size > 0) {
    await progress();
    yield take();
  }
  if (decoded.length > 0) yield take();
}

const NOT_DECODED: DecodedBody = {
  id: undefined,
  failure: failure('INTERNAL', 'expected the decoder to answer; it threw; the record is handed back'),
};
