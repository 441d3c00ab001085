import { type MaybePromise, nextTurn } from './concurrency.ts';
import { createEncoder, fewestCharacters, type ScoreEncoder } from './encode.ts';
import { type Failure, failure, isFailure, reasonOf } from './failure.ts';
import { createHookBatch } from './hookBatch.ts';
import { isWhole, type MicroBatch, type Part, type ScoringRequest } from './microBatch.ts';
import { answerTooLarge, type Replies, type Reply } from './replies.ts';
import { type Call, type Ran, reportOf, startStopwatch } from './run.ts';
import { join, unstack } from './stack.ts';
import type { Tensor } from './tensor.ts';

export async function answerMicroBatch(batch: MicroBatch, { outputs, runMs, stackMs }: Ran, call: Call): Promise<void> {
  const { observer, now } = call.deps;
  const startedAt = now();
  const stopwatch = startStopwatch(now);
  let encodeMs = 0;
  for await (const replies of answerParts(batch, outputs, call)) {
    encodeMs += stopwatch.lap();
    if (replies.length > 0) await call.sink(replies);
    stopwatch.lap();
  }
  encodeMs += stopwatch.lap();
  observer.stage?.('encode', startedAt, now(), { model: batch.model.name, rows: batch.rows, busyMs: encodeMs });
  observer.microBatch(reportOf(batch, { stackMs, runMs, encodeMs }), () =>
    batch.parts.map(({ request }) => request.bodyIndex),
  );
}

/** Most characters of finished answers that are held before they are passed on. */
const CHARACTERS_WRITTEN_TOGETHER = 4 * 1024 * 1024;
/** Characters of answers formatted before the event loop has its turn: some milliseconds of work. */
const CHARACTERS_A_TURN = 256 * 1024;

/**
 * Answers every request whose last part this was.
 *
 * @param outputs of the run, one tensor per model output, each `[paddedRows, …]`
 * Yields the answers that are complete with it, as many at a time as are passed on together.
 */
async function* answerParts(
  batch: MicroBatch,
  outputs: readonly Tensor[],
  { replies, splits, deps, time }: Call,
): AsyncGenerator<readonly Reply[]> {
  const { model } = batch;
  const together = createHookBatch('encodeBatch', model.transform?.encodeBatch, model, time, deps);
  const encoderOfRun = createEncoder(outputs, together);
  let pending: Reply[] = [];
  let later: Promise<void>[] = [];
  let characters = 0;
  let charactersThisTurn = 0;
  const record = (request: ScoringRequest, answer: string | Failure): void => {
    const one = isFailure(answer) ? replies.recordFailure(request, answer) : replies.recordScores(request, answer);
    if (one !== undefined) pending.push(one);
    if (isFailure(answer)) return;
    characters += answer.length;
    charactersThisTurn += answer.length;
  };
  const allEncoded = async (): Promise<void> => {
    await together.call();
    await Promise.all(later);
  };
  let row = 0;
  for (const part of batch.parts) {
    const { request } = part;
    const fromRow = row;
    row += part.toRow - part.fromRow;
    if (replies.isComplete(request.bodyIndex)) continue;
    let answer: MaybePromise<string | Failure>;
    if (fewestCharacters(request, outputs) > deps.limits.maxAnswerCharacters) {
      answer = answerTooLarge(deps.limits.maxAnswerCharacters);
    } else if (liesInOutputs(part, batch)) answer = encode(encoderOfRun, request, fromRow, replies);
    else {
      const own = splits.collectPart(part, unstack(batch, part, fromRow, outputs));
      if (own === undefined) continue;
      answer = isFailure(own) ? own : encode(createEncoder(own, together), request, 0, replies);
    }
    if (answer instanceof Promise) later.push(answer.then((encoded) => record(request, encoded)));
    else record(request, answer);
    if (charactersThisTurn < CHARACTERS_A_TURN) continue;
    charactersThisTurn = 0;
    await nextTurn();
    if (characters < CHARACTERS_WRITTEN_TOGETHER) continue;
    await allEncoded();
    yield pending;
    pending = [];
    later = [];
    characters = 0;
  }
  await allEncoded();
  yield pending;
  // V8 allocates such arrays among long-lived objects once some have lived long: what they hold would live as long.
  pending.length = 0;
}

/** Whether the outputs of a part are rows of the run's as they are: of a whole request, with nothing to cut back. */
function liesInOutputs(part: Part, { model: { ragged }, paddedLength }: MicroBatch): boolean {
  const isPadded = part.request.length !== paddedLength && ragged?.outputs.some((axis) => axis !== undefined) === true;
  return isWhole(part) && !isPadded;
}

/** An answer longer than the longest string there can be is that request's own fault. */
function encode(
  encoder: ScoreEncoder,
  request: ScoringRequest,
  fromRow: number,
  replies: Replies,
): MaybePromise<string | Failure> {
  try {
    return encoder.encode(replies.keyOf(request), request, fromRow);
  } catch (error) {
    const message = `the answer cannot be written: ${reasonOf(error)}; send fewer rows in a request`;
    return failure('RESULT_TOO_LARGE', message);
  }
}

/** The outputs of requests that were split among several micro-batches, until all their parts are scored. */
export interface Splits {
  /** The whole request's outputs once its last part is in, or why its parts do not fit together; else undefined. */
  collectPart(part: Part, outputs: readonly Tensor[]): readonly Tensor[] | Failure | undefined;
  /** Has a request run whole after all: what its parts got is forgotten. @returns whether nobody else has taken it */
  takeWhole(request: ScoringRequest): boolean;
}

interface ScoredParts {
  readonly parts: { readonly fromRow: number; readonly outputs: readonly Tensor[] }[];
  rowsLeft: number;
}

export function createSplits(): Splits {
  const split = new Map<ScoringRequest, ScoredParts>();
  const takenWhole = new Set<ScoringRequest>();
  return {
    takeWhole(request) {
      if (takenWhole.has(request)) return false;
      takenWhole.add(request);
      split.delete(request);
      return true;
    },
    collectPart(part, outputs) {
      const { request, fromRow, toRow } = part;
      if (isWhole(part)) return outputs;
      if (takenWhole.has(request)) return undefined;
      const scored = split.get(request) ?? { parts: [], rowsLeft: request.rows };
      split.set(request, scored);
      scored.parts.push({ fromRow, outputs });
      scored.rowsLeft -= toRow - fromRow;
      if (scored.rowsLeft > 0) return undefined;
      split.delete(request);
      return join(scored.parts.toSorted((a, b) => a.fromRow - b.fromRow).map((part) => part.outputs));
    },
  };
}
