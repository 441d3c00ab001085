import { encodeError } from './encode.ts';
import { type Failure, failure, isTransient } from './failure.ts';
import { type MessageRecord, type Outcome, orderingGroup, type Result } from './record.ts';
import { type DecodedBody, isPacked, isRefused, type ScoringRequest } from './scoringRequest.ts';

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
  /** Whether nothing more is expected of a record: its answer is complete, or it is handed back. */
  isComplete(record: number): boolean;
  /** The ID under which a request is answered. */
  messageIdOf(request: ScoringRequest): string;
  /** @param replacementError what was written in place of the answer, if anything */
  markWritten(record: number, replacementError?: Failure): void;
  markRetry(record: number, failed: Failure): void;
  outcomeOf(record: number): Outcome | undefined;
}

interface LedgerOptions {
  /** Most characters of one record's answer. */
  readonly maxAnswerCharacters: number;
  /** Told once of each record that nothing more is expected of. */
  readonly onComplete: (record: number) => void;
}

/** What is known of one record. */
interface RecordState {
  readonly message: MessageRecord;
  /** Of a packed message, by request: the JSON text of its answer. Let go once the answer is complete. */
  answers: (string | undefined)[] | undefined;
  /** Of the answers so far. */
  characters: number;
  /** Of the requests that were answered with an error. */
  failures: Failure[] | undefined;
  requests: number;
  unanswered: number;
  outcome: Outcome | undefined;
}

const NO_FAILURES: readonly Failure[] = [];
const ANSWERED: Outcome = { status: 'answered', failures: NO_FAILURES, requests: 1 };
/** The answers of packed messages that are not complete may take as much memory together as so many of the largest. */
const LARGEST_ANSWERS_HELD = 4;

export function createLedger(
  records: readonly MessageRecord[],
  { maxAnswerCharacters, onComplete }: LedgerOptions,
): Ledger {
  const states = records.map(newState);
  let heldCharacters = 0;

  const stateOf = (record: number): RecordState => {
    const state = states[record];
    if (state === undefined) throw new Error(`expected a record at ${record} of ${records.length}`);
    return state;
  };
  const complete = (record: number, state: RecordState): void => {
    if (state.answers !== undefined) heldCharacters -= state.characters;
    state.answers = undefined;
    state.unanswered = 0;
    onComplete(record);
  };
  const markRetry = (record: number, failed: Failure): void => {
    if (!isTransient(failed)) throw new Error(`expected a transient code for a record handed back, got ${failed.code}`);
    const state = stateOf(record);
    state.outcome ??= { status: 'retry', failure: failed };
    if (state.unanswered > 0) complete(record, state);
  };
  /** In place of all that the record was answered so far. */
  const answerWithError = (record: number, id: string | undefined, failed: Failure): PendingWrite => {
    const state = stateOf(record);
    state.failures = [failed];
    complete(record, state);
    return toPendingWrite(record, id, state, encodeError(state.message.messageId, id, failed));
  };
  const answer = (
    record: number,
    position: number,
    id: string | undefined,
    text: string,
    failed?: Failure,
  ): PendingWrite | undefined => {
    const state = stateOf(record);
    if (isAnswered(state, position)) return undefined;
    if (failed !== undefined) {
      state.failures ??= [];
      state.failures.push(failed);
    }
    state.characters += text.length;
    const idOfAll = state.answers === undefined ? id : undefined;
    if (state.characters > maxAnswerCharacters)
      return answerWithError(record, idOfAll, answerTooLarge(maxAnswerCharacters));
    state.unanswered -= 1;
    if (state.answers === undefined) {
      complete(record, state);
      return toPendingWrite(record, id, state, text);
    }
    state.answers[position] = text;
    heldCharacters += text.length;
    if (state.unanswered === 0) {
      const all = `[${state.answers.join(',')}]`;
      complete(record, state);
      return toPendingWrite(record, undefined, state, all);
    }
    if (heldCharacters > LARGEST_ANSWERS_HELD * maxAnswerCharacters) markRetry(record, TOO_MANY_ANSWERS);
    return undefined;
  };
  const recordFailure = (
    record: number,
    position: number,
    id: string | undefined,
    failed: Failure,
  ): PendingWrite | undefined => {
    const state = stateOf(record);
    if (isAnswered(state, position)) return undefined;
    if (isTransient(failed)) {
      markRetry(record, failed);
      return undefined;
    }
    return answer(record, position, id, encodeError(state.message.messageId, id, failed), failed);
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
    isComplete: (record) => stateOf(record).unanswered === 0,
    messageIdOf: ({ record }) => stateOf(record).message.messageId,
    markWritten(record, replacementError) {
      const state = stateOf(record);
      const failures = replacementError === undefined ? (state.failures ?? NO_FAILURES) : [replacementError];
      const plain = failures.length === 0 && state.requests === 1;
      state.outcome ??= plain ? ANSWERED : { status: 'answered', failures, requests: state.requests };
    },
    markRetry,
    outcomeOf: (record) => stateOf(record).outcome,
  };
}

function newState(message: MessageRecord): RecordState {
  return {
    message,
    answers: undefined,
    characters: 0,
    failures: undefined,
    requests: 1,
    unanswered: 1,
    outcome: undefined,
  };
}

function isAnswered({ answers, unanswered, outcome }: RecordState, position: number): boolean {
  return outcome !== undefined || unanswered === 0 || answers?.[position] !== undefined;
}

/** An answer that is longer than allowed. */
export function answerTooLarge(maxAnswerCharacters: number): Failure {
  return failure(
    'RESULT_TOO_LARGE',
    `expected an answer of at most ${maxAnswerCharacters} characters, got more; ask for fewer outputs, or send fewer ` +
      'rows or requests in a message',
  );
}

const TOO_MANY_ANSWERS = failure(
  'OUT_OF_MEMORY',
  'expected memory for the answers of the packed messages that came together, got too many of them; fewer come together next time',
);

function toPendingWrite(record: number, id: string | undefined, { message }: RecordState, body: string): PendingWrite {
  return { record, id, result: { messageId: message.messageId, body, messageGroupId: orderingGroup(message) } };
}
