import { type DecodeDependencies, decodeBodies, type IndexedBody } from './body.ts';
import { createMemoryBudget, type MaybePromise, type MemoryBudget, nextTurn } from './concurrency.ts';
import { createEncoder, fewestCharacters, type ScoreEncoder } from './encode.ts';
import { createEquals, type RepeatCounts } from './equals.ts';
import { type Failure, failure, isFailure, isTransient, plural, reasonOf } from './failure.ts';
import { createHookBatch } from './hookBatch.ts';
import { BATCH_BYTES } from './limits.ts';
import {
  bodySize,
  type DecodedBody,
  type DecodedRequest,
  elementsIn,
  halve,
  isPacked,
  isRefused,
  isWhole,
  loneMicroBatch,
  type MicroBatch,
  microBatchOf,
  type Part,
  type Scores,
  type ScoringRequest,
} from './microBatch.ts';
import type { Observer } from './observer.ts';
import type { Plan, Planner } from './plan.ts';
import type { TimeLimit } from './record.ts';
import { answerTooLarge, createReplies, type KeyedBody, type Replies, type Reply } from './replies.ts';
import type { DecodeLimits } from './requestInputs.ts';
import {
  type Call,
  createSchedule,
  fitTime,
  maxElements,
  type Ran,
  type RunDependencies,
  reportOf,
  runMicroBatch,
  startStopwatch,
} from './run.ts';
import { join, unstack } from './stack.ts';
import { sizeOf, type Tensor } from './tensor.ts';
import { verifyOutputs, verifyWhole } from './verify.ts';

export type ScoringLimits = DecodeLimits & RunDependencies['limits'];

/** Dependencies of scoring, from decoding to encoding. They live as long as the process. */
export interface ScoreDependencies extends DecodeDependencies, RunDependencies {
  readonly plan: Planner;
  /** Makes equal requests share a row. @default each has its own */
  readonly repeats?: RepeatCounts | undefined;
  /**
   * True if `plan` has each request run alone, with nothing beside it. One that does not fit into memory is then answered
   * with an error. @default false: its body is handed back
   */
  readonly runAlone?: boolean;
  readonly limits: ScoringLimits;
  readonly observer: Observer;
}

/** Takes replies as runs end. Resolves when there is memory for more; no runs start until then. Must not reject. */
export type ReplySink = (replies: readonly Reply[]) => Promise<void>;

export interface CallOptions {
  readonly observer: Observer;
  /** Model and version of bodies that name none. @default those of the repository */
  readonly defaults?: { readonly model: string; readonly version: string } | undefined;
}

/**
 * Scores bodies and gives each one reply: {@link score} in this process, or a scorer that calls it in another. A bad
 * body never makes it throw.
 */
export type ScoreBodies = (
  bodies: readonly KeyedBody[],
  time: TimeLimit,
  sink: ReplySink,
  options: CallOptions,
) => Promise<void>;

/**
 * Decodes and plans bodies while complete micro-batches run, and gives each body one reply. Bodies without a reply when
 * `time` is over get none. A bad body never makes it throw.
 */
export async function score(
  bodies: readonly KeyedBody[],
  deps: ScoreDependencies,
  time: TimeLimit,
  sink: ReplySink,
): Promise<void> {
  const { payloadMemory, backlog, release } = createBounds();
  const replies = createReplies(bodies, deps.limits.maxAnswerCharacters, release, deps.runAlone);
  const schedule = createSchedule(deps.now);
  const equals = createEquals(deps.repeats, (request) => mayRepeat(request, deps));
  const call: Call = { replies, splits: createSplits(), equals, schedule, time, deps, sink };
  const run = (batches: readonly MicroBatch[]): void => {
    for (const batch of batches) schedule.add(batch.model, () => scoreMicroBatch(batch, call));
  };
  const newPlan = (): Plan =>
    deps.plan(
      (model) => maxElements(deps, model),
      deps.costs.costOf,
      (model) => deps.batching.batchingOf(model) === 'together',
    );
  let plan = newPlan();
  let decodeMs = 0;
  const startedAt = deps.now();
  const stopwatch = startStopwatch(deps.now);
  for await (const decoded of decodeBodies(bodies, deps, payloadMemory, time)) {
    decodeMs += stopwatch.lap();
    for (const { bodyIndex } of decoded) backlog.hold(bodyIndex, bodySize((bodies[bodyIndex] as KeyedBody).body));
    const { settled, closed } = enterBodies(decoded, plan, call);
    run(closed);
    if (settled.length > 0) await sink(settled);
    // Decoding waits for slow objects or memory is full, so the current plan runs.
    if (decoded.length === 0 || payloadMemory.isFull() || backlog.isFull()) {
      run(plan.finish());
      plan = newPlan();
    }
    await schedule.catchUp();
    await backlog.available(time.signal);
    stopwatch.lap();
  }
  decodeMs += stopwatch.lap();
  deps.observer.stage?.('decode', startedAt, deps.now(), { records: bodies.length, busyMs: decodeMs });
  deps.observer.decoded(decodeMs);
  run(plan.finish());
  await schedule.waitUntilDone();
}

/** Duration of a row that takes ten times as long as the search for an equal request. */
const MIN_ROW_MS = 0.01;
const USUAL_ROWS = 32;

/** Returns true if equal requests of the model have equal answers, and a row takes long enough to search for them. */
function mayRepeat({ model, length }: ScoringRequest, { batching, costs }: ScoreDependencies): boolean {
  if (model.independence !== 'independent' || batching.batchingOf(model) !== 'together') return false;
  return (costs.predictMs(model, USUAL_ROWS, length) ?? Number.POSITIVE_INFINITY) >= USUAL_ROWS * MIN_ROW_MS;
}

/** Maximum size of payloads that are read and not scored yet, unless one payload is larger. */
const PAYLOAD_BYTES = 16 * 1024 * 1024;

/** Creates the memory budgets of a call for decoded bodies that are not scored yet. */
function createBounds(): { payloadMemory: MemoryBudget; backlog: MemoryBudget; release(body: number): void } {
  const payloadMemory = createMemoryBudget(PAYLOAD_BYTES);
  const backlog = createMemoryBudget(BATCH_BYTES);
  return {
    payloadMemory,
    backlog,
    release(body) {
      payloadMemory.release(body);
      backlog.release(body);
    },
  };
}

/** Registers bodies and adds them to the plan. Returns replies that need no run, and micro-batches that closed. */
function enterBodies(
  decoded: readonly IndexedBody[],
  plan: Plan,
  { replies, equals, deps }: Call,
): { readonly settled: readonly Reply[]; readonly closed: readonly MicroBatch[] } {
  const settled: Reply[] = [];
  const closed: MicroBatch[] = [];
  const add = (request: DecodedRequest, isInPacked: boolean): void => {
    if (isRefused(request) || equals.join(request, isInPacked)) return;
    for (const batch of plan.add(request)) closed.push(batch);
  };
  const enter = (index: number, body: DecodedBody): Reply | undefined => {
    try {
      const reply = replies.register(index, body);
      // If one request failed for now, its whole body is handed back.
      if (replies.isComplete(index)) return reply;
      if (isPacked(body)) for (const request of body) add(request, true);
      else add(body, false);
      return reply;
    } catch (error) {
      deps.observer.problem(error);
      return replies.handBack(index, failure('INTERNAL', 'expected the body to be planned; it threw'));
    }
  };
  for (const { bodyIndex, body } of decoded) {
    const reply = enter(bodyIndex, body);
    if (reply !== undefined) settled.push(reply);
  }
  return { settled, closed };
}

type Halves = readonly [MicroBatch, MicroBatch];

/**
 * Runs a micro-batch and sends the replies that it completes. Never throws.
 *
 * | micro-batch                               | action                                           |
 * | ----------------------------------------- | ------------------------------------------------ |
 * | of a model that may not be batched        | its requests run one by one                      |
 * | too large for the time left or the memory | it is halved until it fits                       |
 * | whose run fails                           | it is halved until the faulty request runs alone |
 */
async function scoreMicroBatch(batch: MicroBatch, call: Call): Promise<void> {
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
      const isSound = await verifyOutputs(batch, ran, call);
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

/** Returns true if requests of the model run alone, each with all its rows. */
function mustRunAlone({ model }: MicroBatch, { deps: { batching } }: Call): boolean {
  return batching.batchingOf(model) === 'alone';
}

async function scoreBoth([first, second]: Halves, call: Call): Promise<void> {
  await scoreMicroBatch(first, call);
  await scoreMicroBatch(second, call);
}

async function scoreWhatFits(batch: MicroBatch, failed: Failure, call: Call): Promise<void> {
  const halves = halve(batch);
  if (halves !== undefined) await scoreBoth(halves, call);
  else await failAll(batch, failed, call);
}

/** Returns the halves to run after a failure. A single request that failed is not halved, unless it was too large. */
function halvesAfter(failed: Failure, batch: MicroBatch): Halves | undefined {
  if (failed.code === 'OUT_OF_MEMORY') return halveForMemory(batch);
  return !isTransient(failed) && batch.parts.length > 1 ? halve(batch) : undefined;
}

/** Returns the halves, unless no row alone would make a smaller run, as at the smallest allowed size. */
function halveForMemory(batch: MicroBatch): Halves | undefined {
  const { model, parts, closedBecause } = batch;
  const elements = elementsIn(batch);
  const firstRowOf = (part: Part) => microBatchOf(model, [{ ...part, toRow: part.fromRow + 1 }], closedBecause);
  return parts.some((part) => elementsIn(firstRowOf(part)) < elements) ? halve(batch) : undefined;
}

async function failAll({ parts }: MicroBatch, failed: Failure, { replies, equals, sink }: Call): Promise<void> {
  const pending: Reply[] = [];
  for (const request of parts.flatMap((part) => equals.close(part.request))) {
    const one = replies.recordFailure(request, failed);
    if (one !== undefined) pending.push(one);
  }
  if (pending.length > 0) await sink(pending);
}

/** Runs each request of a micro-batch alone, with all its rows, for a model that may not be batched. */
async function scoreAlone(batch: MicroBatch, call: Call): Promise<void> {
  for (const part of batch.parts) {
    const { request } = part;
    if (call.equals.close(request).every(({ bodyIndex }) => call.replies.isComplete(bodyIndex))) continue;
    // A request that was cut before batching stopped is run once, as a whole.
    if (!isWhole(part) && !call.splits.takeWhole(request)) continue;
    await scoreRequest(request, batch, call);
  }
}

async function scoreRequest(request: ScoringRequest, { closedBecause }: MicroBatch, call: Call): Promise<void> {
  const alone = loneMicroBatch(request, closedBecause);
  const fit = fitTime(alone, call, false);
  const ran =
    refuseTooLarge(alone, call) ?? (fit.fits ? await runMicroBatch(alone, fit.expectedMs, call) : fit.failure);
  await (isFailure(ran) ? failAll(alone, ran, call) : answerMicroBatch(alone, ran, call));
}

function refuseTooLarge(alone: MicroBatch, { deps: { limits } }: Call) {
  const { model, rows } = alone;
  const elements = elementsIn(alone);
  if (rows === 1 || elements <= limits.maxBatchElements) return undefined;
  return failure(
    'TOO_MANY_ROWS',
    `model '${model.name}' splits no request, because its rows depend on each other: expected at most ` +
      `${plural(limits.maxBatchElements, 'element')} in a request, got ${elements}; send fewer rows, or raise ` +
      'BATCHSCORE_MAX_BATCH_ELEMENTS',
  );
}

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
  const requests = call.equals.answeredBy(batch.parts);
  observer.microBatch(reportOf(batch, requests.length, { stackMs, runMs, encodeMs }), () =>
    requests.map(({ bodyIndex }) => bodyIndex),
  );
}

/** Maximum size of finished answers to hold before they are passed on, in characters or bytes. */
const SIZE_WRITTEN_TOGETHER = 4 * 1024 * 1024;
/** Size of answers to format before yielding to the event loop: some milliseconds of work. */
const SIZE_A_TURN = 256 * 1024;

/**
 * Answers every request whose last part is in the micro-batch. Yields the completed replies in groups that are passed
 * on together.
 *
 * @param outputs of the run, one tensor per model output, each `[paddedRows, …]`
 */
async function* answerParts(
  batch: MicroBatch,
  outputs: readonly Tensor[],
  call: Call,
): AsyncGenerator<readonly Reply[]> {
  const { model } = batch;
  const { replies, splits, equals, deps, time } = call;
  const together = createHookBatch('encodeBatch', model.transform?.encodeBatch, model, time, deps);
  const encoderOfRun = createEncoder(outputs, together, deps.observer);
  let pending: Reply[] = [];
  let later: Promise<void>[] = [];
  let held = 0;
  let heldThisTurn = 0;
  const record = (request: ScoringRequest, answer: Scores | Failure): void => {
    const one = isFailure(answer) ? replies.recordFailure(request, answer) : replies.recordScores(request, answer);
    if (one !== undefined) pending.push(one);
    if (isFailure(answer)) return;
    const size = sizeOf(answer);
    held += size;
    heldThisTurn += size;
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
    const everyone = equals.close(request);
    if (everyone.every(({ bodyIndex }) => replies.isComplete(bodyIndex))) continue;
    let encoder: ScoreEncoder | Failure = encoderOfRun;
    let encodedRow = fromRow;
    if (fewestCharacters(request, outputs) > deps.limits.maxAnswerCharacters) {
      encoder = answerTooLarge(deps.limits.maxAnswerCharacters);
    } else if (!liesInOutputs(part, batch)) {
      const joined = splits.collectPart(part, unstack(batch, part, fromRow, outputs));
      if (joined === undefined) continue;
      const own = isFailure(joined) || isWhole(part) ? joined : await verifyWhole(request, joined, call);
      encoder = isFailure(own) ? own : createEncoder(own, together, deps.observer);
      encodedRow = 0;
    }
    for (const one of everyone) {
      const answer = isFailure(encoder) ? encoder : encode(encoder, one, encodedRow, replies);
      if (answer instanceof Promise) later.push(answer.then((encoded) => record(one, encoded)));
      else record(one, answer);
      // Equal requests may be many more than the rows of a run, and answers of a hook have no size yet.
      const isFull = later.length >= model.maxBatchRows;
      if (heldThisTurn < SIZE_A_TURN && !isFull) continue;
      heldThisTurn = 0;
      await nextTurn();
      if (held < SIZE_WRITTEN_TOGETHER && !isFull) continue;
      await allEncoded();
      yield pending;
      pending = [];
      later = [];
      held = 0;
    }
  }
  await allEncoded();
  yield pending;
  // V8 may keep this array for long, and with it the replies.
  pending.length = 0;
}

/** Returns true if the outputs of a part are a slice of the run's outputs: a whole request without padding to cut. */
function liesInOutputs(part: Part, { model: { ragged }, paddedLength }: MicroBatch): boolean {
  const isPadded = part.request.length !== paddedLength && ragged?.outputs.some((axis) => axis !== undefined) === true;
  return isWhole(part) && !isPadded;
}

/** Encodes an answer. One that exceeds the longest possible string is the request's own failure. */
function encode(
  encoder: ScoreEncoder,
  request: ScoringRequest,
  fromRow: number,
  replies: Replies,
): MaybePromise<Scores | Failure> {
  try {
    return encoder.encode(replies.keyOf(request), request, fromRow);
  } catch (error) {
    const reason = error instanceof RangeError ? 'it is longer than any text' : reasonOf(error);
    const message = `the answer cannot be written: ${reason}; send fewer rows in a request`;
    return failure('RESULT_TOO_LARGE', message);
  }
}

/** Outputs of requests that were split among several micro-batches, until all their parts are scored. */
export interface Splits {
  /** Returns a request's outputs after its last part, a failure if the parts do not fit together, else undefined. */
  collectPart(part: Part, outputs: readonly Tensor[]): readonly Tensor[] | Failure | undefined;
  /** Takes a request to run it as a whole, and drops its parts. @returns false if another caller has taken it */
  takeWhole(request: ScoringRequest): boolean;
}

interface ScoredParts {
  readonly parts: { readonly fromRow: number; readonly outputs: readonly Tensor[] }[];
  rowsLeft: number;
}

function createSplits(): Splits {
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
