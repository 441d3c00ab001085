import { fork } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { checkModelFile } from '../../../lambda/onnx/modelFile.ts';
import { type ProfileFile, runtimeVersion, thisMachine } from '../../../lambda/onnx/profileFile.ts';
import { locate } from '../../../lambda/onnx/repository.ts';
import { powersOfTwoUpTo } from '../../../lambda/onnx/warmUp.ts';
import { modelDigest } from '../../../lambda/onnx/weights.ts';
import { ownVersion } from '../../arguments.ts';
import { duration } from '../../format.ts';
import type { Limits, Size, Started, StartTask, Target, Task, Timed, Told } from './measureTasks.ts';

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
/** A start that takes more of the time is not repeated. */
const STARTS_OF_TIME = 7;
/** Of each size; sizes double, so that all up to one take twice its time. */
const ROUNDS = 7;
const MIN_SLOW_MS = 100;

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

  const findings: string[] = [];
  const find: Find = (finding) => void findings.push(finding);
  const { started, coldStart } = await startOften(target, (1000 * seconds) / STARTS_OF_TIME, find, within(0, STARTED));
  const threads = threadCounts(started);
  const slowMs = (1000 * seconds) / (threads.length * ROUNDS * 2 * started.lengths.length);
  const limits = { allowedSizes: started.allowedSizes, slowMs: Math.max(MIN_SLOW_MS, slowMs) };
  const reached = await reachOf(target, started, limits, find, within(STARTED, REACHED));
  const { safety } = started;
  const sizes = !safety.sharesRuns ? reached.filter(({ rows }) => rows === 1) : reached;
  const timed = await timeAll(target, sizes, threads, limits, 1000 * seconds, find, within(REACHED, 1));

  const table = timed.map(({ rows, length, threads, medianMs, spread }) => {
    const size = reached.find((one) => one.rows === rows && one.length === length) as Reached;
    const rowsPerSecond = (1000 * rows) / medianMs;
    return { rows, length, threads, medianMs, spread, rowsPerSecond, peakRssBytes: size.peakRssBytes };
  });
  const lengths = table.map(({ length }) => length);
  return {
    model: started.model,
    version: started.version,
    path: started.path,
    digest: await modelDigest(started.path),
    date: new Date().toISOString(),
    machine: thisMachine(),
    provider: started.provider,
    versions: { batchscore: ownVersion(), node: process.versions.node, onnxruntime: runtimeVersion() },
    threads: table.some((run) => run.threads === started.threads) ? started.threads : (table[0]?.threads ?? 1),
    // The longest that runs, where ordinary rows do not.
    length: lengths.includes(started.length) ? started.length : Math.max(...lengths),
    safety,
    coldStart,
    table,
    findings,
    requestBytes: started.requestBytes,
  };
}

/** Told a sentence on what a host would warn of, what failed, or what could not be measured. */
type Find = (finding: string) => void;

interface Starts {
  readonly started: Started;
  /** Medians of the parts. */
  readonly coldStart: ProfileFile['coldStart'];
}

const AS_DEPLOYED = { isLimited: false };
const STARTS = 3;

/**
 * Starts a model as a host does, each time in a process of its own. Where that ends the process, it is started with runs of
 * one row.
 *
 * @param longMs a start that takes longer is not repeated
 * @param onProgress told the share of the starts that is done
 * @throws Error saying what a host would refuse, or why the model cannot be started
 */
async function startOften(
  target: Target,
  longMs: number,
  find: Find,
  onProgress: (share: number) => void,
): Promise<Starts> {
  const first = await startOnce({ ...target, ...AS_DEPLOYED }, find);
  if ('by' in first) return startedWithOneRow(target, first, find);
  const { processMs, libraryMs, loadMs, warmUpMs } = first.start;
  const all = [first];
  while (all.length < STARTS && processMs + libraryMs + loadMs + warmUpMs < longMs) {
    onProgress(all.length / STARTS);
    const again = await startOnce({ ...target, ...AS_DEPLOYED });
    if ('by' in again) break;
    all.push(again);
  }
  return { started: first, coldStart: mediansOf(all) };
}

/**
 * One start in a process of its own.
 *
 * @param warn told what a host would warn of
 * @returns what ended it, where it was not started
 */
async function startOnce(
  task: Omit<StartTask, 'do' | 'askedAt'>,
  warn: (message: string) => void = () => {},
): Promise<Started | Crash> {
  let started: Started | undefined;
  const askedAt = performance.timeOrigin + performance.now();
  const crash = await runChild({ ...task, do: 'start', askedAt }, (told) => {
    if (told.kind === 'warning') warn(told.text);
    if (told.kind === 'started') ({ started } = told);
  });
  return started ?? crash ?? { by: 'nothing that it told', said: '' };
}

async function startedWithOneRow(target: Target, crash: Crash, find: Find): Promise<Starts> {
  const started = await startOnce({ ...target, maxBatchRows: 1, isLimited: true });
  if ('by' in started) {
    throw new Error(`${target.path}: expected the model to start, its process ended (${describeCrash(started)})`);
  }
  find(
    `a start with runs of up to ${target.maxBatchRows} rows ended its process (${describeCrash(crash)}), as it would end a ` +
      'host: the checks of rows ran more of them than the model survives',
  );
  return { started: { ...started, maxRows: target.maxBatchRows }, coldStart: mediansOf([started]) };
}

function mediansOf(all: readonly Started[]): Starts['coldStart'] {
  const medianOf = (part: keyof Starts['coldStart']): number => {
    const sorted = all.map(({ start }) => start[part]).toSorted((a, b) => a - b);
    return sorted[sorted.length >> 1] as number;
  };
  return {
    processMs: medianOf('processMs'),
    libraryMs: medianOf('libraryMs'),
    loadMs: medianOf('loadMs'),
    warmUpMs: medianOf('warmUpMs'),
  };
}

/** A size that runs, in a process of its own. */
interface Reached extends Size {
  /** The most memory of a process that ran no more rows than these, and none longer. */
  readonly peakRssBytes: number;
}

/**
 * Finds out what a model can be run at: each row count in a process of its own, fewer rows first. Where a row count failed at
 * a length, ended the process or took too long, no more rows of that length are tried.
 *
 * @param onProgress told the share of the counts that is done
 * @returns fewer rows first
 * @throws Error where it does not run with the first of them
 */
async function reachOf(
  target: Target,
  { allowedSizes, maxRows, lengths: all, requestBytes }: Started,
  limits: Limits,
  find: Find,
  onProgress: (share: number) => void,
): Promise<Reached[]> {
  const counts = allowedSizes.length > 0 ? allowedSizes : powersOfTwoUpTo(maxRows);
  const reached: Reached[] = [];
  let lengths = all;
  for (const [index, rows] of counts.entries()) {
    if (lengths.length === 0) break;
    const tried = await tryRows(target, rows, lengths, limits);
    reached.push(...tried.reached);
    if (reached.length === 0) throw new Error(runsAtNothing(tried, requestBytes === undefined));
    findingsOf(tried, rows, counts[index - 1], all.length > 1).forEach(find);
    lengths = tried.goOn;
    onProgress((index + 1) / counts.length);
  }
  return reached;
}

/** What became of the runs of so many rows. */
interface Tried {
  readonly reached: readonly Reached[];
  readonly failed: readonly { readonly length: number; readonly reason: string }[];
  readonly slow: { readonly length: number; readonly runMs: number } | undefined;
  readonly crashed: (Crash & { readonly length: number }) | undefined;
  /** Lengths of which more rows may be tried. */
  readonly goOn: readonly number[];
}

async function tryRows(target: Target, rows: number, lengths: readonly number[], limits: Limits): Promise<Tried> {
  const reached: Reached[] = [];
  const failed: { length: number; reason: string }[] = [];
  const goOn: number[] = [];
  let slow: Tried['slow'];
  let trying = lengths[0] as number;
  const crash = await runChild({ ...target, do: 'reach', rows, lengths, limits }, (told) => {
    if (told.kind === 'trying') trying = told.size.length;
    else if (told.kind === 'failed') failed.push({ length: told.size.length, reason: told.reason });
    else if (told.kind === 'ran') {
      const { size, runMs, peakRssBytes } = told;
      reached.push({ ...size, peakRssBytes });
      if (runMs > limits.slowMs) slow = { length: size.length, runMs };
      else goOn.push(size.length);
    }
  });
  return { reached, failed, slow, goOn, crashed: crash && { ...crash, length: trying } };
}

function findingsOf(
  { failed, crashed, slow }: Tried,
  rows: number,
  fewer: number | undefined,
  hasLengths: boolean,
): string[] {
  const of = (length: number): string =>
    `${rows} ${rows === 1 ? 'row' : 'rows'}${hasLengths ? ` of length ${length}` : ''}`;
  const cure = fewer === undefined ? '' : `; set "maxBatchRows" to ${fewer} in config.json`;
  const [first] = failed;
  return [
    ...(first === undefined ? [] : [`a run of ${of(first.length)} failed: ${first.reason}${cure}`]),
    ...(crashed === undefined
      ? []
      : [
          `a run of ${of(crashed.length)} ended its process (${describeCrash(crashed)}), as it would end a host${cure}`,
        ]),
    ...(slow === undefined
      ? []
      : [`runs of more than ${of(slow.length)} were not tried: one took ${duration(slow.runMs)}`]),
  ];
}

function runsAtNothing({ failed: [first], crashed }: Tried, isMadeUp: boolean): string {
  if (crashed !== undefined) return `expected the model to run, its process ended (${describeCrash(crashed)})`;
  return (
    `expected the model to run with ${isMadeUp ? 'made-up values' : 'the requests of samples.jsonl'}, got: ` +
    `${first?.reason}; put ${isMadeUp ? 'real requests' : 'others'} into samples.jsonl beside config.json`
  );
}

interface TimedWith extends Timed {
  readonly threads: number;
}

/** One thread, a few, and all; one number where config.json gives it, and where not the cores run the model. */
function threadCounts({ threads, hasGivenThreads, provider }: Started): number[] {
  if (hasGivenThreads || provider !== 'cpu') return [threads];
  const all = availableParallelism();
  return [...new Set([1, 2, 4, all, threads])].filter((count) => count <= all).toSorted((a, b) => a - b);
}

/**
 * Times runs of all sizes with each number of threads, in a process for each.
 *
 * @param enoughMs of all together, from which on only what was begun is finished
 * @param onProgress told the share of the time that is over
 * @throws Error where nothing could be timed
 */
export async function timeAll(
  target: Target,
  sizes: readonly Size[],
  counts: readonly number[],
  limits: Limits,
  enoughMs: number,
  find: Find,
  onProgress: (share: number) => void,
): Promise<TimedWith[]> {
  const all: TimedWith[] = [];
  const failed: Size[] = [];
  const failures: string[] = [];
  for (const [index, threads] of counts.entries()) {
    const task = { ...target, do: 'time', sizes, threads, limits, enoughMs: enoughMs / counts.length } as const;
    const crash = await runChild(task, (told) => {
      if (told.kind === 'timed') all.push(...told.timed.map((one) => ({ ...one, threads })));
      if (told.kind === 'failed') {
        const { rows, length } = told.size;
        failed.push(told.size);
        failures.push(
          `with ${threads} threads, ${rows} rows of length ${length} failed after runs of other sizes, and are not timed: ${told.reason}`,
        );
      }
      if (told.kind === 'progress') onProgress((index + told.share) / counts.length);
    });
    if (crash === undefined) continue;
    failures.push(
      `with ${threads} threads the runs ended their process (${describeCrash(crash)}): none of them is timed`,
    );
  }
  // What fails with some number of threads is left out of all, so that each has the same sizes.
  const timed = all.filter((one) => !failed.some(({ rows, length }) => rows === one.rows && length === one.length));
  if (timed.length === 0) throw new Error(failures[0]);
  failures.forEach(find);
  const unstable = timed.filter(({ isStable }) => !isStable).length;
  if (unstable > 0) {
    find(
      `the medians of ${unstable} of ${timed.length} sizes were not stable within the time: allow more with --seconds, ` +
        'and leave the machine alone meanwhile',
    );
  }
  return timed;
}

/** What ended a process that was not done: a signal, such as `SIGKILL`, or an exit code. */
interface Crash {
  readonly by: string;
  /** What it last wrote, in one line. */
  readonly said: string;
}

const RUNS_FROM_SOURCE = import.meta.url.endsWith('.ts');
const CHILD = fileURLToPath(new URL(`./measureChild.${RUNS_FROM_SOURCE ? 'ts' : 'js'}`, import.meta.url));
const MAX_CHARACTERS = 2_000;
/** A process that tells nothing for so long is taken to hang. */
const SILENT_MS = 120_000;

/**
 * Has a process of its own do a task.
 *
 * @param onTold hears all that it tells
 * @returns why it ended before it was done; undefined where it did not
 * @throws Error that it told
 */
async function runChild(task: Task, onTold: (told: Told) => void): Promise<Crash | undefined> {
  const child = fork(CHILD, { stdio: ['ignore', 'ignore', 'pipe', 'ipc'], serialization: 'advanced' });
  let [said, message] = ['', undefined as string | undefined];
  let isHanging = false;
  const hang = (): void => {
    isHanging = true;
    child.kill('SIGKILL');
  };
  let silence = setTimeout(hang, SILENT_MS);
  child.stderr?.setEncoding('utf8').on('data', (chunk) => {
    said = `${said}${chunk}`.slice(-MAX_CHARACTERS);
  });
  child.on('message', (told: Told) => {
    clearTimeout(silence);
    silence = setTimeout(hang, SILENT_MS);
    if (told.kind === 'error') ({ message } = told);
    else onTold(told);
  });
  // A process that has just died takes no task: its end says why.
  child.send(task, () => {});
  const [code, signal] = await once(child, 'close');
  clearTimeout(silence);
  if (message !== undefined) throw new Error(message);
  if (code === 0) return undefined;
  const by = isHanging ? `no sign of life for ${SILENT_MS / 1000} s` : (signal ?? `exit code ${code}`);
  return { by, said: said.trim().split('\n').at(-1) ?? '' };
}

function describeCrash({ by, said }: Crash): string {
  const known = by === 'SIGKILL' ? 'SIGKILL, as the system ends a process when memory ends' : by;
  return said === '' ? known : `${known}: ${said}`;
}
