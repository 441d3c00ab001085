import { availableParallelism } from 'node:os';
import { runOnGpu } from './provider.ts';
import type { SessionSpec, Waiting } from './sessionJobs.ts';

/**
 * The session settings of each. Threads that spin begin the next run sooner, and take a core meanwhile: for so long that
 * a message that comes right after another finds them, and no longer.
 */
export const WAITING_SETTINGS: Readonly<Record<Waiting, Readonly<Record<string, string>>>> = {
  asleep: { 'session.force_spinning_stop': '1' },
  spinning: { 'session.force_spinning_stop': '0', 'session.intra_op.spin_duration_us': '1000' },
};

/** Settings that say how threads wait: who gives one has chosen. */
const CHOSEN_BY = [
  'session.force_spinning_stop',
  'session.intra_op.allow_spinning',
  'session.intra_op.spin_duration_us',
];

/**
 * Whether both are worth comparing: where runs are shared among cores, nothing else in the process needs those, and
 * nobody has chosen.
 *
 * @param cores of the machine. @default as Node tells
 */
export function maySpin(
  { providers, devices, sessionOptions, onlyModel = true }: SessionSpec,
  cores = availableParallelism(),
): boolean {
  const { intraOpNumThreads = 0, extra } = sessionOptions;
  const given = fullNames(extra).map(([name]) => name);
  return (
    onlyModel &&
    cores > 1 &&
    intraOpNumThreads !== 1 &&
    devices === undefined &&
    !runOnGpu(providers) &&
    !given.some((name) => CHOSEN_BY.includes(name))
  );
}

/** Two ways to run the same, in milliseconds of work and run; and how to let the threads of the last one fall asleep. */
interface WaysToWait {
  readonly timeMs: (waiting: Waiting) => Promise<number>;
  readonly rest: () => void;
  /** A clock that never goes back, in milliseconds. */
  readonly now: () => number;
}

/** Runs one after the other, as messages come; the first of them, after a rest, is not counted. */
const RUNS_IN_A_TURN = 4;
const LEAST_TURNS = 3;
const MOST_TURNS = 12;
/** Less is no gain: the next measurement might find the opposite. */
const LEAST_GAIN = 0.02;

/**
 * Times both in turns, and takes the one whose median is less; spinning must be faster by 2 %.
 *
 * @param limitMs no turn is begun later, once each has had three
 */
export async function fasterWaiting({ timeMs, rest, now }: WaysToWait, limitMs: number): Promise<Waiting> {
  const taken: Record<Waiting, number[]> = { asleep: [], spinning: [] };
  const takeTurn = async (waiting: Waiting): Promise<void> => {
    rest();
    await timeMs(waiting);
    for (let run = 1; run < RUNS_IN_A_TURN; run++) taken[waiting].push(await timeMs(waiting));
  };
  const startedAt = now();
  for (let turn = 0; turn < MOST_TURNS; turn++) {
    if (turn >= LEAST_TURNS && now() - startedAt > limitMs) break;
    const order = turn % 2 === 0 ? (['asleep', 'spinning'] as const) : (['spinning', 'asleep'] as const);
    for (const waiting of order) await takeTurn(waiting);
  }
  return medianOf(taken.spinning) < medianOf(taken.asleep) * (1 - LEAST_GAIN) ? 'spinning' : 'asleep';
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] as number;
}

/**
 * The session settings that ONNX Runtime is given as `extra`, by their full names: what is given replaces the defaults
 * one by one, whether its names are nested or written out.
 *
 * @param given as in `sessionOptions.extra`
 * @param defaults by full name
 */
export function sessionSettings(given: unknown, defaults: Readonly<Record<string, string>>): Record<string, unknown> {
  return { ...defaults, ...Object.fromEntries(fullNames(given)) };
}

/** Each setting by its full name, whether it is given nested or written out. */
function fullNames(settings: unknown, prefix = ''): [string, unknown][] {
  return Object.entries(settings ?? {}).flatMap(([key, value]): [string, unknown][] =>
    typeof value === 'object' ? fullNames(value, `${prefix}${key}.`) : [[prefix + key, value]],
  );
}
