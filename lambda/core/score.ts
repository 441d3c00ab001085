import { createSplits } from './answer.ts';
import { type DecodeDependencies, decodeBodies, type IndexedBody } from './body.ts';
import { createMemoryBudget, type MemoryBudget } from './concurrency.ts';
import { failure } from './failure.ts';
import { type DecodedBody, type DecodedRequest, isPacked, isRefused, type MicroBatch } from './microBatch.ts';
import type { Plan, Planner } from './plan.ts';
import type { TimeLimit } from './record.ts';
import { createReplies, type KeyedBody, type Reply } from './replies.ts';
import type { DecodeLimits } from './requestInputs.ts';
import { type Call, createSchedule, maxElements, type RunDependencies, startStopwatch } from './run.ts';
import { scoreMicroBatch } from './scoreMicroBatch.ts';

export type ScoringLimits = DecodeLimits & RunDependencies['limits'];

/** What scoring needs, from decoding to encoding. Lives as long as the process. */
export interface ScoreDependencies extends DecodeDependencies, RunDependencies {
  readonly plan: Planner;
  readonly limits: ScoringLimits;
}

/**
 * Takes replies as runs end. Resolves once there is memory for more of them: until then no further runs are started.
 * It must not reject.
 */
export type ReplySink = (replies: readonly Reply[]) => Promise<void>;

/**
 * Scores bodies: decodes and plans them while the micro-batches that are complete run, and gives each body one reply. What
 * is still without one when `time` is over gets none. Never throws for a body's sake.
 */
export async function score(
  bodies: readonly KeyedBody[],
  deps: ScoreDependencies,
  time: TimeLimit,
  sink: ReplySink,
): Promise<void> {
  const { payloadMemory, backlog, release } = createBounds();
  const replies = createReplies(bodies, deps.limits.maxAnswerCharacters, release);
  const schedule = createSchedule(deps.now);
  const call: Call = { replies, splits: createSplits(), schedule, time, deps, sink };
  const run = (batches: readonly MicroBatch[]): void => {
    for (const batch of batches) schedule.add(batch.model, () => scoreMicroBatch(batch, call));
  };
  const newPlan = (): Plan =>
    deps.plan((model) => maxElements(deps, model), deps.latency.costOf, deps.batching.sharingOf);
  let plan = newPlan();
  let decodeMs = 0;
  const startedAt = deps.now();
  const stopwatch = startStopwatch(deps.now);
  for await (const decoded of decodeBodies(bodies, deps, payloadMemory, time)) {
    decodeMs += stopwatch.lap();
    for (const { bodyIndex } of decoded) backlog.hold(bodyIndex, (bodies[bodyIndex] as KeyedBody).body.length);
    const { settled, closed } = enterBodies(decoded, plan, call);
    if (settled.length > 0) void sink(settled);
    run(closed);
    // Decoding waits for slow objects, or memory is full: what is planned so far runs.
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
  await schedule.drained();
}

/** Bytes of payloads that are read and not scored yet, or one payload that is larger. */
const PAYLOAD_BYTES = 16 * 1024 * 1024;
/** Characters of inline bodies that are decoded and not scored yet: as many as the worker has in a batch, so that none is cut. */
const BACKLOG_CHARACTERS = 32 * 1024 * 1024;

/** Bounds the memory of a call: what is decoded and not scored yet, by body. */
function createBounds(): { payloadMemory: MemoryBudget; backlog: MemoryBudget; release(body: number): void } {
  const payloadMemory = createMemoryBudget(PAYLOAD_BYTES);
  const backlog = createMemoryBudget(BACKLOG_CHARACTERS);
  return {
    payloadMemory,
    backlog,
    release(body) {
      payloadMemory.release(body);
      backlog.release(body);
    },
  };
}

/** Enters bodies into the replies and the plan. Returns the replies that need no run, and the micro-batches that closed. */
function enterBodies(
  decoded: readonly IndexedBody[],
  plan: Plan,
  { replies, deps }: Call,
): { readonly settled: readonly Reply[]; readonly closed: readonly MicroBatch[] } {
  const settled: Reply[] = [];
  const closed: MicroBatch[] = [];
  const add = (request: DecodedRequest): void => {
    if (isRefused(request)) return;
    for (const batch of plan.add(request)) closed.push(batch);
  };
  const enter = (index: number, body: DecodedBody): Reply | undefined => {
    try {
      const refused = replies.register(index, body);
      if (isPacked(body)) body.forEach(add);
      else add(body);
      return refused;
    } catch (error) {
      deps.observer.problem(error);
      return replies.handBack(index, failure('INTERNAL', 'expected the record to be planned; it threw'));
    }
  };
  for (const { bodyIndex, body } of decoded) {
    const reply = enter(bodyIndex, body);
    if (reply !== undefined) settled.push(reply);
  }
  return { settled, closed };
}
