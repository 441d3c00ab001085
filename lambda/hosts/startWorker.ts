import { type Clock, SYSTEM_CLOCK } from '../aws/clock.ts';
import type { SqsCaller } from '../aws/sqsCalls.ts';
import type { Outage } from '../core/contract/failure.ts';
import type { MessageRecord } from '../core/contract/record.ts';
import { modelHint } from '../core/gather/modelHint.ts';
import { BATCH_BYTES } from '../limits/worker.ts';
import type { Composition } from './compose.ts';
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
  /** Told of the beginning of an outage, of what cannot be reached, and of its end, with undefined. */
  readonly onOutage: (outage: Outage | undefined) => void;
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

export function startWorker({ settings, composition, sqs, onProblem, onOutage, onStuck }: WorkerOptions): Worker {
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
  const probing = createProbing({
    isOut: () => scoring.outages?.current() !== undefined,
    poll: () => intake.poll(),
    onChange: () => onOutage(scoring.outages?.current()?.outage),
  });

  const release = (records: readonly MessageRecord[]): void => {
    held.remove(records);
    intake.poll();
  };
  const handBack = async (records: readonly MessageRecord[]): Promise<void> => {
    await intake.stop();
    const giveBack = probing.isOut() ? composition.sitOut : visibility.handBack;
    if (records.length > 0) await giveBack(records, signal);
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
    async sitOut(records) {
      if (draining !== undefined) await intake.stop();
      await composition.sitOut(records, signal);
    },
    handBack,
    onScored(outcomes, records) {
      telemetry.outcomes(outcomes, records);
      const answered = outcomes.filter(({ status }) => status === 'answered').length;
      finished += answered;
      handedBack += outcomes.length - answered;
      probing.look();
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
      if (!probing.isOut()) pace.took(lane, records.length, scoring.now() - startedAt);
      intake.poll();
    },
  });
  const intake = createIntake({
    settings,
    sqs,
    onError: onProblem,
    hasRoom(records, bytes, ofQueue) {
      if (probing.isOut() && (probing.isPausing() || ofQueue > 0 || held.size() > 0)) return false;
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

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 16_000;

export interface ProbingOptions {
  readonly isOut: () => boolean;
  /** Receives, as far as there is room. */
  readonly poll: () => void;
  /** Told that an outage has begun, or is over. */
  readonly onChange: () => void;
  /** @default the system's */
  readonly clock?: Clock | undefined;
}

/**
 * During an outage nothing is received, as each receive would cost a message one of those that it has. After pauses of
 * 1, 2, 4, 8 and then 16 s, one poll of each queue brings a batch that finds out whether it is over.
 */
export function createProbing({ isOut, poll, onChange, clock = SYSTEM_CLOCK }: ProbingOptions) {
  let pauseMs = FIRST_PAUSE_MS;
  let wasOut = false;
  let cancelPause: (() => void) | undefined;
  const endPause = (): void => {
    cancelPause?.();
    cancelPause = undefined;
  };
  return {
    isOut,
    /** Whether it is not the time for a probe. */
    isPausing: () => cancelPause !== undefined,
    /** To be called whenever a batch was scored: it may have found that there is an outage, still is one, or none any more. */
    look(): void {
      if (isOut() !== wasOut) onChange();
      wasOut = isOut();
      if (!wasOut) {
        endPause();
        pauseMs = FIRST_PAUSE_MS;
      } else if (cancelPause === undefined) {
        cancelPause = clock.after(pauseMs, () => {
          endPause();
          poll();
        });
        pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
      }
    },
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
