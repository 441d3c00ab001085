import { fork } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { locate } from '../../../lambda/onnx/findModels.ts';
import { checkModelFile } from '../../../lambda/onnx/modelFile.ts';
import { type ProfileFile, runtimeVersion, thisMachine } from '../../../lambda/onnx/profileFile.ts';
import { powersOfTwoUpTo } from '../../../lambda/onnx/warmUp.ts';
import { modelDigest } from '../../../lambda/onnx/weights.ts';
import { ownVersion } from '../../arguments.ts';
import { duration } from '../../format.ts';
import type { Limits, Size, Started, StartTask, Target, Task, Timed, Told } from './measureTasks.ts';

/** Measurement of a model, as `profile.json` stores it. */
export interface Measurement extends Omit<ProfileFile, 'schemaVersion' | 'recommendation'> {
  readonly path: string;
  /** Bytes of a real request. Undefined if there are no samples. */
  readonly requestBytes: number | undefined;
}

export interface MeasureOptions {
  readonly maxBatchRows: number;
  /** Execution providers, first choice first. */
  readonly providers: readonly string[];
  /** Maximum time for timing, except for runs that have started. */
  readonly seconds: number;
  readonly onProgress: (share: number) => void;
}

/** Progress after the start, and after the search for sizes. */
const STARTED = 0.1;
const REACHED = 0.45;
/** Minimum rounds of a size. The sizes double, so that all sizes up to one take twice its time. */
const ROUNDS = 7;
const MIN_SLOW_MS = 100;

/**
 * Measures a model on this machine, in child processes: its start, the sizes at which it runs and their memory, the
 * independence of its rows, and the run times.
 *
 * @param path a model folder or a `.onnx` file
 * @throws Error if the model cannot be opened or does not run
 */
export async function measureModel(path: string, options: MeasureOptions): Promise<Measurement> {
  const { maxBatchRows, providers, seconds, onProgress } = options;
  const within = (from: number, to: number) => (share: number) => onProgress(from + share * (to - from));
  checkModelFile((await locate(path)).path);
  const target: Target = { path, maxBatchRows, providers };

  const findings: string[] = [];
  const find: Find = (finding) => void findings.push(finding);
  const started = await start(target, find);
  onProgress(STARTED);
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
    // If ordinary rows do not run, this is the longest length that does.
    length: lengths.includes(started.length) ? started.length : Math.max(...lengths),
    safety,
    coldStart: started.start,
    table,
    findings,
    requestBytes: started.requestBytes,
  };
}

/** Takes a sentence about a warning of the host, a failure, or a size that could not be measured. */
type Find = (finding: string) => void;

/**
 * Starts a model as a host does. If the process crashes, it tries again with runs of one row.
 *
 * @throws Error with the reason that a host would refuse the model, or that it cannot start
 */
async function start(target: Target, find: Find): Promise<Started> {
  const first = await startOnce({ ...target, isLimited: false }, find);
  if (!('by' in first)) return first;
  const started = await startOnce({ ...target, maxBatchRows: 1, isLimited: true }, () => {});
  if ('by' in started) {
    throw new Error(`${target.path}: expected the model to start, its process ended (${describeCrash(started)})`);
  }
  find(
    `a start with runs of up to ${target.maxBatchRows} rows ended its process (${describeCrash(first)}), as it would end a ` +
      'host: the checks of rows ran more of them than the model survives',
  );
  return { ...started, maxRows: target.maxBatchRows };
}

/**
 * Starts a model once in a new process.
 *
 * @param warn takes the warnings of a host
 * @returns the crash if the model did not start
 */
async function startOnce(task: Omit<StartTask, 'do' | 'askedAt'>, warn: Find): Promise<Started | Crash> {
  let started: Started | undefined;
  const askedAt = performance.timeOrigin + performance.now();
  const crash = await runChild({ ...task, do: 'start', askedAt }, (told) => {
    if (told.kind === 'warning') warn(told.text);
    if (told.kind === 'started') ({ started } = told);
  });
  return started ?? crash ?? { by: 'nothing that it told', said: '' };
}

/** Size that runs, measured in its own process. */
interface Reached extends Size {
  /** Peak memory of a process that ran at most these rows and lengths. */
  readonly peakRssBytes: number;
}

/**
 * Finds the sizes at which a model runs. It tries each row count in a new process, fewer rows first. If a row count
 * fails at a length, crashes the process or takes too long, it tries no more rows of that length.
 *
 * @param onProgress takes the share of the row counts that is done
 * @returns the sizes, fewer rows first
 * @throws Error if the model does not run at the first row count
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

interface Tried {
  readonly reached: readonly Reached[];
  readonly failed: readonly { readonly length: number; readonly reason: string }[];
  readonly slow: { readonly length: number; readonly runMs: number } | undefined;
  readonly crashed: (Crash & { readonly length: number }) | undefined;
  /** Lengths at which more rows may run. */
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

/**
 * Returns the numbers of threads to measure: one, a few, and all. It returns one number if config.json sets it, or if
 * the model does not run on the CPU.
 */
function threadCounts({ threads, hasGivenThreads, provider }: Started): number[] {
  if (hasGivenThreads || provider !== 'cpu') return [threads];
  const all = availableParallelism();
  return [...new Set([1, 2, 4, all, threads])].filter((count) => count <= all).toSorted((a, b) => a - b);
}

/**
 * Times runs of all sizes with each number of threads, in one process for each number.
 *
 * @param enoughMs total time. After it, only runs in progress finish.
 * @param onProgress takes the share of the time that has passed
 * @throws Error if no run could be timed
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
  // A size that fails with one number of threads is omitted from all, so that all have the same sizes.
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

/** Cause of a process's early exit: a signal, such as `SIGKILL`, or an exit code. */
interface Crash {
  readonly by: string;
  /** Last output of the process, in one line. */
  readonly said: string;
}

const RUNS_FROM_SOURCE = import.meta.url.endsWith('.ts');
const CHILD = fileURLToPath(new URL(`./measureChild.${RUNS_FROM_SOURCE ? 'ts' : 'js'}`, import.meta.url));
const MAX_CHARACTERS = 2_000;
/** Time without a message after which a process counts as stuck. */
const SILENT_MS = 120_000;

/**
 * Runs a task in a child process.
 *
 * @param onTold takes the messages of the process
 * @returns the crash if the process ended early, otherwise undefined
 * @throws Error that the process reported
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
  // A process that has just ended cannot receive the task. Its exit code gives the reason.
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
