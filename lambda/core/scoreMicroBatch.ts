import { type MaybePromise, nextTurn } from './concurrency.ts';
import { createEncoder, fewestCharacters, type ScoreEncoder } from './encode.ts';
import { type Failure, failure, isFailure, isTransient, reasonOf } from './failure.ts';
import {
  elementsIn,
  halve,
  isWhole,
  type MicroBatch,
  microBatchOf,
  type Part,
  type ScoringRequest,
  wholeRun,
} from './microBatch.ts';
import { answerTooLarge, type Replies, type Reply } from './replies.ts';
import { type Call, fitTime, maxElements, type Ran, reportOf, runMicroBatch, startStopwatch } from './run.ts';
import { join, unstack } from './stack.ts';
import type { Tensor } from './tensor.ts';
import {
  areAlike,
  type CheckRuns,
  createCheckRuns,
  differingRequests,
  explainDifference,
  inputsOf,
  mayBeAnswered,
  REQUESTS_THAT_PROVE,
  type RunBothWays,
  stopBatching,
  type Verdict,
} from './verify.ts';

type Halves = readonly [MicroBatch, MicroBatch];

/**
 * Runs a micro-batch, and has the results written that are complete with it. One that does not fit the time left is halved
 * until it does; so is one that is too large for the memory. A failing run is halved until the culprit stands alone.
 * The requests of a model that may not be batched are run one by one. Never throws.
 */
export async function scoreMicroBatch(batch: MicroBatch, call: Call): Promise<void> {
  try {
    if (mustRunAlone(batch, call)) return await scoreAlone(batch, call);
    if (elementsIn(batch) > maxElements(call.deps, batch.model)) {
      const halves = halveForMemory(batch);
      if (halves !== undefined) return await scoreBoth(halves, call);
    }
    const fit = fitTime(batch, call);
    if (!fit.fits) return await scoreWhatFits(batch, fit.failure, call);
    const ran = await runMicroBatch(batch, fit.expectedMs, call);
    if (!isFailure(ran)) {
      const isSound = await mayBeAnswered(batch, ran, call);
      return isSound ? await answerMicroBatch(batch, ran, call) : await scoreAlone(batch, call);
    }
    const halves = halvesAfter(ran, batch);
    if (halves !== undefined) return await scoreBoth(halves, call);
    await failAll(batch, ran, call);
  } catch (error) {
    call.deps.observer.problem(error);
    await failAll(batch, failure('INTERNAL', 'expected the micro-batch to be settled; scoring it threw'), call);
  }
}

/** Where no request may be cut, one that is alone in its micro-batch is not halved, and one that was cut is run whole. */
function mustRunAlone({ model, parts }: MicroBatch, { deps: { batching } }: Call): boolean {
  if (batching.batchingOf(model) !== 'together') return true;
  return !batching.sharingOf(model).mayCut && (parts.length === 1 || !parts.every(isWhole));
}

async function scoreBoth([first, second]: Halves, call: Call): Promise<void> {
  await scoreMicroBatch(first, call);
  await scoreMicroBatch(second, call);
}

async function scoreWhatFits(batch: MicroBatch, failed: Failure, call: Call): Promise<void> {
  const halves = call.time.signal.aborted ? undefined : halve(batch);
  if (halves !== undefined) await scoreBoth(halves, call);
  else await failAll(batch, failed, call);
}

/** A request alone that fails is the culprit, and is not cut any further; one that is too large may be. */
function halvesAfter(failed: Failure, batch: MicroBatch): Halves | undefined {
  if (failed.code === 'OUT_OF_MEMORY') return halveForMemory(batch);
  return !isTransient(failed) && batch.parts.length > 1 ? halve(batch) : undefined;
}

/** The halves, unless each row alone would be padded up to as large a run again, as at the smallest allowed size. */
function halveForMemory(batch: MicroBatch): Halves | undefined {
  const { model, parts, closedBecause } = batch;
  const elements = elementsIn(batch);
  const firstRowOf = (part: Part) => microBatchOf(model, [{ ...part, toRow: part.fromRow + 1 }], closedBecause);
  return parts.some((part) => elementsIn(firstRowOf(part)) < elements) ? halve(batch) : undefined;
}

async function failAll({ parts }: MicroBatch, failed: Failure, { replies, sink }: Call): Promise<void> {
  const pending: Reply[] = [];
  for (const { request } of parts) {
    const one = replies.recordFailure(request, failed);
    if (one !== undefined) pending.push(one);
  }
  if (pending.length > 0) await sink(pending);
}

/**
 * Runs each request of a micro-batch alone, with all its rows, for a model that may not be batched. Where the model may yet
 * prove itself, requests are run together afterwards, to be compared.
 */
async function scoreAlone(batch: MicroBatch, call: Call): Promise<void> {
  const proof = createShadowVerification(batch, call);
  for (const part of batch.parts) {
    const { request } = part;
    if (call.replies.isComplete(request.record)) continue;
    // A request that was cut before its model was found out is run once, whole.
    if (!isWhole(part) && !call.splits.takeWhole(request)) continue;
    const outputs = await scoreRequest(request, batch, call);
    if (outputs !== undefined) proof.add(request, outputs);
  }
  await proof.compare();
}

/** Answers one request, or says why it could not be run. Gives its outputs, cut back. */
async function scoreRequest(
  request: ScoringRequest,
  { closedBecause }: MicroBatch,
  call: Call,
): Promise<readonly Tensor[] | undefined> {
  const { replies } = call;
  const alone = wholeRun(request, closedBecause);
  const fit = fitTime(alone, call, false);
  const ran =
    refuseTooLarge(alone, call) ?? (fit.fits ? await runMicroBatch(alone, fit.expectedMs, call) : fit.failure);
  if (isFailure(ran)) {
    const failed = replies.recordFailure(request, ran);
    if (failed !== undefined) await call.sink([failed]);
    return undefined;
  }
  await answerMicroBatch(alone, ran, call);
  return unstack(alone, alone.parts[0] as Part, 0, ran.outputs);
}

/** Why a request that must not be split cannot be run; undefined where it can. */
function refuseTooLarge(alone: MicroBatch, { deps: { limits } }: Call) {
  const { model, rows } = alone;
  const elements = elementsIn(alone);
  if (rows === 1 || (rows <= model.maxBatchRows && elements <= limits.maxBatchElements)) return undefined;
  const [max, cure] =
    rows > model.maxBatchRows
      ? [`at most ${model.maxBatchRows} rows in a request`, 'raise "maxBatchRows" in its config.json']
      : [
          `at most ${limits.maxBatchElements} elements in a request, got ${elements}`,
          'raise BATCHSCORE_MAX_BATCH_ELEMENTS',
        ];
  const why =
    model.independence === 'unproven'
      ? 'splits no request until real ones have proved that its rows are independent'
      : 'splits no request, as its rows depend on each other or on their number';
  const proof = model.independence === 'unproven' ? ', put requests into samples.jsonl beside it' : '';
  return failure(
    'TOO_MANY_ROWS',
    `model '${model.name}' ${why}: expected ${max}, got ${rows} rows; send fewer${proof}, or ${cure}`,
  );
}

/** Whether the requests of a micro-batch, which were all run alone, get the same outputs together. */
interface ShadowVerification {
  /** @param outputs of the request alone, cut back */
  add(request: ScoringRequest, outputs: readonly Tensor[]): void;
  /** Runs the requests that were added together, and compares; nothing of it is written. */
  compare(): Promise<void>;
}

/** A model of which nothing is known is proved by requests that differ from each other; for any other this does nothing. */
function createShadowVerification({ model, closedBecause }: MicroBatch, call: Call): ShadowVerification {
  const { batching, observer } = call.deps;
  const compared: RunBothWays[] = [];
  const known: Tensor[][] = [];
  let rows = 0;
  const isProving = (): boolean => batching.batchingOf(model) === 'proving';
  return {
    add(request, outputs) {
      const isFull = compared.length === REQUESTS_THAT_PROVE || rows + request.rows > batching.sharingOf(model).maxRows;
      if (!isProving() || isFull) return;
      const part = { request, fromRow: 0, toRow: request.rows };
      const inputs = inputsOf(part);
      if (known.some((one) => areAlike(one, inputs))) return;
      known.push(inputs);
      compared.push({ part, outputs, row: rows });
      rows += request.rows;
    },
    async compare() {
      if (compared.length < 2 || !isProving()) return;
      const parts = compared.map(({ part }) => part);
      const together = microBatchOf(model, parts, closedBecause);
      const checks = createCheckRuns(call);
      const verdict = await compareTogether(together, compared, checks);
      if (verdict.status === 'differ') stopBatching({ ...verdict, maxRows: 1 }, call);
      else if (checks.runs > 0)
        batching.proved(model, verdict.status === 'agree' ? compared.length : 0, together.paddedRows);
      if (checks.runs > 0) observer.checked(checks.spentMs);
    },
  };
}

async function compareTogether(
  together: MicroBatch,
  compared: readonly RunBothWays[],
  checks: CheckRuns,
): Promise<Verdict> {
  const ran = await checks.run(together);
  if (ran === undefined) return { status: 'unclear' };
  const [differing] = differingRequests(together, ran.outputs, compared);
  return differing === undefined ? { status: 'agree' } : explainDifference(together, ran.outputs, differing, checks);
}

/** Spells the answers of a micro-batch that has run, has them written, and reports it. */
async function answerMicroBatch(batch: MicroBatch, { outputs, runMs, stackMs }: Ran, call: Call): Promise<void> {
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
    batch.parts.map(({ request }) => request.record),
  );
}

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
async function* answerParts(
  batch: MicroBatch,
  outputs: readonly Tensor[],
  { replies, splits, deps }: Call,
): AsyncGenerator<readonly Reply[]> {
  const encoderOfRun = createEncoder(outputs);
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
  let row = 0;
  for (const part of batch.parts) {
    const { request } = part;
    const fromRow = row;
    row += part.toRow - part.fromRow;
    if (replies.isComplete(request.record)) continue;
    let answer: MaybePromise<string | Failure>;
    if (fewestCharacters(request, outputs) > deps.limits.maxAnswerCharacters) {
      answer = answerTooLarge(deps.limits.maxAnswerCharacters);
    } else if (liesInOutputs(part, batch)) answer = encode(encoderOfRun, request, fromRow, replies);
    else {
      const own = splits.collectPart(part, unstack(batch, part, fromRow, outputs));
      if (own === undefined) continue;
      answer = isFailure(own) ? own : encode(createEncoder(own), request, 0, replies);
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
  replies: Replies,
): MaybePromise<string | Failure> {
  try {
    return encoder.encode(replies.keyOf(request), request, fromRow);
  } catch (error) {
    return failure(
      'RESULT_TOO_LARGE',
      `the answer cannot be written: ${reasonOf(error)}; send fewer rows in a request`,
    );
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
    collectPart({ request, fromRow, toRow }, outputs) {
      if (toRow - fromRow === request.rows) return outputs;
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
