import { type Failure, isFailure, isTransient } from '../contract/failure.ts';
import { type MessageRecord, orderingGroup } from '../contract/record.ts';
import { type DecodedBody, isPacked, isRefused, type ScoringRequest } from '../contract/request.ts';
import type { Outcome, Result } from '../contract/result.ts';
import { encodeError } from '../encode/encode.ts';
import type { Part } from '../plan/microBatch.ts';
import { join } from '../stack/stack.ts';
import type { Tensor } from '../tensor/tensor.ts';

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

/** The answers to a packed message, until it is written. */
interface Sheet {
  readonly answers: (string | undefined)[];
  readonly failures: Failure[];
  unanswered: number;
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
  /** Records that are one request and were answered: with what failure, or with scores. */
  const answers: (Failure | 'scores' | undefined)[] = new Array(records.length).fill(undefined);
  const sheets = new Map<number, Sheet>();
  const cut = new Map<ScoringRequest, Pieces>();

  const recordAt = (record: number): MessageRecord => {
    const found = records[record];
    if (found === undefined) throw new Error(`expected a record at ${record} of ${records.length}`);
    return found;
  };
  const isAnswered = (record: number, position: number): boolean => {
    const sheet = sheets.get(record);
    const answer = sheet === undefined ? answers[record] : sheet.answers[position];
    return answer !== undefined || outcomes[record] !== undefined;
  };
  const resultOf = (record: number, id: string | undefined, body: string): ReadyResult => {
    const { messageId } = recordAt(record);
    return { record, id, result: { messageId, body, messageGroupId: orderingGroup(recordAt(record)) } };
  };
  const answer = (
    record: number,
    position: number,
    id: string | undefined,
    text: string,
    failed?: Failure,
  ): ReadyResult | undefined => {
    const sheet = sheets.get(record);
    if (sheet === undefined) {
      answers[record] = failed ?? 'scores';
      return resultOf(record, id, text);
    }
    if (failed !== undefined) sheet.failures.push(failed);
    sheet.answers[position] = text;
    sheet.unanswered -= 1;
    return sheet.unanswered > 0 ? undefined : resultOf(record, undefined, `[${sheet.answers.join(',')}]`);
  };
  const handBack = (record: number, failed: Failure): void => {
    if (!isTransient(failed)) throw new Error(`expected a transient code for a record handed back, got ${failed.code}`);
    outcomes[record] ??= { status: 'retry', failure: failed };
  };
  const fail = (record: number, position: number, id: string | undefined, failed: Failure): ReadyResult | undefined => {
    if (isAnswered(record, position)) return undefined;
    if (!isTransient(failed)) {
      return answer(record, position, id, encodeError(recordAt(record).messageId, id, failed), failed);
    }
    handBack(record, failed);
    return undefined;
  };

  return {
    enter(record, body) {
      if (!isPacked(body)) return isRefused(body) ? fail(record, 0, body.id, body.failure) : undefined;
      sheets.set(record, openSheet(body.length));
      let ready: ReadyResult | undefined;
      for (const [position, request] of body.entries()) {
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
    answered({ record, position, id }, text) {
      return isAnswered(record, position) ? undefined : answer(record, position, id, text);
    },
    failed: ({ record, position, id }, failed) => fail(record, position, id, failed),
    messageIdOf: ({ record }) => recordAt(record).messageId,
    written(record, instead) {
      const sheet = sheets.get(record);
      const answer = answers[record];
      const own = sheet?.failures ?? (isFailure(answer) ? [answer] : NONE);
      const failures = instead === undefined ? own : [instead];
      const requests = sheet?.answers.length ?? 1;
      outcomes[record] ??=
        failures.length === 0 && requests === 1 ? ANSWERED : { status: 'answered', failures, requests };
      sheets.delete(record);
    },
    handBack,
    outcomeOf: (record) => outcomes[record],
  };
}

function openSheet(requests: number): Sheet {
  return { answers: new Array(requests).fill(undefined), failures: [], unanswered: requests };
}
