import { encodeError } from './encode.ts';
import { type Failure, isTransient } from './failure.ts';
import type { Part } from './plan.ts';
import { type MessageRecord, orderingGroup } from './record.ts';
import { type DecodedBody, isRefused, type ScoringRequest } from './request.ts';
import type { Outcome, Result } from './result.ts';
import { join } from './stack.ts';
import type { Tensor } from './tensor.ts';

/** A result that is ready to be written, and the record it answers. */
export interface ReadyResult {
  readonly record: number;
  /** The id of the record's request; undefined for a packed message. */
  readonly id: string | undefined;
  readonly result: Result;
}

/** Keeps who is still owed an answer: parts become requests, requests become records, records get one outcome. */
export interface Ledger {
  /** The requests to score, in the order of their records. */
  readonly requests: readonly ScoringRequest[];
  /** Results of the records that were answered by decoding them: all their requests were refused. */
  readonly refused: readonly ReadyResult[];
  /** The whole request's outputs once its last part is in, or why its parts do not fit together; else undefined. */
  scored(part: Part, outputs: readonly Tensor[]): readonly Tensor[] | Failure | undefined;
  /** Takes the JSON text of an answer. Gives the record's result once its last request is answered. */
  answered(request: ScoringRequest, text: string): ReadyResult | undefined;
  /** Answers a request with an error, or hands its record back when the failure is transient. */
  failed(request: ScoringRequest, failed: Failure): ReadyResult | undefined;
  /** The ID under which a request is answered. */
  messageIdOf(request: ScoringRequest): string;
  /** @param instead the failure that was written in place of the scores, if any */
  written(record: number, instead?: Failure): void;
  handBack(record: number, failed: Failure): void;
  outcomeOf(record: number): Outcome | undefined;
}

interface RecordEntry {
  readonly packed: boolean;
  readonly id: string | undefined;
  readonly answers: (string | undefined)[];
  readonly failures: Failure[];
  unanswered: number;
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
  const requests = new Map<ScoringRequest, RequestEntry>();
  const entries = bodies.map(openEntry);
  const refused: ReadyResult[] = [];

  const answer = (record: number, position: number, text: string): ReadyResult | undefined => {
    const entry = at(entries, record);
    if (entry.outcome !== undefined || entry.answers[position] !== undefined) return undefined;
    entry.answers[position] = text;
    entry.unanswered -= 1;
    if (entry.unanswered > 0) return undefined;
    const body = entry.packed ? `[${entry.answers.join(',')}]` : text;
    const { messageId } = at(records, record);
    return { record, id: entry.id, result: { messageId, body, messageGroupId: orderingGroup(at(records, record)) } };
  };
  const handBack = (record: number, failed: Failure): void => {
    if (!isTransient(failed)) throw new Error(`expected a transient code for a record handed back, got ${failed.code}`);
    at(entries, record).outcome ??= { status: 'retry', failure: failed };
  };
  const fail = (record: number, position: number, id: string | undefined, failed: Failure): ReadyResult | undefined => {
    const entry = at(entries, record);
    if (entry.answers[position] !== undefined) return undefined;
    if (isTransient(failed)) {
      handBack(record, failed);
      return undefined;
    }
    entry.failures.push(failed);
    return answer(record, position, encodeError(at(records, record).messageId, id, failed));
  };
  const entryOf = (request: ScoringRequest): RequestEntry => {
    const entry = requests.get(request);
    if (entry === undefined) throw new Error('expected a request of this ledger');
    return entry;
  };

  for (const [record, body] of bodies.entries()) {
    for (const [position, request] of body.requests.entries()) {
      if (isRefused(request)) {
        const ready = fail(record, position, request.id, request.failure);
        if (ready !== undefined) refused.push(ready);
      } else {
        requests.set(request, { record, position, parts: [], rowsLeft: request.rows });
      }
    }
  }

  return {
    requests: [...requests.keys()],
    refused,
    scored({ request, fromRow, toRow }, outputs) {
      const entry = entryOf(request);
      entry.parts.push({ fromRow, outputs });
      entry.rowsLeft -= toRow - fromRow;
      if (entry.rowsLeft > 0) return undefined;
      return join(entry.parts.toSorted((a, b) => a.fromRow - b.fromRow).map((part) => part.outputs));
    },
    answered(request, text) {
      const { record, position } = entryOf(request);
      return answer(record, position, text);
    },
    failed(request, failed) {
      const { record, position } = entryOf(request);
      return fail(record, position, request.id, failed);
    },
    messageIdOf: (request) => at(records, entryOf(request).record).messageId,
    written(record, instead) {
      const entry = at(entries, record);
      const failures = instead === undefined ? entry.failures : [instead];
      entry.outcome ??= { status: 'answered', failures, requests: entry.answers.length };
    },
    handBack,
    outcomeOf: (record) => at(entries, record).outcome,
  };
}

function openEntry({ packed, requests }: DecodedBody): RecordEntry {
  return {
    packed,
    id: packed ? undefined : requests[0]?.id,
    answers: new Array(requests.length).fill(undefined),
    failures: [],
    unanswered: requests.length,
    outcome: undefined,
  };
}

function at<T>(items: readonly T[], index: number): T {
  const item = items[index];
  if (item === undefined) throw new Error(`expected a record at ${index} of ${items.length}`);
  return item;
}
