import type { SqsCaller } from '../adapters/sqs/caller.ts';
import type { Composition } from '../compose.ts';
import type { MessageRecord } from '../core/contract/record.ts';
import { modelHint } from '../core/gather/modelHint.ts';
import { BATCH_BYTES } from '../limits/worker.ts';
import { createDispatcher } from './dispatcher.ts';
import { createHeld } from './held.ts';
import { createIntake } from './intake.ts';
import { createLanes } from './lanes.ts';
import { createPace } from './pace.ts';
import type { WorkerSettings } from './settings.ts';
import { createVisibilityActions } from './visibility.ts';

export interface WorkerOptions {
  readonly settings: WorkerSettings;
  readonly composition: Composition;
  readonly sqs: SqsCaller;
  /** Told of what SQS did not do: it is tried again, or messages come back. */
  readonly onProblem: (error: Error) => void;
  /** Told when a run was left behind: the worker should end, and another take its place. */
  readonly onStuck: () => void;
}

/** What a worker did since its start. */
export interface Tally {
  /** Records that were answered. */
  readonly finished: number;
  /** Records that were given back to the queue. */
  readonly handedBack: number;
}

/** Receives, gathers and scores until it is stopped. */
export interface Worker {
  /** Records that are received, and neither deleted nor handed back. */
  held(): number;
  tally(): Tally;
  /**
   * Starts no more polls, scores what it holds and what open polls still bring within `drainMs`, and hands back the
   * rest. Nothing is made visible while a poll is open, which would receive it again. Resolves when SQS was told of
   * everything. A run that was left behind starts it as well.
   */
  drain(): Promise<void>;
}

/** Bytes of bodies in one batch, and in all that wait for one. */
const MOST_PENDING_BYTES = 2 * BATCH_BYTES;

export function startWorker({ settings, composition, sqs, onProblem, onStuck }: WorkerOptions): Worker {
  const { scoring, telemetry, stuckRuns } = composition;
  const { queueUrls, batchSize, timeoutMs } = settings;
  const depth = settings.depth * composition.cards;
  const isFifo = queueUrls.some((url) => url.endsWith('.fifo'));
  const names = laneNames(composition, isFifo);
  const { signal } = new AbortController();
  const visibility = createVisibilityActions({ sqs, queueUrls, onProblem });
  const pace = createPace(batchSize, timeoutMs);
  const late = new Set<Promise<void>>();
  let finished = 0;
  let handedBack = 0;
  let draining: Promise<void> | undefined;
  let isOutOfTime = false;

  const release = (records: readonly MessageRecord[]): void => {
    held.remove(records);
    intake.poll();
  };
  const handBack = async (records: readonly MessageRecord[]): Promise<void> => {
    await intake.stop();
    if (records.length > 0) await visibility.handBack(records, signal);
  };
  const handBackUnscored = async (records: readonly MessageRecord[]): Promise<void> => {
    await handBack(records);
    handedBack += records.length;
    release(records);
  };
  const held = createHeld({
    visibilitySeconds: settings.visibilitySeconds,
    extend: visibility.extend,
    onLost(records) {
      onProblem(new Error(`heartbeat: ${records.size} records were not extended in time; others may score them too`));
      lanes.drop(records);
      intake.poll();
    },
  });
  const dispatcher = createDispatcher({
    scoring,
    timeoutMs,
    acknowledge: (records) => scoring.acknowledge(records, signal),
    async delayRetries(records) {
      if (draining !== undefined) await intake.stop();
      await composition.delayRetries(records, signal);
    },
    handBack,
    onScored(outcomes, records) {
      telemetry.outcomes(outcomes, records);
      const answered = outcomes.filter(({ status }) => status === 'answered').length;
      finished += answered;
      handedBack += outcomes.length - answered;
      if (stuckRuns().size === 0) return;
      // Before SQS is told of these records: an open poll would receive them again.
      void drain();
      onStuck();
    },
    onSettled: release,
  });
  const lanes = createLanes({
    names,
    laneOf: (record) => laneOf(record, names),
    limits: { batchSize, batchBytes: BATCH_BYTES, windowMs: settings.windowMs },
    mostOf: pace.mostOf,
    depth,
    keepsTogether: isFifo,
    async dispatch(records, lane) {
      const startedAt = scoring.now();
      await dispatcher.dispatch(records);
      pace.took(lane, records.length, scoring.now() - startedAt);
      intake.poll();
    },
  });
  const intake = createIntake({
    settings,
    sqs,
    onError: onProblem,
    hasRoom(records, bytes) {
      const pending = lanes.pending();
      const most = names.reduce((sum, name) => sum + pace.mostOf(name), 0);
      return (
        pending.records + records < most &&
        pending.bytes + bytes < MOST_PENDING_BYTES &&
        held.size() + records < 2 * (depth + 1) * most
      );
    },
    take(records) {
      held.add(records);
      if (isOutOfTime) late.add(handBackUnscored(records));
      else lanes.add(records);
    },
  });
  const drain = (): Promise<void> => {
    draining ??= drainOnce();
    return draining;
  };
  const drainOnce = async (): Promise<void> => {
    const outOfTime = dispatcher.endWithin(settings.drainMs);
    lanes.endWindow();
    await Promise.race([outOfTime, intake.stop().then(lanes.idle)]);
    isOutOfTime = true;
    intake.abort();
    await Promise.all([handBackUnscored(lanes.takeAll()), lanes.idle()]);
    await Promise.all([dispatcher.settled(), ...late]);
    held.stop();
  };
  intake.poll();
  return {
    held: () => held.size(),
    tally: () => ({ finished, handedBack }),
    drain,
  };
}

/** One lane for all where it would be of no use, or where the order of records matters. */
function laneNames({ models }: Composition, isFifo: boolean): string[] {
  const names = new Set(models.map(({ name }) => name));
  return isFifo || names.size === 1 ? [OTHER] : [OTHER, ...names];
}

/** The lane of records that name no model that there is. */
const OTHER = '';

function laneOf({ body }: MessageRecord, names: readonly string[]): string {
  const hint = names.length === 1 ? undefined : modelHint(body);
  return hint !== undefined && names.includes(hint) ? hint : OTHER;
}
