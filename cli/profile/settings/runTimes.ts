import { fullTable, tableCost } from '../../../lambda/core/cost.ts';

/** What runs of some rows were measured to take. */
export interface RunCost {
  readonly rows: number;
  /** Of the ragged axis; 1 without one. */
  readonly length: number;
  /** Threads of the session. */
  readonly threads: number;
  readonly medianMs: number;
  /** By how much the middle four fifths of the runs differ, as a share of the median. @default 0 */
  readonly spread?: number | undefined;
  readonly rowsPerSecond: number;
  /** Most memory that the process had held by then. */
  readonly peakRssBytes: number;
}

/** What runs take with a given share of CPUs. */
export interface RunTimes {
  /** Rows of a run: the fewest that cost nearly as little a row as any. */
  readonly rowsPerRun: number;
  /** How many times as many rows a second that is as one row a run. */
  readonly gain: number;
  /** The same with slow runs of so many rows and fast ones of one row: what is left of it whatever the machine did meanwhile. */
  readonly sureGain: number;
  /** Runs that so many rows are cut into. */
  runsOf(rows: number): number;
  /** Milliseconds of these runs together. */
  msOf(rows: number): number;
}

/** A row that costs so much more than in the best run is as good: fewer rows take less memory and answer sooner. */
const NEARLY = 1.05;
/** What runs of one size differ by counts up to here, each way: four times the rows a second are no chance. */
const MOST_DOUBT = 0.6;

/**
 * The run times of an environment with `vcpus`. Threads that have a core each take what was measured; with fewer cores
 * than threads it is longer in proportion, as if every thread worked all the time. Of several numbers of threads the best
 * counts. Row counts between those measured are interpolated.
 *
 * @param table some rows of each of some lengths, for one or more numbers of threads; of long ones there may be fewer
 * @param length that rows have
 */
export function runTimes(table: readonly RunCost[], vcpus: number, length: number): RunTimes {
  const byThreads = [...Map.groupBy(table, ({ threads }) => threads)].map(([threads, runs]) => ({
    threads,
    slower: Math.max(1, threads / vcpus),
    cost: tableCost(fullTable(runs.map(({ rows, length, medianMs }) => ({ rows, length, ms: medianMs })))),
  }));
  const oneRun = (rows: number): number =>
    Math.min(...byThreads.map(({ slower, cost }) => slower * cost(rows, length)));
  const measured = [...new Set(table.map(({ rows }) => rows))].toSorted((a, b) => a - b);
  const msPerRow = measured.map((rows) => oneRun(rows) / rows);
  const best = Math.min(...msPerRow);
  const rowsPerRun = measured[msPerRow.findIndex((ms) => ms <= NEARLY * best)] as number;
  const fullRun = oneRun(rowsPerRun);
  const gain = (oneRun(1) * rowsPerRun) / fullRun;
  const threadsAt = (rows: number): number | undefined =>
    byThreads.find(({ slower, cost }) => slower * cost(rows, length) === oneRun(rows))?.threads;
  // Of the number of threads that counts: with another one, something else may have held the machine up.
  const half = (rows: number): number => {
    const counting = table.filter((run) => run.rows === rows && run.threads === threadsAt(rows));
    return Math.min(MOST_DOUBT, Math.max(0, ...counting.map(({ spread = 0 }) => spread)) / 2);
  };
  return {
    rowsPerRun,
    gain,
    sureGain: (gain * (1 - half(1))) / (1 + half(rowsPerRun)),
    runsOf: (rows) => Math.ceil(rows / rowsPerRun),
    msOf: (rows) => {
      const rest = rows % rowsPerRun;
      return Math.floor(rows / rowsPerRun) * fullRun + (rest === 0 ? 0 : oneRun(rest));
    },
  };
}

/** The most memory that runs of up to so many rows were seen to take. */
export function peakBytes(table: readonly RunCost[], rows: number): number {
  return Math.max(...table.filter((run) => run.rows <= rows).map(({ peakRssBytes }) => peakRssBytes));
}
