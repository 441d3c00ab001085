import type { MaybePromise } from '../base/maybePromise.ts';
import { type Failure, failure, isFailure, reasonOf } from '../contract/failure.ts';
import type { ScoringRequest } from '../contract/request.ts';
import { createEncoder, type ScoreEncoder } from '../encode/encode.ts';
import type { MicroBatch, Part } from '../plan/microBatch.ts';
import type { Ledger, PendingWrite } from '../settle/ledger.ts';
import { unstack } from '../stack/stack.ts';
import type { Tensor } from '../tensor/tensor.ts';
import type { Invocation } from './invocation.ts';

/**
 * Answers every request whose last part this was.
 *
 * @param outputs of the run, one tensor per model output, each `[paddedRows, …]`
 * @returns the results that are complete with it
 */
export async function answerParts(
  batch: MicroBatch,
  outputs: readonly Tensor[],
  { ledger, partialOutputs }: Invocation,
): Promise<PendingWrite[]> {
  const encoderOfRun = createEncoder(outputs);
  const pending: PendingWrite[] = [];
  const later: Promise<unknown>[] = [];
  const record = (request: ScoringRequest, answer: string | Failure): void => {
    const one = isFailure(answer) ? ledger.recordFailure(request, answer) : ledger.recordScores(request, answer);
    if (one !== undefined) pending.push(one);
  };
  let row = 0;
  for (const part of batch.parts) {
    const { request } = part;
    const fromRow = row;
    row += part.toRow - part.fromRow;
    let answer: MaybePromise<string | Failure>;
    if (liesInOutputs(part, batch)) answer = encode(encoderOfRun, request, fromRow, ledger);
    else {
      const own = partialOutputs.collectPart(part, unstack(batch, part, fromRow, outputs));
      if (own === undefined) continue;
      answer = isFailure(own) ? own : encode(createEncoder(own), request, 0, ledger);
    }
    if (answer instanceof Promise) later.push(answer.then((encoded) => record(request, encoded)));
    else record(request, answer);
  }
  await Promise.all(later);
  return pending;
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
