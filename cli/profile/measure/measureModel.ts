import { messageOf } from '../../../lambda/core/failure.ts';

import { rungsUpTo } from '../../../lambda/onnx/independence.ts';
import { checkModelFile } from '../../../lambda/onnx/modelFile.ts';
import { modelDigest, type ProfileFile, thisMachine } from '../../../lambda/onnx/profileFile.ts';
import { locate } from '../../../lambda/onnx/repository.ts';
import type { Started, Target } from './messages.ts';
import { type Reached, reachOf } from './reach.ts';
import { describeCrash } from './runChild.ts';
import { startOften, startOnce } from './start.ts';
import { type TimedWith, threadCounts, timeAll } from './timing.ts';
import { versions } from './versions.ts';

/** What was measured of a model, as `profile.json` keeps it. */
export interface Measurement extends Omit<ProfileFile, 'schemaVersion' | 'recommendation'> {
  /** Of the `.onnx` file. */
  readonly path: string;
  /** Bytes of a real request; undefined where there are no samples. */
  readonly requestBytes: number | undefined;
}

export interface MeasureOptions {
  readonly maxBatchRows: number;
  /** Execution providers, first choice first. */
  readonly providers: readonly string[];
  /** Of timing, at most, apart from what cannot be cut short. */
  readonly seconds: number;
  /** Told the share that is done. */
  readonly onProgress: (share: number) => void;
}

/** Shares of the progress. */
const STARTED = 0.1;
const REACHED = 0.45;
const CHECKED = 0.5;
/** A start that takes more of the time is not repeated. */
const STARTS_OF_TIME = 7;
/** Of each size; sizes double, so that all up to one take twice its time. */
const ROUNDS = 7;
const LEAST_SLOW_MS = 100;

/**
 * Measures a model on this machine, in processes of their own: what its start takes, at what sizes it runs and with how
 * much memory, whether its rows are independent, and what runs take.
 *
 * @param path a model folder or a `.onnx` file
 * @throws Error when it cannot be opened, or does not run
 */
export async function measureModel(path: string, options: MeasureOptions): Promise<Measurement> {
  const { maxBatchRows, providers, seconds, onProgress } = options;
  const within = (from: number, to: number) => (share: number) => onProgress(from + share * (to - from));
  checkModelFile((await locate(path)).path);
  const target: Target = { path, maxBatchRows, providers };

  const { started, coldStart, findings } = await startOften(
    target,
    (1000 * seconds) / STARTS_OF_TIME,
    within(0, STARTED),
  );
  const threads = threadCounts(started);
  const slowMs = (1000 * seconds) / (threads.length * ROUNDS * 2 * started.lengths.length);
  const limits = { ladder: started.ladder, slowMs: Math.max(LEAST_SLOW_MS, slowMs) };
  const reach = await reachOf(target, started, rowCounts(started), limits, within(STARTED, REACHED));
  const most = Math.max(...reach.reached.map(({ rows }) => rows));
  const checked = await check({ ...target, maxBatchRows: most }, started);
  onProgress(CHECKED);
  const sizes = RUN_ALONE.includes(checked.safety.verdict)
    ? reach.reached.filter(({ rows }) => rows === 1)
    : reach.reached;
  const timings = await timeAll(target, sizes, threads, limits, 1000 * seconds, within(CHECKED, 1));

  const table = tableOf(timings.timed, reach.reached);
  return {
    model: started.model,
    version: started.version,
    path: started.path,
    digest: modelDigest(started.path),
    date: new Date().toISOString(),
    machine: thisMachine(),
    provider: started.provider,
    versions: versions(),
    threads: table.some((run) => run.threads === started.threads) ? started.threads : (table[0]?.threads ?? 1),
    length: ordinaryLength(table, started),
    safety: checked.safety,
    coldStart,
    table,
    findings: [...findings, ...reach.findings, ...checked.findings, ...timings.findings],
    requestBytes: started.requestBytes,
  };
}

/** The rungs of its ladder; else 1, 2, 4, … and the most. */
function rowCounts({ ladder, mostRows }: Started): readonly number[] {
  return ladder.length > 0 ? ladder : rungsUpTo(mostRows);
}

const RUN_ALONE: readonly string[] = ['dependent', 'alone'] satisfies ProfileFile['safety']['verdict'][];

/** Whether rows are independent, with more probes than at a start, and in runs of no more rows than it survives. */
async function check(
  target: Target,
  { verdict, maxDifference, start }: Started,
): Promise<{ readonly safety: ProfileFile['safety']; readonly findings: readonly string[] }> {
  const safety = { verdict, maxDifference, probes: start.probes };
  try {
    const found = await startOnce({ ...target, isLimited: true, isThorough: true });
    if ('by' in found) {
      return { safety, findings: [`checks with more probes ended their process (${describeCrash(found)})`] };
    }
    const isNew = found.verdict === 'dependent' && verdict !== 'dependent';
    const finding =
      'more probes than at start find that rows depend on each other: set "batching": "alone" in config.json';
    return {
      safety: { verdict: found.verdict, maxDifference: found.maxDifference, probes: found.start.probes },
      findings: isNew ? [finding] : [],
    };
  } catch (error) {
    return { safety, findings: [`checks with more probes failed: ${messageOf(error)}`] };
  }
}

function tableOf(timed: readonly TimedWith[], reached: readonly Reached[]): ProfileFile['table'] {
  return timed.map(({ rows, length, threads, medianMs, spread }) => {
    const size = reached.find((one) => one.rows === rows && one.length === length) as Reached;
    const rowsPerSecond = (1000 * rows) / medianMs;
    return { rows, length, threads, medianMs, spread, rowsPerSecond, peakRssBytes: size.peakRssBytes };
  });
}

/** The one of ordinary rows, or the longest that runs where it does not. */
function ordinaryLength(table: ProfileFile['table'], { length }: Started): number {
  const lengths = table.map((run) => run.length);
  return lengths.includes(length) ? length : Math.max(...lengths);
}
