import { type Failure, isTransient } from '../contract/failure.ts';
import { type MessageRecord, orderingGroup } from '../contract/record.ts';
import { type DecodedBody, isPacked, isRefused, type ScoringRequest } from '../contract/request.ts';
import type { Outcome, Result } from '../contract/result.ts';
import { encodeError } from '../encode/encode.ts';

/** A result that waits to be written, and the record that it answers. */
export interface PendingWrite {
  readonly record: number;
  /** The id of the record's request; undefined for a packed message. */
  readonly id: string | undefined;
  readonly result: Result;
}

/**
 * Keeps who is still owed an answer: requests become records, records get one outcome. Each request is answered once;
 * what comes after the record has its outcome is ignored.
 */
export interface Ledger {
  /** Takes what a record was decoded to. Gives its result when all its requests are refused. */
  register(record: number, body: DecodedBody): PendingWrite | undefined;
  /** Takes the JSON text of a request's scores. Gives the record's result once its last request is answered. */
  recordScores(request: ScoringRequest, text: string): PendingWrite | undefined;
  /** Answers a request with an error, or hands its record back when the failure is transient. */
  recordFailure(request: ScoringRequest, failed: Failure): PendingWrite | undefined;
  /** The ID under which a request is answered. */
  messageIdOf(request: ScoringRequest): string;
  /** @param replacementError what was written in place of the answer, if anything */
  markWritten(record: number, replacementError?: Failure): void;
  markRetry(record: number, failed: Failure): void;
  outcomeOf(record: number): Outcome | undefined;
}

/** What is known of one record. */
interface RecordState {
  readonly message: MessageRecord;
  /** Of a packed message, by request: the JSON text of its answer. Let go once the record has its outcome. */
  answers: (string | undefined)[] | undefined;
  /** Of the requests that were answered with an error. */
  failures: Failure[] | undefined;
  requests: number;
  unanswered: number;
  outcome: Outcome | undefined;
}

const NO_FAILURES: readonly Failure[] = [];
const ANSWERED: Outcome = { status: 'answered', failures: NO_FAILURES, requests: 1 };

export function createLedger(records: readonly MessageRecord[]): Ledger {
  const states = records.map(newState);

  const stateOf = (record: number): RecordState => {
    const state = states[record];
    if (state === undefined) throw new Error(`expected a record at ${record} of ${records.length}`);
    return state;
  };
  const markRetry = (record: number, failed: Failure): void => {
    if (!isTransient(failed)) throw new Error(`expected a transient code for a record handed back, got ${failed.code}`);
    settle(stateOf(record), { status: 'retry', failure: failed });
  };
  const answer = (record: number, position: number, id: string | undefined, text: string, failed?: Failure) => {
    const state = stateOf(record);
    if (isAnswered(state, position)) return undefined;
    if (failed !== undefined) {
      state.failures ??= [];
      state.failures.push(failed);
    }
    state.unanswered -= 1;
    if (state.answers === undefined) return toPendingWrite(record, id, state, text);
    state.answers[position] = text;
    return state.unanswered > 0 ? undefined : toPendingWrite(record, undefined, state, `[${state.answers.join(',')}]`);
  };
  const recordFailure = (record: number, position: number, id: string | undefined, failed: Failure) => {
    const state = stateOf(record);
    if (isAnswered(state, position)) return undefined;
    if (!isTransient(failed)) {
      return answer(record, position, id, encodeError(state.message.messageId, id, failed), failed);
    }
    markRetry(record, failed);
    return undefined;
  };

  return {
    register(record, body) {
      const state = stateOf(record);
      if (!isPacked(body)) return isRefused(body) ? recordFailure(record, 0, body.id, body.failure) : undefined;
      state.answers = new Array(body.length).fill(undefined);
      state.requests = body.length;
      state.unanswered = body.length;
      let last: PendingWrite | undefined;
      for (const [position, request] of body.entries()) {
        if (isRefused(request)) last = recordFailure(record, position, request.id, request.failure) ?? last;
      }
      return last;
    },
    recordScores: ({ record, position, id }, text) => answer(record, position, id, text),
    recordFailure: ({ record, position, id }, failed) => recordFailure(record, position, id, failed),
    messageIdOf: ({ record }) => stateOf(record).message.messageId,
    markWritten(record, replacementError) {
      const state = stateOf(record);
      const failures = replacementError === undefined ? (state.failures ?? NO_FAILURES) : [replacementError];
      const plain = failures.length === 0 && state.requests === 1;
      settle(state, plain ? ANSWERED : { status: 'answered', failures, requests: state.requests });
    },
    markRetry,
    outcomeOf: (record) => stateOf(record).outcome,
  };
}

function newState(message: MessageRecord): RecordState {
  return {
    message,
    answers: undefined,
    failures: undefined,
    requests: 1,
    unanswered: 1,
    outcome: undefined,
  };
}

function isAnswered({ answers, unanswered, outcome }: RecordState, position: number): boolean {
  return outcome !== undefined || unanswered === 0 || answers?.[position] !== undefined;
}

/** The first outcome stays. */
function settle(state: RecordState, outcome: Outcome): void {
  state.outcome ??= outcome;
  state.answers = undefined;
}

function toPendingWrite(record: number, id: string | undefined, { message }: RecordState, body: string): PendingWrite {
  return { record, id, result: { messageId: message.messageId, body, messageGroupId: orderingGroup(message) } };
}
