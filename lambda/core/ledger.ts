import { encodeError } from './encode.ts';
import { type Failure, isTransient } from './failure.ts';
import type { Part } from './microBatch.ts';
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
  /** Enters what a record was decoded to. Gives its result when all its requests are refused. */
  enter(record: number, body: DecodedBody): ReadyResult | undefined;
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

/** The answers to the requests of one record, until they are written. */
interface Sheet {
  /** The answers of a packed message so far, by position; undefined for a record that is one request. */
  readonly packed: (string | undefined)[] | undefined;
  readonly id: string | undefined;
  readonly requests: number;
  unanswered: number;
  failures: readonly Failure[];
}

/** The parts of a request that was cut, until all of them are scored. */
interface Pieces {
  readonly scored: { readonly fromRow: number; readonly outputs: readonly Tensor[] }[];
  rowsLeft: number;
}

const NONE: readonly Failure[] = [];
const ANSWERED: Outcome = { status: 'answered', failures: NONE, requests: 1 };

export function openLedger(records: readonly MessageRecord[]): Ledger {
  const outcomes: (Outcome | undefined)[] = new Array(records.length).fill(undefined);
  const sheets: (Sheet | undefined)[] = new Array(records.length).fill(undefined);
  const cut = new Map<ScoringRequest, Pieces>();

  const recordAt = (record: number): MessageRecord => {
    const found = records[record];
    if (found === undefined) throw new Error(`expected a record at ${record} of ${records.length}`);
    return found;
  };
  /** The sheet on which an answer is still missing at `position`; undefined once it is there, or handed back. */
  const openSheetOf = (record: number, position: number): Sheet | undefined => {
    const sheet = sheets[record];
    const isOpen = sheet !== undefined && outcomes[record] === undefined && sheet.unanswered > 0;
    return isOpen && sheet.packed?.[position] === undefined ? sheet : undefined;
  };
  const answer = (record: number, position: number, text: string): ReadyResult | undefined => {
    const sheet = openSheetOf(record, position);
    if (sheet === undefined) return undefined;
    if (sheet.packed !== undefined) sheet.packed[position] = text;
    sheet.unanswered -= 1;
    if (sheet.unanswered > 0) return undefined;
    const body = sheet.packed === undefined ? text : `[${sheet.packed.join(',')}]`;
    const { messageId } = recordAt(record);
    return { record, id: sheet.id, result: { messageId, body, messageGroupId: orderingGroup(recordAt(record)) } };
  };
  const handBack = (record: number, failed: Failure): void => {
    if (!isTransient(failed)) throw new Error(`expected a transient code for a record handed back, got ${failed.code}`);
    outcomes[record] ??= { status: 'retry', failure: failed };
  };
  const fail = (record: number, position: number, id: string | undefined, failed: Failure): ReadyResult | undefined => {
    const sheet = openSheetOf(record, position);
    if (sheet === undefined) return undefined;
    if (isTransient(failed)) {
      handBack(record, failed);
      return undefined;
    }
    sheet.failures = [...sheet.failures, failed];
    return answer(record, position, encodeError(recordAt(record).messageId, id, failed));
  };

  return {
    enter(record, body) {
      sheets[record] = openSheet(body);
      let ready: ReadyResult | undefined;
      for (const [position, request] of body.requests.entries()) {
        if (isRefused(request)) ready = fail(record, position, request.id, request.failure) ?? ready;
      }
      return ready;
    },
    scored({ request, fromRow, toRow }, outputs) {
      if (toRow - fromRow === request.rows) return outputs;
      const pieces = cut.get(request) ?? { scored: [], rowsLeft: request.rows };
      cut.set(request, pieces);
      pieces.scored.push({ fromRow, outputs });
      pieces.rowsLeft -= toRow - fromRow;
      if (pieces.rowsLeft > 0) return undefined;
      return join(pieces.scored.toSorted((a, b) => a.fromRow - b.fromRow).map((piece) => piece.outputs));
    },
    answered: ({ record, position }, text) => answer(record, position, text),
    failed: ({ record, position, id }, failed) => fail(record, position, id, failed),
    messageIdOf: ({ record }) => recordAt(record).messageId,
    written(record, instead) {
      const sheet = sheets[record];
      if (sheet === undefined) throw new Error(`expected record ${record} to be answered before it is written`);
      const failures = instead === undefined ? sheet.failures : [instead];
      const { requests } = sheet;
      outcomes[record] ??=
        failures.length === 0 && requests === 1 ? ANSWERED : { status: 'answered', failures, requests };
    },
    handBack,
    outcomeOf: (record) => outcomes[record],
  };
}

function openSheet({ packed, requests }: DecodedBody): Sheet {
  return {
    packed: packed ? new Array(requests.length).fill(undefined) : undefined,
    id: packed ? undefined : requests[0]?.id,
    requests: requests.length,
    unanswered: requests.length,
    failures: NONE,
  };
}
