import { encodeError } from './encode.ts';
import { type Failure, failure, isTransient, type TransientCode, tooLargeAlone } from './failure.ts';
import { type Body, type DecodedBody, isPacked, isRefused, type Scores, type ScoringRequest } from './microBatch.ts';
import { sizeOf, type Tensor } from './tensor.ts';

/** Body to score. */
export interface KeyedBody {
  /** Value of `message_id` in the answer. */
  readonly key: string;
  readonly body: Body;
  /** Failures of packed requests that must not be decoded, by position. @default none */
  readonly refused?: ReadonlyMap<number, Failure> | undefined;
}

/** Reply to one body. Each body has exactly one. */
export type Reply = Answer | HandedBack;

export interface Answer {
  readonly of: number;
  /** JSON text of the answer, or of the array of answers to a packed body. Empty if the answer is tensors. */
  readonly text: string;
  /** Answer to a request that asks for tensors: one per model output. */
  readonly outputs?: readonly Tensor[] | undefined;
  readonly failures: readonly Failure[];
  readonly requests: number;
}

/** Reply for a body that cannot be answered now, through no fault of its own. */
export interface HandedBack {
  readonly of: number;
  readonly failure: Failure<TransientCode>;
}

/** Returns the size of an answer in characters or bytes. */
export function answerSize({ text, outputs }: Answer): number {
  return sizeOf(outputs ?? text);
}

export function isHandedBack(reply: Reply): reply is HandedBack {
  return 'failure' in reply;
}

/** Combines the answers to requests into one reply for each body. It ignores answers after a body has its reply. */
export interface Replies {
  /** Registers a decoded body. Returns its reply if all its requests are refused, or one failed for now. */
  register(body: number, decoded: DecodedBody): Reply | undefined;
  /** Records a request's scores. Returns the reply after the body's last request. */
  recordScores(request: ScoringRequest, scores: Scores): Reply | undefined;
  /** Answers a request with an error, or hands its body back if the failure is transient. */
  recordFailure(request: ScoringRequest, failed: Failure): Reply | undefined;
  handBack(body: number, failed: Failure<TransientCode>): Reply | undefined;
  isComplete(body: number): boolean;
  keyOf(request: ScoringRequest): string;
}

interface BodyState {
  /** Packed body only: JSON texts of the answers by request. Undefined once the reply is complete. */
  answers: (Scores | undefined)[] | undefined;
  size: number;
  /** Undefined once the reply is complete. */
  failures: Failure[] | undefined;
  requests: number;
  unanswered: number;
}

const NO_FAILURES: readonly Failure[] = [];
/** Memory for the answers of incomplete packed bodies, as a multiple of the largest answer allowed. */
const LARGEST_ANSWERS_HELD = 4;

/**
 * @param maxAnswerCharacters maximum length of one body's answer
 * @param onComplete called once for each body that has its reply
 * @param runAlone true if each request runs alone: one that does not fit into memory is answered with an error
 */
export function createReplies(
  bodies: readonly KeyedBody[],
  maxAnswerCharacters: number,
  onComplete: (body: number) => void,
  runAlone = false,
): Replies {
  const states = bodies.map(newState);
  let heldSize = 0;

  const stateOf = (body: number): BodyState => {
    const state = states[body];
    if (state === undefined) throw new Error(`expected a body at ${body} of ${bodies.length}`);
    return state;
  };
  const keyOf = (body: number): string => (bodies[body] as KeyedBody).key;
  const complete = (body: number, state: BodyState): void => {
    if (state.answers !== undefined) heldSize -= state.size;
    state.answers = undefined;
    state.failures = undefined;
    state.unanswered = 0;
    onComplete(body);
  };
  const reply = (of: number, state: BodyState, scores: Scores): Answer => {
    const { failures = NO_FAILURES, requests } = state;
    complete(of, state);
    if (typeof scores !== 'string') return { of, text: '', outputs: scores, failures, requests };
    return { of, text: scores, failures, requests };
  };
  const handBack = (of: number, failed: Failure<TransientCode>): HandedBack | undefined => {
    const state = stateOf(of);
    if (state.unanswered === 0) return undefined;
    complete(of, state);
    return { of, failure: failed };
  };
  const answer = (body: number, position: number, id: string | undefined, scores: Scores, failed?: Failure) => {
    const state = stateOf(body);
    if (isAnswered(state, position)) return undefined;
    if (failed !== undefined) {
      state.failures ??= [];
      state.failures.push(failed);
    }
    const size = sizeOf(scores);
    state.size += size;
    if (state.size > maxAnswerCharacters) {
      // The error replaces all answers so far.
      const tooLarge = answerTooLarge(maxAnswerCharacters);
      const idOfAll = state.answers === undefined ? id : undefined;
      state.failures = [tooLarge];
      // The scores were counted but not kept.
      state.size -= size;
      return reply(body, state, encodeError(keyOf(body), idOfAll, tooLarge));
    }
    if (state.answers === undefined) return reply(body, state, scores);
    state.unanswered -= 1;
    state.answers[position] = scores;
    heldSize += size;
    if (state.unanswered === 0) return reply(body, state, `[${state.answers.join(',')}]`);
    return heldSize > LARGEST_ANSWERS_HELD * maxAnswerCharacters ? handBack(body, TOO_MANY_ANSWERS) : undefined;
  };
  const fail = (body: number, position: number, id: string | undefined, failed: Failure): Reply | undefined => {
    if (isAnswered(stateOf(body), position)) return undefined;
    const isTooLarge = runAlone && failed.code === 'OUT_OF_MEMORY';
    // A request that must not be decoded ended its process alone: another try would not help.
    const isFinal = isTooLarge || (bodies[body] as KeyedBody).refused?.has(position) === true;
    if (isTransient(failed) && !isFinal) return handBack(body, failed);
    const final = isTooLarge ? tooLargeAlone(failed.message) : failed;
    return answer(body, position, id, encodeError(keyOf(body), id, final), final);
  };

  return {
    register(body, decoded) {
      const state = stateOf(body);
      if (!isPacked(decoded)) return isRefused(decoded) ? fail(body, 0, decoded.id, decoded.failure) : undefined;
      state.answers = new Array(decoded.length).fill(undefined);
      state.requests = decoded.length;
      state.unanswered = decoded.length;
      let last: Reply | undefined;
      for (const [position, request] of decoded.entries()) {
        if (isRefused(request)) last = fail(body, position, request.id, request.failure) ?? last;
      }
      return last;
    },
    recordScores: ({ bodyIndex, position, id }, scores) => answer(bodyIndex, position, id, scores),
    recordFailure: ({ bodyIndex, position, id }, failed) => fail(bodyIndex, position, id, failed),
    handBack,
    isComplete: (body) => stateOf(body).unanswered === 0,
    keyOf: ({ bodyIndex }) => keyOf(bodyIndex),
  };
}

function newState(): BodyState {
  return { answers: undefined, size: 0, failures: undefined, requests: 1, unanswered: 1 };
}

function isAnswered({ answers, unanswered }: BodyState, position: number): boolean {
  return unanswered === 0 || answers?.[position] !== undefined;
}

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
