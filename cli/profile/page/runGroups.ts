import { NEARLY } from '../settings/runTimes.ts';
import { count } from './format.ts';
import type { MeasuredProfile, MeasuredRun } from './report.ts';

/** Runs of one chart. */
export interface Panel {
  /** Tells it from others, in a title; empty where there is one. */
  readonly suffix: string;
  readonly groups: readonly RunGroup[];
  /** The ones that matter most: as the session is deployed, of ordinary rows. */
  readonly main: readonly MeasuredRun[];
  /** Begins a sentence on them; empty where all runs are such. */
  readonly ofMain: string;
}

/** Runs of one length and number of threads, by rows. */
export interface RunGroup {
  readonly name: string;
  readonly runs: readonly MeasuredRun[];
}

/** One chart with a line for each number of threads; or, with several lengths, one for each number of threads. */
export function panelsOf({ table, threads, length }: MeasuredProfile): Panel[] {
  const lengths = distinct(table.map((run) => run.length));
  const counts = distinct(table.map((run) => run.threads)).toSorted((a) => (a === threads ? -1 : 1));
  const runsOf = (ofThreads: number, ofLength: number): MeasuredRun[] =>
    table.filter((run) => run.threads === ofThreads && run.length === ofLength).toSorted((a, b) => a.rows - b.rows);
  if (lengths.length === 1) {
    const groups = counts.map((count) => ({ name: threadsName(count), runs: runsOf(count, length) }));
    return [
      {
        suffix: '',
        groups,
        main: runsOf(threads, length),
        ofMain: counts.length === 1 ? '' : `with ${threadsName(threads)} `,
      },
    ];
  }
  return counts.map((count) => ({
    suffix: counts.length === 1 ? '' : `, ${threadsName(count)}`,
    groups: lengths.map((one) => ({ name: `length ${one}`, runs: runsOf(count, one) })),
    main: runsOf(count, length),
    ofMain: `of rows of length ${length}, `,
  }));
}

/** The fewest rows that give nearly as many a second as any. */
export function kneeOf(runs: readonly MeasuredRun[]): MeasuredRun | undefined {
  const best = Math.max(...runs.map(({ rowsPerSecond }) => rowsPerSecond));
  return runs.find(({ rowsPerSecond }) => rowsPerSecond * NEARLY >= best);
}

export function distinct(values: readonly number[]): number[] {
  return [...new Set(values)].toSorted((a, b) => a - b);
}

export function threadsName(threads: number): string {
  return threads === 1 ? '1 thread' : `${threads} threads`;
}

export function rowsName(rows: number): string {
  return rows === 1 ? '1 row' : `${count(rows)} rows`;
}
