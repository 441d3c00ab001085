import { encodeError } from './encode.ts';
import { type Failure, failure, isTransient } from './failure.ts';
import type { Part } from './plan.ts';
import { type MessageRecord, orderingGroup } from './record.ts';
import { type DecodedBody, isRefused, type ScoringRequest } from './request.ts';
import type { Outcome, Result } from './result.ts';
import { join } from './stack.ts';
import type { Tensor } from './tensor.ts';

/** A result that is ready to be written, and the record it answers. */
export interface ReadyResult {
  readonly record: number;
  readonly result: Result;
}

/** Keeps who is still owed an answer: parts become requests, requests become records, records get one outcome. */
export interface Ledger {
  /** The requests to score, in the order of their records. */
  readonly requests: readonly ScoringRequest[];
  /** The whole request's outputs once its last part is in, or why its parts do not fit together; else undefined. */
  scored(part: Part, outputs: readonly Tensor[]): readonly Tensor[] | Failure | undefined;
  /** @param text the JSON text of the answer */
  answered(request: ScoringRequest, text: string): void;
  /** The ID under which a request is answered. */
  messageIdOf(request: ScoringRequest): string;
  /** Answers a request with an error, or hands its record back when the failure is transient. */
  failed(request: ScoringRequest, failed: Failure): void;
  /** Results that became ready since the last call and may be written in any order. */
  takeReady(): ReadyResult[];
  /** The result of one record, once all its requests are answered. */
  resultOf(record: number): Result | undefined;
  /** @param instead the failure that was written in place of the scores, if any */
  written(record: number, instead?: Failure): void;
  handBack(record: number, failed: Failure): void;
  outcomeOf(record: number): Outcome | undefined;
}

interface RecordEntry {
  readonly packed: boolean;
  readonly answers: (string | undefined)[];
  readonly failures: Failure[];
  unanswered: number;
  result: Result | undefined;
  outcome: Outcome | undefined;
}

interface RequestEntry {
  readonly record: number;
  readonly position: number;
  readonly parts: { readonly fromRow: number; readonly outputs: readonly Tensor[] }[];
  rowsLeft: number;
}

/** @param bodies aligned with `records` */
export function openLedger(records: readonly MessageRecord[], bodies: readonly DecodedBody[]): Ledger {
  const entries = new Map<ScoringRequest, RequestEntry>();
  const ledger: RecordEntry[] = [];
  let ready: ReadyResult[] = [];

  const answer = (record: number, position: number, text: string): void => {
    const entry = entryOf(ledger, record);
    if (entry.outcome !== undefined || entry.answers[position] !== undefined) return;
    entry.answers[position] = text;
    entry.unanswered -= 1;
    if (entry.unanswered > 0) return;
    const body = entry.packed ? `[${entry.answers.join(',')}]` : (entry.answers[0] ?? '');
    const { messageId } = recordAt(records, record);
    const messageGroupId = orderingGroup(recordAt(records, record));
    entry.result = { messageId, body, messageGroupId };
    if (messageGroupId === undefined) ready.push({ record, result: entry.result });
  };
  const handBack = (record: number, failed: Failure): void => {
    if (!isTransient(failed)) throw new Error(`expected a transient code for a record handed back, got ${failed.code}`);
    entryOf(ledger, record).outcome ??= { status: 'retry', failure: failed };
  };
  const fail = (record: number, position: number, id: string | undefined, failed: Failure): void => {
    if (isTransient(failed)) {
      handBack(record, failed);
    } else {
      entryOf(ledger, record).failures.push(failed);
      answer(record, position, encodeError(recordAt(records, record).messageId, id, failed));
    }
  };

  for (const [record, body] of bodies.entries()) {
    const count = body.requests.length;
    ledger.push({
      packed: body.packed,
      answers: new Array(count).fill(undefined),
      failures: [],
      unanswered: count,
      result: undefined,
      outcome: undefined,
    });
    for (const [position, request] of body.requests.entries()) {
      if (isRefused(request)) fail(record, position, request.id, request.failure);
      else entries.set(request, { record, position, parts: [], rowsLeft: request.rows });
    }
  }

  const slotOf = (request: ScoringRequest): RequestEntry => {
    const slot = entries.get(request);
    if (slot === undefined) throw new Error('expected a request of this ledger');
    return slot;
  };

  return {
    requests: [...entries.keys()],
    scored(part, outputs) {
      const slot = slotOf(part.request);
      slot.parts.push({ fromRow: part.fromRow, outputs });
      slot.rowsLeft -= part.toRow - part.fromRow;
      if (slot.rowsLeft > 0) return undefined;
      return join(slot.parts.toSorted((a, b) => a.fromRow - b.fromRow).map((piece) => piece.outputs));
    },
    answered(request, text) {
      const { record, position } = slotOf(request);
      answer(record, position, text);
    },
    messageIdOf: (request) => recordAt(records, slotOf(request).record).messageId,
    failed(request, failed) {
      const slot = slotOf(request);
      fail(slot.record, slot.position, request.id, failed);
    },
    takeReady() {
      const taken = ready;
      ready = [];
      return taken;
    },
    resultOf: (record) => entryOf(ledger, record).result,
    written(record, instead) {
      const entry = entryOf(ledger, record);
      const failures = instead === undefined ? entry.failures : [instead];
      entry.outcome ??= { status: 'answered', failures, requests: entry.answers.length };
    },
    handBack,
    outcomeOf: (record) => entryOf(ledger, record).outcome,
  };
}

/** The result that takes the place of one that its store can never hold. */
export function errorInstead(result: Result, failed: Failure): Result {
  return { ...result, body: encodeError(result.messageId, undefined, failed) };
}

function recordAt(records: readonly MessageRecord[], index: number): MessageRecord {
  const record = records[index];
  if (record === undefined) throw new Error(`expected a record at ${index} of ${records.length}`);
  return record;
}

function entryOf(ledger: readonly RecordEntry[], index: number): RecordEntry {
  const entry = ledger[index];
  if (entry === undefined) throw new Error(`expected an entry for record ${index} of ${ledger.length}`);
  return entry;
}

/** The outcome of a record that nothing else has settled: a missing verdict is a failure, never an answer. */
export const UNSETTLED: Outcome = {
  status: 'retry',
  failure: failure('INTERNAL', 'expected every record to be settled, this one was not; it is handed back'),
};
