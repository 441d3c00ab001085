import { setTimeout } from 'node:timers/promises';
import { describeError, isCallersFault } from '../../lambda/aws/awsError.ts';
import { MAX_BATCH_ENTRIES } from '../../lambda/aws/sqsCalls.ts';
import { createAcknowledger } from './acknowledge.ts';
import { type Collector, createBackoff } from './collector.ts';
import type { Inbox } from './inbox.ts';
import { createIntake, type Intake, type IntakeOptions, type Tally } from './intake.ts';

export interface QueueCollectorOptions extends IntakeOptions {
  /** Ends the retries of acknowledgements. */
  readonly closing: AbortSignal;
}

/** A poll is never cut short, because what it received would stay hidden; so it is a short one. */
const POLL_SECONDS = 2;
const SWEEPERS = 4;
/** Well before what was set aside first comes back by itself. */
const LONGEST_ROUND_MS = 10_000;
const LONGEST_LINGER_MS = 40;
const LINGER_STEP_MS = 10;

/**
 * Collects in rounds while someone waits: a long poll until results come, then a sweep of short polls until none are
 * left. Results of others are set aside until then, so that they do not come again, and then given back; a pause of
 * about half the sweep's length is the turn of their clients.
 *
 * @see docs/adr/0014-clients-of-one-result-queue-take-turns.md
 */
export function startQueueCollector(options: QueueCollectorOptions): Collector {
  const own = createAcknowledger(options);
  const others = createAcknowledger(options);
  const intake = createIntake(options, own, others);
  const state: CollectorState = { round: undefined, lastError: undefined };
  void collectWhileWanted(options, intake, state);
  return {
    settled: () => own.idle(),
    lastError: () => state.lastError,
    othersReceived: () => intake.othersReceived(),
    async close() {
      await state.round;
      await Promise.all([own.idle(), others.idle()]);
    },
  };
}

interface CollectorState {
  /** The one under way, or the last one. */
  round: Promise<Round> | undefined;
  /** Why the last round failed; undefined after one that did not. */
  lastError: unknown;
}

async function collectWhileWanted(
  { inbox, queueUrl, closing }: QueueCollectorOptions,
  intake: Intake,
  state: CollectorState,
): Promise<void> {
  const backoff = createBackoff();
  while (!closing.aborted) {
    if (await inbox.demand()) backoff.reset();
    const joined = inbox.joined();
    state.round = collectOnce(inbox, intake);
    const { error, delivered, givenBack, broken, sweepMs } = await state.round;
    state.lastError = error ?? broken;
    if (isCallersFault(error)) inbox.fail(unreadable(queueUrl, error));
    if (delivered > 0) backoff.reset();
    if (givenBack > 0 || error !== undefined) await backoff.pause(joined, sweepMs / 2);
  }
}

interface Round extends Tally {
  /** Why a poll failed; undefined when none did. */
  readonly error: unknown;
  /** How long it took since the first results came. */
  readonly sweepMs: number;
}

/** One round, without the pause. It never rejects. */
async function collectOnce(inbox: Inbox, intake: Intake): Promise<Round> {
  let error: unknown;
  let startedAt = performance.now();
  try {
    let received = await intake.receive(POLL_SECONDS);
    startedAt = performance.now();
    const endsAt = startedAt + LONGEST_ROUND_MS;
    while (received > 0 && performance.now() < endsAt) {
      await sweep(received < MAX_BATCH_ENTRIES ? 1 : SWEEPERS, endsAt, inbox, intake);
      received = await linger(inbox, intake);
    }
  } catch (cause) {
    error = cause;
  }
  return { error, sweepMs: performance.now() - startedAt, ...intake.endRound() };
}

/** Polls until nothing comes or nothing is wanted any more. @throws what a poll threw, once all sweepers are done */
async function sweep(sweepers: number, endsAt: number, inbox: Inbox, intake: Intake): Promise<void> {
  const sweepAlone = async (): Promise<void> => {
    while (inbox.isWanting() && performance.now() < endsAt) {
      if ((await intake.receive(0)) === 0) return;
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: sweepers }, sweepAlone));
  for (const end of ends) {
    if (end.status === 'rejected') throw end.reason;
  }
}

/**
 * Clients that sweep together come to the end together. Were all to give back what they hold at that moment, they
 * would share it out by chance again; so each waits as long as chance has it for another to give back first.
 *
 * @returns how many messages came
 */
async function linger(inbox: Inbox, intake: Intake): Promise<number> {
  const endsAt = performance.now() + LONGEST_LINGER_MS * Math.random();
  let received = 0;
  while (received === 0 && intake.holdsOthers() && inbox.isWanting() && performance.now() < endsAt) {
    await setTimeout(LINGER_STEP_MS);
    received = await intake.receive(0);
  }
  return received;
}

function unreadable(queueUrl: string, cause: unknown): Error {
  return new Error(`the result queue ${queueUrl} cannot be read: ${describeError(cause)}`, { cause });
}
