import type { Measurement } from '../measure/measureModel.ts';
import { kneeOf } from '../report.ts';
import { count } from './format.ts';

export type MeasuredRun = Measurement['table'][number];

/** Runs of one chart. */
export interface Panel {
  /** Tells it from others, in a title; empty where there is one. */
  readonly suffix: string;
  readonly groups: readonly RunGroup[];
  /** Of ordinary rows, with as many threads as are deployed or as the chart is of; at least one run. */
  readonly main: readonly MeasuredRun[];
  /** The one of them at the knee. */
  readonly knee: MeasuredRun;
  /** Begins a sentence on them; empty where all runs are such. */
  readonly ofMain: string;
}

/** Runs of one length and number of threads, by rows. */
export interface RunGroup {
  readonly name: string;
  readonly runs: readonly MeasuredRun[];
}

/**
 * One chart with a line for each number of threads; or, with several lengths, one for each number of threads. The first is
 * of what is deployed. What was not run is left out.
 */
export function panelsOf(measured: Measurement): Panel[] {
  const { table, threads, length } = measured;
  const lengths = distinct(table.map((run) => run.length));
  const counts = distinct(table.map((run) => run.threads)).toSorted(
    (a, b) => Number(b === threads) - Number(a === threads),
  );
  const groupOf = (name: string, ofThreads: number, ofLength: number): RunGroup => ({
    name,
    runs: table
      .filter((run) => run.threads === ofThreads && run.length === ofLength)
      .toSorted((a, b) => a.rows - b.rows),
  });
  const panelOf = (suffix: string, ofMain: string, ofThreads: number, groups: readonly RunGroup[]): Panel[] => {
    const main = groupOf('', ofThreads, length).runs;
    if (main.length === 0) return [];
    const { rows } = kneeOf({ table, length, threads: ofThreads });
    const knee = main.find((run) => run.rows === rows) as MeasuredRun;
    return [{ suffix, ofMain, main, knee, groups: groups.filter(({ runs }) => runs.length > 0) }];
  };
  if (lengths.length === 1) {
    const ofMain = counts.length === 1 ? '' : `with ${threadsName(threads)} `;
    return panelOf(
      '',
      ofMain,
      threads,
      counts.map((count) => groupOf(threadsName(count), count, length)),
    );
  }
  return counts.flatMap((count) => {
    const groups = lengths.map((one) => groupOf(`length ${one}`, count, one));
    return panelOf(
      counts.length === 1 ? '' : `, ${threadsName(count)}`,
      `of rows of length ${length}, `,
      count,
      groups,
    );
  });
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
