import type { MaybePromise } from '../base/maybePromise.ts';
import { nextTurn } from '../base/nextTurn.ts';
import { type Failure, failure, isFailure, reasonOf } from '../contract/failure.ts';
import type { ScoringRequest } from '../contract/request.ts';
import { fewestCharacters } from '../encode/answerSize.ts';
import { createEncoder, type ScoreEncoder } from '../encode/encode.ts';
import type { MicroBatch, Part } from '../plan/microBatch.ts';
import { answerTooLarge, type Ledger, type PendingWrite } from '../settle/ledger.ts';
import { unstack } from '../stack/stack.ts';
import type { Tensor } from '../tensor/tensor.ts';
import type { Invocation } from './invocation.ts';

/** Characters of answers that are written together: what is held of them at a time, beside what a record holds itself. */
const CHARACTERS_WRITTEN_TOGETHER = 4 * 1024 * 1024;
/** Characters of answers spelled before the event loop has its turn: some milliseconds of work. */
const CHARACTERS_A_TURN = 256 * 1024;

/**
 * Answers every request whose last part this was.
 *
 * @param outputs of the run, one tensor per model output, each `[paddedRows, …]`
 * @returns the results that are complete with it, as many at a time as are written together
 */
export async function* answerParts(
  batch: MicroBatch,
  outputs: readonly Tensor[],
  { ledger, partialOutputs, deps }: Invocation,
): AsyncGenerator<readonly PendingWrite[]> {
  const encoderOfRun = createEncoder(outputs);
  let pending: PendingWrite[] = [];
  let later: Promise<void>[] = [];
  let characters = 0;
  let charactersThisTurn = 0;
  const record = (request: ScoringRequest, answer: string | Failure): void => {
    const one = isFailure(answer) ? ledger.recordFailure(request, answer) : ledger.recordScores(request, answer);
    if (one !== undefined) pending.push(one);
    if (isFailure(answer)) return;
    characters += answer.length;
    charactersThisTurn += answer.length;
  };
  let row = 0;
  for (const part of batch.parts) {
    const { request } = part;
    const fromRow = row;
    row += part.toRow - part.fromRow;
    if (ledger.isComplete(request.record)) continue;
    let answer: MaybePromise<string | Failure>;
    if (fewestCharacters(request, outputs) > deps.limits.maxAnswerCharacters) {
      answer = answerTooLarge(deps.limits.maxAnswerCharacters);
    } else if (liesInOutputs(part, batch)) answer = encode(encoderOfRun, request, fromRow, ledger);
    else {
      const own = partialOutputs.collectPart(part, unstack(batch, part, fromRow, outputs));
      if (own === undefined) continue;
      answer = isFailure(own) ? own : encode(createEncoder(own), request, 0, ledger);
    }
    if (answer instanceof Promise) later.push(answer.then((encoded) => record(request, encoded)));
    else record(request, answer);
    if (charactersThisTurn < CHARACTERS_A_TURN) continue;
    charactersThisTurn = 0;
    await nextTurn();
    if (characters < CHARACTERS_WRITTEN_TOGETHER) continue;
    await Promise.all(later);
    yield pending;
    pending = [];
    later = [];
    characters = 0;
  }
  await Promise.all(later);
  yield pending;
  // V8 allocates such arrays among long-lived objects once some have lived long: what they hold would live as long.
  pending.length = 0;
}

/** Whether the outputs of a part are rows of the run's as they are: of a whole request, with nothing to cut back. */
function liesInOutputs({ request, fromRow, toRow }: Part, { model: { ragged }, paddedLength }: MicroBatch): boolean {
  const whole = toRow - fromRow === request.rows;
  return (
    whole &&
    (ragged === undefined || request.length === paddedLength || ragged.outputs.every((axis) => axis === undefined))
  );
}

/** An answer longer than the longest string there can be is that request's own fault. */
function encode(
  encoder: ScoreEncoder,
  request: ScoringRequest,
  fromRow: number,
  ledger: Ledger,
): MaybePromise<string | Failure> {
  try {
    return encoder.encode(ledger.messageIdOf(request), request, fromRow);
  } catch (error) {
    return failure(
      'RESULT_TOO_LARGE',
      `the answer cannot be written: ${reasonOf(error)}; send fewer rows in a request`,
    );
  }
}
