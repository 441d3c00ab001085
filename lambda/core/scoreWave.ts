import { createRoom, type Room } from './base/room.ts';
import { failure } from './contract/failure.ts';
import type { MessageRecord } from './contract/record.ts';
import { type DecodedBody, type DecodedRequest, isPacked, isRefused } from './contract/request.ts';
import { type DecodedRecord, decodeInOrder } from './decode/decodeInOrder.ts';
import type { ScoringDependencies } from './dependencies.ts';
import type { MicroBatch } from './plan/microBatch.ts';
import type { Plan } from './plan/planner.ts';
import { type Invocation, mostElements } from './run/invocation.ts';
import { scoreMicroBatch } from './run/scoreMicroBatch.ts';
import { startStopwatch } from './run/stopwatch.ts';
import type { PendingWrite } from './settle/ledger.ts';

/** Bytes of payloads that are read and not scored yet, or one payload that is larger. */
const PAYLOAD_BYTES = 16 * 1024 * 1024;
/** Characters of inline bodies that are decoded and not scored yet: what the worker has in a batch, so that none is cut for it. */
const BACKLOG_CHARACTERS = 32 * 1024 * 1024;

/** What bounds the memory of an invocation, whatever comes: how much of it is decoded and not scored yet, by record. */
export interface Bounds {
  readonly payloads: Room;
  readonly backlog: Room;
  /** A record is complete: what it held is free. */
  release(record: number): void;
}

export function createBounds(): Bounds {
  const payloads = createRoom(PAYLOAD_BYTES);
  const backlog = createRoom(BACKLOG_CHARACTERS);
  return {
    payloads,
    backlog,
    release(record) {
      payloads.release(record);
      backlog.release(record);
    },
  };
}

/**
 * Decodes and plans records while micro-batches that are complete run, and those that have run are written.
 *
 * @returns milliseconds that decoding took, reading payloads included
 */
export async function scoreWave(
  wave: readonly number[],
  records: readonly MessageRecord[],
  invocation: Invocation,
  { payloads, backlog }: Bounds,
  deps: ScoringDependencies,
): Promise<number> {
  const { schedule, time, write, settled } = invocation;
  const run = (batches: readonly MicroBatch[]): void => {
    for (const batch of batches) schedule.add(batch.model, () => scoreMicroBatch(batch, invocation));
  };
  const newPlan = (): Plan =>
    deps.plan((model) => mostElements(deps, model), deps.latency.costOf, deps.batching.sharingOf);
  let plan = newPlan();
  let decodeMs = 0;
  const startedAt = deps.now();
  const stopwatch = startStopwatch(deps.now);
  for await (const decoded of decodeInOrder(records, wave, deps, payloads, time.signal)) {
    decodeMs += stopwatch.lap();
    for (const { record } of decoded) backlog.occupy(record, (records[record] as MessageRecord).body.length);
    const { refused, closed } = enterBodies(decoded, plan, invocation, deps);
    if (refused.length > 0) void write(refused);
    run(closed);
    if (decoded.length === 0 || payloads.isCrowded() || backlog.isCrowded()) {
      run(plan.finish());
      plan = newPlan();
    }
    await schedule.catchUp();
    await backlog.spare(time.signal);
    stopwatch.lap();
  }
  decodeMs += stopwatch.lap();
  deps.observer.stage?.('decode', startedAt, deps.now(), { records: wave.length, busyMs: decodeMs });
  run(plan.finish());
  await schedule.drained();
  await settled();
  return decodeMs;
}

/** Enters bodies into the ledger and the plan. Gives the errors that answer whole records, and what the plan closed. */
function enterBodies(
  decoded: readonly DecodedRecord[],
  plan: Plan,
  { ledger }: Invocation,
  { observer }: ScoringDependencies,
): { readonly refused: readonly PendingWrite[]; readonly closed: readonly MicroBatch[] } {
  const refused: PendingWrite[] = [];
  const closed: MicroBatch[] = [];
  const add = (request: DecodedRequest): void => {
    if (isRefused(request)) return;
    for (const batch of plan.add(request)) closed.push(batch);
  };
  const enter = (record: number, body: DecodedBody): void => {
    const error = ledger.register(record, body);
    if (error !== undefined) refused.push(error);
    if (isPacked(body)) body.forEach(add);
    else add(body);
  };
  for (const { record, body } of decoded) {
    try {
      enter(record, body);
    } catch (error) {
      observer.problem(error);
      ledger.markRetry(record, failure('INTERNAL', 'expected the record to be planned; it threw'));
    }
  }
  return { refused, closed };
}
