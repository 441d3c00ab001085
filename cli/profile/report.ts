import type { Measurement } from './measure/measureModel.ts';
import type { Recommendation } from './recommendation.ts';
import type { RunCost } from './settings/runTimes.ts';
import type { SettingsAnswer, SettingsQuestion } from './settings/settings.ts';

/** Everything that the command found: what it prints, keeps in `profile.json` and shows on its page are parts of it. */
export interface ProfileReport {
  /** What `profile.json` keeps, apart from the recommendation. */
  readonly measured: Measurement;
  readonly knee: Knee;
  readonly question: SettingsQuestion;
  readonly answer: SettingsAnswer;
  readonly recommendation: Recommendation;
  /** The traffic that was asked for, in words. */
  readonly asked: string;
  /** What holds of all figures, a sentence each. */
  readonly notes: readonly string[];
}

/** The fewest rows that give nearly the most rows a second, with runs of ordinary length as they are deployed. */
export interface Knee {
  readonly rows: number;
  readonly length: number;
  readonly threads: number;
  readonly rowsPerSecond: number;
  /** Of the most rows a second, and how many rows give that. */
  readonly share: number;
  readonly mostAtRows: number;
}

/** More rows that give so little more are not worth their wait and their memory. */
const NEARLY = 0.95;

/** @param measured with at least one run of that length and so many threads */
export function kneeOf({ table, length, threads }: Pick<Measurement, 'table' | 'length' | 'threads'>): Knee {
  const runs = table
    .filter((run) => run.length === length && run.threads === threads)
    .toSorted((a, b) => a.rows - b.rows);
  const most = runs.reduce((best, run) => (run.rowsPerSecond > best.rowsPerSecond ? run : best));
  const knee = runs.find((run) => run.rowsPerSecond >= NEARLY * most.rowsPerSecond) as RunCost;
  const { rows, rowsPerSecond } = knee;
  return { rows, length, threads, rowsPerSecond, share: rowsPerSecond / most.rowsPerSecond, mostAtRows: most.rows };
}

/** What the runs say of batching, where it is of little use, a sentence each. */
export function findingsOf({ table, length, threads }: Measurement, { rows: atKnee }: Knee): string[] {
  const runs = table
    .filter((run) => run.length === length && run.threads === threads)
    .toSorted((a, b) => a.rows - b.rows);
  const [fewest, most] = [runs[0], runs.at(-1)];
  if (fewest === undefined || most === undefined || fewest === most || atKnee > fewest.rows) return [];
  const times = (most.rowsPerSecond / fewest.rowsPerSecond).toFixed(2);
  return [
    `rows gain nothing from sharing a run: ${most.rows} of them give ${times} times the rows a second of ${fewest.rows}`,
  ];
}

/** What `--json` prints. */
export function printedOf({ measured, knee, recommendation, answer }: ProfileReport) {
  const { path: _, requestBytes: __, ...printed } = measured;
  const { candidates, forms, breakEvens } = answer;
  return { ...printed, knee, recommendation, candidates, forms, breakEvens };
}
